"""`millstream.sql`: a query over streams as a DuckDB relation, in the caller's own process."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb

from millstream.lake.catalog import CatalogSettings, catalog_at
from millstream.lake.library import TableLibrary
from millstream.link.options import LinkOptions
from millstream.queries.errors import SqlError
from millstream.queries.reading import QueryReader
from millstream.queries.session import add_relations, check_statement, one_line, open_session, relation_names
from millstream.queries.table_access import TableAccess
from millstream.tables.source import TableSource
from millstream.tables.table import DEFAULT_SERVER, connection_to


def sql(
    query: str,
    *,
    server: str | Sequence[str] | LinkOptions = DEFAULT_SERVER,
    lake: str | Path | CatalogSettings | None = None,
    **options: Any,
) -> Any:
    """Return the result of a query over streams and buckets as a DuckDB relation, which reads when used.

    Streams are relations by their names, buckets are `kv.NAME`; tables of pandas, Polars and pyarrow in
    variables of the caller are relations, too.  With `lake`, the warehouse folder of a catalog, a TOML file
    with a section `catalog`, or settings, its tables are relations (`namespace.table`), and `whole.NAME` is
    a stream with its archive.  `options` are the other fields of `LinkOptions`.  Raises
    SqlError for a wrong query, StreamMissing, NotAllowed or SourceUnavailable, and LakeError.
    """
    source = TableSource(connection_to(server, options), name="millstream/sql")
    connection = open_session({"python_enable_replacements": False})  # it would find variables of this module
    check_statement(connection, query)
    tables = None if lake is None else TableAccess(TableLibrary(catalog_at(lake)))
    reader = QueryReader(source, tables)
    found = {name: reader.resolve(name) for name in relation_names(connection, query)}
    add_relations(connection, found, found.__getitem__, reader.batches)
    for name, place in found.items():
        if place is None and not name.schema:
            _add_variable(connection, name.name, sys._getframe(1))
    try:
        return connection.sql(query)
    except duckdb.CatalogException as error:
        raise reader.complaint() or SqlError(one_line(error)) from None
    except duckdb.Error as error:
        raise SqlError(one_line(error)) from None


def _add_variable(connection: Any, name: str, frame: FrameType) -> None:
    """Make a variable of the caller, or of whoever called that, a relation if it is a table."""
    for value in _variables(name, frame):
        with contextlib.suppress(duckdb.Error, RuntimeError, TypeError):  # no table
            connection.register(name, value)
            return


def _variables(name: str, frame: FrameType | None) -> Iterator[Any]:
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals):
            if name in scope:
                yield scope[name]
        frame = frame.f_back
