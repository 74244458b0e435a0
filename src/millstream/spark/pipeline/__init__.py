"""A pipeline: a TOML file of jobs, checked, and run in one Spark session.

``load`` reads the file, ``check``, ``server_check`` and ``sql_check`` find what cannot work, ``connection``
turns ``[nats]`` into options of the data source, ``session`` makes the Spark session, ``runner`` runs the
jobs, ``progress`` and ``view`` tell how far they are.  Not here: what a job does (`millstream.spark.jobs`).
"""
