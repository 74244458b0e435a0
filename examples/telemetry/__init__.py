"""Telemetry: devices, a bucket of their names, Spark, Iceberg tables, SQL and a plot."""
