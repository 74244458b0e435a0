"""The jobs around streams: each is a function over DataFrames and a `run` that starts it from its settings.

``settings`` declares every key of a job once; ``context`` is passed to every job.  ``table`` is the Parquet
table that archive and transform write and that replay and verify read.  Not here: the file that describes a
pipeline, and running several jobs of it (`millstream.spark.pipeline`).
"""
