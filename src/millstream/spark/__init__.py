"""Streams as Spark tables: `format("jetstream")` for reading and writing, and the jobs around it.

The only package that imports pyspark.  It works with any NATS server.  This file imports nothing, because
every Python worker of Spark imports the package and most need little of it.
"""
