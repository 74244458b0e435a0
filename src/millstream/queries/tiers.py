"""A stream and its archive as one relation: each message once, although archives and purges go on.

    before `first`         the stream, as far as it has such messages
    `first` to `next` - 1  the table; its progress says what `first` and `next` are
    from `next` on         the stream

A purge may remove messages from the stream after the archive has committed them and before they are read
here.  So the stream's first sequence is asked for after each batch that is not known to be complete: if it
has passed the place that was read to, the table is loaded again, and reading continues there.  Messages that
are gone from the stream and are in no table are left out, and the statistics name them.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from millstream.lake.errors import TableRefused
from millstream.lake.library import ArchivedStream, archived_streams, table_name
from millstream.queries.statistics import ScanStatistics
from millstream.queries.table_scan import TableScanner, of_stream
from millstream.subjects.match import matches
from millstream.tables.schema import stream_schema
from millstream.tables.source import Selection, TableSource
from millstream.tables.stream_range import StreamRange

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Adds the statistics of a planned range, and returns them.
Noted = Callable[[StreamRange, Selection], ScanStatistics]


class TieredReading:
    """One scan of a stream and its archive."""

    def __init__(
        self,
        source: TableSource,
        stream: str,
        load: "Callable[[], Table]",
        scanner: TableScanner,
        noted: Noted,
    ) -> None:
        self._source = source
        self._stream = stream
        self._load = load
        self._scanner = scanner
        self._noted = noted

    def batches(self, table: "Table", selection: Selection) -> Iterator[Any]:
        """Yield the selected messages; those of the table come in the order of its files."""
        at = self._place_in(table)
        subjects = within(selection.subjects, at.filter)
        if subjects == ():
            return
        wanted = replace(selection, subjects=subjects, columns=_with_seq(selection.columns))
        form = stream_schema(selection.columns)
        for batch in self._parts(table, at, wanted):
            yield batch.select(form.names)

    def _parts(self, table: "Table", at: ArchivedStream, selection: Selection) -> Iterator[Any]:
        if selection.low < at.first:
            early = replace(selection, high=_lower(selection.high, at.first - 1))
            for part, seen in self._planned(early):
                yield from _counted(self._source.read(part, early.columns), seen)
        position = max(selection.low, at.first)
        while True:
            if position < at.next:
                old = replace(selection, low=position, high=_lower(selection.high, at.next - 1))
                yield from self._table_rows(table, old)
                position = at.next
            if selection.high is not None and position > selection.high:
                return
            found = yield from self._rest(replace(selection, low=position))
            if found is None:
                return
            table, position = found
            at = self._place_in(table)

    def _rest(self, selection: Selection) -> "Generator[Any, None, tuple[Table, int] | None]":
        """Yield the stream's part; return a newer table and where to continue in it, None at the end."""
        done = selection.low - 1  # all messages up to here are accounted for
        for part, seen in self._planned(selection):
            for batch in _counted(self._source.read(part, selection.columns), seen):
                numbers = batch.column("seq")
                first, last = numbers[0].as_py(), numbers[-1].as_py()
                if last - done != batch.num_rows and (newer := self._newer(done, first - 1, seen)):
                    seen.messages -= batch.num_rows
                    seen.bytes -= batch.nbytes
                    return newer, done + 1
                yield batch
                done = last
            if done < part.high and (newer := self._newer(done, part.high, seen)):
                return newer, done + 1
            return None
        return None

    def _planned(self, selection: Selection) -> Iterator[tuple[StreamRange, ScanStatistics]]:
        part = self._source.plan(self._stream, selection)
        yield part, self._noted(part, selection)

    def _newer(self, done: int, before: int, seen: ScanStatistics) -> "Table | None":
        """Return the table if it has got messages behind `done` that the stream has lost."""
        first = self._source.facts(self._stream).first
        if first <= done + 1:
            return None
        table = self._load()
        if self._place_in(table).next > done + 1:
            return table
        if done < min(first - 1, before):
            seen.gaps.append((done + 1, min(first - 1, before)))
        return None

    def _table_rows(self, table: "Table", selection: Selection) -> Iterator[Any]:
        has_size = "size" in selection.columns
        names = [name for name in selection.columns if name != "size"]
        needed = [*names, "data"] if has_size and "data" not in names else names
        form = stream_schema(selection.columns)
        for batch in self._scanner.rows(table, of_stream(self._stream, selection), needed, self._stream):
            columns = [
                pc.binary_length(batch.column("data")).cast(pa.int32())
                if name == "size"
                else batch.column(name)
                for name in form.names
            ]
            yield pa.RecordBatch.from_arrays(columns, names=form.names).cast(form)

    def _place_in(self, table: "Table") -> ArchivedStream:
        """Return how far the stream is in the table; raise TableRefused if it is another stream's."""
        at = archived_streams(table, kind="archive").get(self._stream)
        facts = self._source.facts(self._stream)
        if at is None or at.id != facts.id:
            raise TableRefused(
                f"stream {self._stream} was deleted and created again: its messages do not follow those of "
                f"table {table_name(table)}; query each by its own name"
            )
        return at


def within(subjects: Sequence[str] | None, filter: Sequence[str]) -> tuple[str, ...] | None:
    """Return the subjects that an archive's filter lets pass; None for all, the filter for all of its own."""
    if not filter:
        return None if subjects is None else tuple(subjects)
    if subjects is None:
        return tuple(filter)
    return tuple(one for one in subjects if any(matches(one.encode(), each.encode()) for each in filter))


def _with_seq(columns: tuple[str, ...]) -> tuple[str, ...]:
    return columns if "seq" in columns else (*columns, "seq")


def _lower(high: int | None, bound: int) -> int:
    return bound if high is None else min(high, bound)


def _counted(batches: Iterator[Any], seen: ScanStatistics) -> Iterator[Any]:
    for batch in batches:
        if batch.num_rows:
            seen.messages += batch.num_rows
            seen.bytes += batch.nbytes
            yield batch
