"""`millstream.sql`: a query over streams as a DuckDB relation, in the caller's own process."""

from collections.abc import Sequence
from typing import Any

import duckdb

from millstream.link.options import LinkOptions
from millstream.queries.errors import SqlError
from millstream.queries.lookup import StreamLookup
from millstream.queries.reading import opener_of
from millstream.queries.session import add_relations, check_statement, one_line, open_session, relation_names
from millstream.tables.source import TableSource
from millstream.tables.table import DEFAULT_SERVER, connection_to


def sql(query: str, *, server: str | Sequence[str] | LinkOptions = DEFAULT_SERVER, **options: Any) -> Any:
    """Return the result of a query over streams and buckets as a DuckDB relation, which reads when used.

    Streams are relations by their names, buckets are `kv.NAME`; tables of pandas, Polars and pyarrow in
    variables of the caller are relations, too.  `options` are the other fields of `LinkOptions`.  Raises
    SqlError for a wrong query, and StreamMissing, NotAllowed or SourceUnavailable.
    """
    source = TableSource(connection_to(server, options), name="millstream/sql")
    connection = open_session({"python_scan_all_frames": True})
    check_statement(connection, query)
    lookup = StreamLookup(source)
    add_relations(connection, relation_names(connection, query), lookup, opener_of(source))
    try:
        return connection.sql(query)
    except duckdb.CatalogException as error:
        raise lookup.complaint() or SqlError(one_line(error)) from None
    except duckdb.Error as error:
        raise SqlError(one_line(error)) from None
