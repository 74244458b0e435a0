"""A stream as a table of pandas, Polars or pyarrow in one line: `millstream.table("ORDERS").pandas()`."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from millstream.link.errors import BadLinkOptions
from millstream.link.options import LinkOptions, parse_servers
from millstream.tables.errors import OptionError
from millstream.tables.schema import USUAL_COLUMNS, stream_schema
from millstream.tables.source import Selection, TableSource
from millstream.tables.stream_range import Fetching

DEFAULT_SERVER: Final = "nats://127.0.0.1:4222"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StreamTable:
    """A part of a stream.  Each call reads it anew, up to the message that is the last one at that moment."""

    def __init__(self, stream: str, source: TableSource, selection: Selection) -> None:
        self._stream = stream
        self._source = source
        self._selection = selection

    def __repr__(self) -> str:
        return f"<stream {self._stream} on {self._source.connection}: {', '.join(self._selection.columns)}>"

    @property
    def schema(self) -> Any:
        """The pyarrow schema."""
        return stream_schema(self._selection.columns)

    def batches(self) -> Iterator[Any]:
        """Yield pyarrow record batches in order, in constant memory."""
        try:
            yield from self._source.batches(self._stream, self._selection)
        finally:
            self._source.close()

    def reader(self) -> Any:
        """Return a pyarrow RecordBatchReader, which DuckDB, Polars and pyarrow read batch by batch."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def arrow(self) -> Any:
        """Return all rows as a pyarrow Table."""
        return self.reader().read_all()

    def pandas(self) -> Any:
        """Return all rows as a DataFrame of pandas."""
        return self.arrow().to_pandas()

    def polars(self) -> Any:
        """Return all rows as a DataFrame of Polars."""
        import polars

        return polars.from_arrow(self.arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows to whatever reads Arrow streams."""
        return self.reader().__arrow_c_stream__(requested_schema)


def table(
    stream: str,
    /,
    *,
    server: str | Sequence[str] | LinkOptions = DEFAULT_SERVER,
    columns: Sequence[str] = USUAL_COLUMNS,
    subjects: str | Sequence[str] = (),
    first: int = 1,
    last: int | None = None,
    since: datetime | timedelta | None = None,
    until: datetime | None = None,
    transport: str = "auto",
    **options: Any,
) -> StreamTable:
    """Return a stream of any NATS server as a table; nothing is read yet.

    `first` and `last` are sequences, `since` is a time or how long ago, and `subjects` may have wildcards.
    `options` are the other fields of `LinkOptions`, such as `user` and `password`.  Raises OptionError here,
    and StreamMissing, NotAllowed or SourceUnavailable when rows are read.
    """
    stream_schema(columns)
    selection = Selection(
        columns=tuple(columns),
        low=first,
        high=last,
        from_ns=None if since is None else _nanoseconds(since),
        until_ns=None if until is None else _nanoseconds(until),
        subjects=((subjects,) if isinstance(subjects, str) else tuple(subjects)) or None,
    )
    fetching = Fetching(transport=transport, fail_on_data_loss=False)
    return StreamTable(
        stream,
        TableSource(connection_to(server, options), name="millstream/table", fetching=fetching),
        selection,
    )


def connection_to(
    server: str | Sequence[str] | LinkOptions, options: dict[str, Any] | None = None
) -> LinkOptions:
    """Return how to connect; raise OptionError for an address or an option that means nothing."""
    if isinstance(server, LinkOptions):
        return server
    known = {field.name for field in fields(LinkOptions)} - {"servers"}
    for name in options or ():
        if name not in known:
            raise OptionError(f"there is no option {name!r}; options are {', '.join(sorted(known))}")
    try:
        return LinkOptions(servers=parse_servers(server), **(options or {}))
    except BadLinkOptions as error:
        raise OptionError(str(error)) from None


def _nanoseconds(moment: datetime | timedelta) -> int:
    if isinstance(moment, timedelta):
        moment = datetime.now(UTC) - moment
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
