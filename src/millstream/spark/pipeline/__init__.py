"""A pipeline: a TOML file of jobs, checked and run in one Spark session.

``load`` reads the file; ``check``, ``server_check`` and ``sql_check`` find errors before a run;
``connection`` turns ``[nats]`` into options of the data source; ``session`` starts Spark; ``runner`` runs the
jobs; ``progress`` and ``view`` report their progress.  Not here: what a job does (`millstream.spark.jobs`).
"""
