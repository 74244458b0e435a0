"""Streams as Spark tables: `format("jetstream")` for reading and writing, and the jobs around it.

The only package that imports pyspark.  It talks to any NATS server over the wire.  Nothing is imported here:
every Python worker of Spark imports this package, most need little of it.
"""
