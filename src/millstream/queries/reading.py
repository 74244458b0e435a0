"""The reading for a query: what its names mean, and the rows of its scans.

Streams of buckets are read on until nothing has come meanwhile.  A bucket that keeps one entry for each key
drops it when the next one comes.  A key that is written again while the bucket is read may be missed in the
range that was planned; its new entry is behind it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from millstream.base.errors import MillstreamError
from millstream.lake.errors import LakeError, TableMissing
from millstream.queries.lookup import StreamLookup
from millstream.queries.relations import (
    BUCKET_PREFIX,
    OWN_SCHEMAS,
    WHOLE,
    FoundRelation,
    RelationName,
    RelationPart,
)
from millstream.queries.statistics import ScanStatistics
from millstream.queries.table_access import TableAccess
from millstream.tables.errors import OptionError
from millstream.tables.schema import stream_schema
from millstream.tables.source import Selection, TableSource
from millstream.tables.stream_range import StreamRange

if TYPE_CHECKING:
    from pyiceberg.table import Table

_OF_DUCKDB: Final = frozenset({"information_schema", "main", "pg_catalog"})  # schemas
_MOST_ROUNDS: Final = 5  # after that, what comes during one short round is left to the next query


class QueryReader:
    """Finds and reads the relations of one query; only what was found can be read."""

    def __init__(self, source: TableSource, tables: TableAccess | None = None) -> None:
        self._source = source
        self._access = tables
        self._lookup = StreamLookup(source)
        self._streams: set[str] = set()
        self._tables: dict[str, Table] = {}  # loaded tables, as of the beginning of the query
        self._missing: MillstreamError | None = None

    def resolve(self, name: RelationName) -> FoundRelation | None:
        """Return the place of a relation, or None; raise an error if that cannot be told."""
        if name.schema not in OWN_SCHEMAS:
            return self._table(name)
        stream = self._lookup(name)
        if stream is None:
            return None
        self._streams.add(stream)
        if name.schema != WHOLE:
            return FoundRelation(stream)
        if self._access is None:
            raise LakeError(f"{name} needs the catalog of the archive; say where it is (lake)")
        return FoundRelation(stream, self._keep(self._access.archive_of(stream)))

    def complaint(self) -> MillstreamError | None:
        """Return the error for names that were not found; None if all were."""
        return self._missing or self._lookup.complaint()

    def schema(self, scan: RelationPart) -> Any:
        """Return the columns of a scan's batches; raise OptionError for a scan that was not found before."""
        if (scan.stream and scan.stream not in self._streams) or (
            scan.table and scan.table not in self._tables
        ):
            raise OptionError(f"{scan.stream or scan.table} is not in the query")
        if scan.stream:
            return stream_schema(scan.selection.columns)
        import pyarrow as pa

        from millstream.lake.library import table_schema

        known = table_schema(self._tables[scan.table])
        return pa.schema([known.field(name) for name in scan.selection.columns])

    def batches(
        self, scan: RelationPart, noted: Callable[[ScanStatistics], None] = lambda _: None
    ) -> Iterator[Any]:
        """Yield the rows of a scan; `noted` gets the statistics of each part when its reading begins."""
        if scan.selection.subjects == ():
            return
        if not scan.table:
            for part in planned_ranges(self._source, scan.stream, scan.selection):
                seen = statistics_of(part, scan.selection)
                noted(seen)
                for batch in self._source.read(part, scan.selection.columns):
                    seen.messages += batch.num_rows
                    seen.bytes += batch.nbytes
                    yield batch
            return
        from millstream.queries.table_scan import TableScanner
        from millstream.queries.tiers import TieredReading

        table = self._tables[scan.table]
        scanner = TableScanner(noted)
        if not scan.stream:
            yield from scanner.rows(table, scan.spans, scan.selection.columns)
            return
        assert self._access is not None
        access = self._access

        def note(part: StreamRange, selection: Selection) -> ScanStatistics:
            seen = statistics_of(part, selection)
            noted(seen)
            return seen

        tiers = TieredReading(
            self._source, scan.stream, lambda: access.archive_of(scan.stream), scanner, note
        )
        yield from tiers.batches(table, scan.selection)

    def close(self) -> None:
        """Close the connections of the reading."""
        self._source.close()

    def _table(self, name: RelationName) -> FoundRelation | None:
        if self._access is None:
            if name.schema.lower() not in _OF_DUCKDB:
                self._missing = TableMissing(
                    f"there is no table {name}: no catalog of tables is given (lake)"
                )
            return None
        table = self._access.find(name.schema, name.name)
        if table is None:
            catalog = self._access.library.settings.name
            self._missing = TableMissing(f"there is no table {name} in catalog {catalog}; check the name")
            return None
        from millstream.lake.library import table_schema

        return FoundRelation("", self._keep(table), table_schema(table).serialize().to_pybytes())

    def _keep(self, table: "Table") -> str:
        from millstream.lake.library import table_name

        return table_name(self._tables.setdefault(table_name(table), table))


def planned_ranges(source: TableSource, stream: str, selection: Selection) -> Iterator[StreamRange]:
    """Yield the ranges to read; the next one is planned when the last one has been read."""
    is_open = selection.high is None and selection.until_ns is None
    rounds = _MOST_ROUNDS if is_open and stream.startswith(BUCKET_PREFIX) else 1
    for _ in range(rounds):
        part = source.plan(stream, selection)
        if part.high < part.low:
            return
        yield part
        selection = replace(selection, low=part.high + 1, from_ns=None)


def statistics_of(part: StreamRange, selection: Selection) -> ScanStatistics:
    """Return the statistics of a range, with nothing read yet."""
    columns, subjects = list(selection.columns), list(part.filters)
    return ScanStatistics(part.stream, columns, part.low, part.high, subjects, part.transport, gaps=[])
