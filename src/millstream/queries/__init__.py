"""SQL over streams and buckets: DuckDB on the record batches of `tables`, here or in a process of its own."""
