"""Attach a REST catalog with ClickHouse as a library, and print the answer to each query as JSON."""

import json
import os
import sys
import tempfile

from chdb.session import Session  # type: ignore[import-not-found]


def main(address: str, *queries: str) -> None:
    os.chdir("/")  # it reads no files outside of the folder where it starts
    with tempfile.TemporaryDirectory() as folder:
        session = Session(folder)
        session.query("set allow_database_iceberg = 1")
        session.query(
            f"create database lake engine = DataLakeCatalog('{address}/v1') settings catalog_type = 'rest', "
            "warehouse = 'lake', vended_credentials = false, storage_endpoint = 'file:///'"
        )
        found = []
        for query in queries:
            lines = str(session.query(query, "JSONCompactEachRow")).splitlines()
            found.append([json.loads(line) for line in lines])
        session.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
