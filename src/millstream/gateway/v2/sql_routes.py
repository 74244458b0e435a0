"""SQL over streams and buckets: one query, and its rows in the form that the caller accepts."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from millstream.gateway.v2.calls import Call, Flow, Reply, begun
from millstream.gateway.v2.operations import JSON, NDJSON, Answer, Section, Tag, json_body

section: Final = Section(Tag.READING)

ARROW: Final = "application/vnd.apache.arrow.stream"
CSV: Final = "text/csv"


class SqlQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query."""

    query: Annotated[str, msgspec.Meta(min_length=1, description="one query in DuckDB's SQL")]
    rows: Annotated[int, msgspec.Meta(ge=0, description="most rows; 0 is the gateway's limit")] = 0


class SqlColumn(msgspec.Struct, frozen=True):
    """A column of a result."""

    name: str
    type: Annotated[str, msgspec.Meta(description="type of Arrow, such as int64 or timestamp[us, tz=UTC]")]


class SqlScan(msgspec.Struct, frozen=True):
    """The reading of one scan of a stream or table."""

    stream: str
    columns: list[str]
    first: int
    last: int
    subjects: list[str]
    transport: Annotated[str, msgspec.Meta(description="`iceberg` for rows of a table")]
    messages: int
    bytes: int
    table: Annotated[str, msgspec.Meta(description="the Iceberg table; empty for a stream")]
    files: Annotated[int, msgspec.Meta(description="data files that were not skipped")]
    file_bytes: int
    gaps: Annotated[
        list[tuple[int, int]], msgspec.Meta(description="sequences that neither table nor stream has")
    ]


class SqlStatistics(msgspec.Struct, frozen=True):
    """The reading and the result of a query."""

    rows: int
    truncated: Annotated[bool, msgspec.Meta(description="the result has more rows than the limit")]
    seconds: float
    messages: int
    bytes: int
    scans: list[SqlScan]


class SqlResult(msgspec.Struct, frozen=True):
    """The result of a query; rows have the columns by their names."""

    columns: list[SqlColumn]
    rows: list[dict[str, Any]]
    statistics: SqlStatistics


@section.post(
    "/sql",
    "Ask with SQL",
    body=json_body(SqlQuery, "the query"),
    answers=(
        Answer(
            200,
            "the rows",
            {JSON: SqlResult, NDJSON: dict[str, Any], CSV: {"type": "string"}, ARROW: {"type": "string"}},
        ),
    ),
    problems=(404, 406, 415, 422, 501),
    reads=True,
)
async def ask_with_sql(call: Call) -> Reply:
    """Streams are relations by their names (stream, subject, seq, time, headers, data, size), buckets are
    `kv.NAME` (key, value, revision, operation, time), tables are `namespace.table`, and `whole.NAME` is a
    stream with its archive. The caller's NATS permissions decide what is read. The
    query runs in its own process, without files and network, within limits of memory, time and rows; it ends
    when the caller disconnects."""
    asked = await call.json(SqlQuery)
    media_type = call.accepted(JSON, NDJSON, CSV, ARROW)
    pieces = call.core.queries.pieces(
        asked.query, media_type, call.link.options, asked.rows, is_own=call.link.is_own
    )
    return Flow(media_type, await call.while_there(begun(pieces)))
