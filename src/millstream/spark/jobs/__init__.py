"""The jobs around streams: each a function over DataFrames, plus the lines that start it from its settings.

``settings`` declares every key of a job once; ``context`` is what a job gets to work with.  ``table`` is the
Parquet table that archive and transform write and that replay and verify read.  Not here: the file that
describes a pipeline, and running several jobs of it (`millstream.spark.pipeline`).
"""
