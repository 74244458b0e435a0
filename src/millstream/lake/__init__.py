"""Iceberg tables of streams, without Spark's jars: catalogs, commits that happen once, files, upkeep.

    catalog = open_catalog(CatalogSettings(warehouse="data/lake"))
    table = LakeTable.open(catalog, "sales.orders")
    table.progress()

PyIceberg reads and writes the metadata; `pip install 'millstream[lake]'` brings it.  Not here: Spark
(`spark.jobs.iceberg`), whose tasks write the data files with `data_files`.
"""
