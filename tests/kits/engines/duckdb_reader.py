"""Attach a REST catalog with DuckDB's extension `iceberg`, and print the answer to each query as JSON."""

import json
import sys
from typing import Any

import duckdb
from duckdb_extensions import import_extension  # type: ignore[import-not-found]


def main(address: str, *queries: str) -> None:
    for name in ("httpfs", "avro", "iceberg"):
        import_extension(name)
    connection = duckdb.connect()
    for name in ("httpfs", "avro", "iceberg"):
        connection.execute(f"load {name}")
    connection.execute(
        f"attach 'lake' as lake (type iceberg, endpoint '{address}', authorization_type 'none')"
    )
    found: list[Any] = []
    for query in queries:
        try:
            found.append(connection.sql(query).fetchall())
        except duckdb.Error as error:
            found.append(str(error))
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
