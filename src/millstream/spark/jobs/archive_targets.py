"""The tables that an archive writes, behind one interface: Parquet folders and Iceberg.

Both refuse a batch that does not begin where the last one ended, and a stream that was deleted and created
again under its name: the table would have a hole, or two messages with one sequence.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from millstream.lake.progress import Progress, QueryProgress
from millstream.lake.table import LakeTable, archived
from millstream.lake.upkeep import expire, merge_files
from millstream.spark import option_values
from millstream.spark.jobs.compaction import compact
from millstream.spark.jobs.errors import TableError
from millstream.spark.jobs.iceberg import ARCHIVE, write_batch
from millstream.spark.jobs.inputs import SOURCE
from millstream.spark.jobs.payloads import DAMAGED, dead_rows, good_rows
from millstream.spark.jobs.settings import Archive
from millstream.spark.jobs.table import Manifest, ParquetTable
from millstream.spark.jobs.typed_payload import TypedPayload
from millstream.spark.offsets import Position
from millstream.spark.schema import DEFAULT_COLUMNS

_EXPIRE_EVERY: Final = 20  # batches


class ArchiveTarget(ABC):
    """The table of one archive job."""

    name: str

    @abstractmethod
    def writing(self) -> contextlib.AbstractContextManager[None]:
        """Exclude other writers where the format needs it."""

    @abstractmethod
    def write(self, rows: DataFrame, query: str, batch: int, ranges: Mapping[str, Position]) -> int:
        """Write a batch exactly once, also if it is repeated; return its rows."""

    @abstractmethod
    def has_batch(self, query: str, batch: int) -> bool:
        """Return True if the batch is in the table."""

    @abstractmethod
    def tidy(self, batch: int) -> None:
        """Merge small files and the like, when it is time after a batch."""


class ParquetTarget(ArchiveTarget):
    """A `ParquetTable`."""

    def __init__(self, table: ParquetTable, settings: Archive) -> None:
        self.name = table.root
        self._table = table
        self._settings = settings
        self._last: Mapping[str, Position] | None = None

    def writing(self) -> contextlib.AbstractContextManager[None]:
        return self._table.writing()

    def write(self, rows: DataFrame, query: str, batch: int, ranges: Mapping[str, Position]) -> int:
        if self._last is None:
            self._table.claim(
                query, {"streams": sorted(self._settings.streams), "filter": sorted(self._settings.filter)}
            )
            self._last = last_positions(one for one in self._table.manifests() if one.batch < batch)
        check_continuity(self.name, self._last, ranges, allow_gaps=not self._settings.fail_on_data_loss)
        manifest = self._table.write_batch(rows, batch, ranges)
        self._last = {**self._last, **ranges}
        return manifest.rows

    def has_batch(self, query: str, batch: int) -> bool:
        return self._table.manifest(batch) is not None

    def tidy(self, batch: int) -> None:
        least = self._settings.compact_folders
        if least and batch % least == least - 1:
            size = option_values.size("compact_size", self._settings.compact_size)
            compact(self._table, least_folders=least, large_bytes=size)


class IcebergTarget(ArchiveTarget):
    """A `LakeTable`: several archives may fill it, each with streams of its own."""

    def __init__(
        self,
        table: LakeTable,
        settings: Archive,
        payload: TypedPayload | None = None,
        nats: Mapping[str, str] | None = None,
    ) -> None:
        self.name = table.name
        self._table = table
        self._settings = settings
        self._payload = payload or TypedPayload()
        self._nats = nats or {}

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        yield  # commits exclude each other

    def write(self, rows: DataFrame, query: str, batch: int, ranges: Mapping[str, Position]) -> int:
        def advance(before: Progress) -> QueryProgress:
            return self._advanced(before, query, batch, ranges)

        if not self._payload.columns:
            return write_batch(self._table, rows, query, batch, advance)
        parsed = self._payload.parsed(rows)
        letters = self._settings.dead_letters
        if not letters:
            good = good_rows(parsed, fail=True)
            return write_batch(self._table, _typed(good), query, batch, advance)
        counted = Observation()
        seen = parsed.observe(counted, F.count_if(F.col(DAMAGED).isNotNull()).alias("dead"))

        def send_dead_letters() -> None:
            if counted.get["dead"]:  # only then are the messages read again
                dead = dead_rows(parsed, self._settings.name)
                sink = dead.write.format(SOURCE).options(**self._nats, subject=letters)
                sink.option("deliveryGuarantee", "dedupe").mode("append").save()

        good = good_rows(seen, fail=False)
        return write_batch(self._table, _typed(good), query, batch, advance, send_dead_letters)

    def has_batch(self, query: str, batch: int) -> bool:
        progress = self._table.progress()
        return query in progress and progress[query].batch >= batch

    def tidy(self, batch: int) -> None:
        settings = self._settings
        least = settings.compact_folders
        if least and batch % least == least - 1:
            size = option_values.size("compact_size", settings.compact_size)
            merge_files(self._table, least=least, large_bytes=size)
        if settings.snapshots and batch % _EXPIRE_EVERY == _EXPIRE_EVERY - 1:
            expire(self._table, keep=settings.snapshots)

    def _advanced(
        self, before: Progress, query: str, batch: int, ranges: Mapping[str, Position]
    ) -> QueryProgress:
        """Return the progress after a batch; raise TableError if the batch must not be added."""
        mine = before.get(query)
        refuse_shared_streams(self.name, before, query, self._settings.streams)
        if mine is None and batch > 0:
            raise TableError(
                f"table {self.name} has nothing of this checkpoint, which is at batch {batch}: "
                "it is another table, or another catalog"
            )
        if mine is not None:
            if mine.filter != tuple(sorted(self._settings.filter)):
                raise TableError(
                    f"table {self.name} was made with filter {list(mine.filter)!r}, "
                    f"not {sorted(self._settings.filter)!r}"
                )
            check_continuity(
                self.name, positions(mine), ranges, allow_gaps=not self._settings.fail_on_data_loss
            )
        found = {name: (at.id, at.start, at.next) for name, at in ranges.items()}
        return archived(ARCHIVE, batch, mine, found, self._settings.filter)


def _typed(good: DataFrame) -> DataFrame:
    """Return the columns of messages, and the fields of the payload as columns."""
    return good.select(*DEFAULT_COLUMNS, "value.*")


def refuse_shared_streams(table: str, before: Progress, query: str, streams: Sequence[str]) -> None:
    """Raise TableError if another query fills the table with one of these streams."""
    for other, progress in before.items():
        shared = sorted(set(progress.streams) & set(streams)) if other != query else []
        if shared:
            raise TableError(
                f"table {table} gets stream {shared[0]} with another checkpoint (query {other}); "
                "use that checkpoint, or another table"
            )


def positions(progress: QueryProgress) -> dict[str, Position]:
    """Return where each stream of a query is."""
    return {
        name: Position(at.id, at.start, at.next, int(at.next > at.start))
        for name, at in progress.streams.items()
    }


def last_positions(manifests: Iterable[Manifest]) -> dict[str, Position]:
    """Return the last archived position of each stream."""
    last: dict[str, Position] = {}
    for manifest in manifests:
        last.update(manifest.streams)
    return last


def check_continuity(
    table: str, last: Mapping[str, Position], ranges: Mapping[str, Position], *, allow_gaps: bool
) -> None:
    """Raise TableError if a batch does not begin where the last one ended."""
    for stream, here in ranges.items():
        before = last.get(stream)
        if before is None:
            continue
        if before.id != here.id:
            raise TableError(
                f"stream {stream} was deleted and created again (archived: {before.id}, now: {here.id}); "
                f"its sequences would be in table {table} twice: archive it to another table"
            )
        if here.start != before.next and not allow_gaps:
            raise TableError(
                f"table {table} has stream {stream} up to {before.next - 1}, "
                f"the next batch begins at {here.start}"
            )
