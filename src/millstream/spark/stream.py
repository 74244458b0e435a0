"""The reader of `spark.readStream`, which plans micro-batches.

Spark keeps one instance in one process while the query runs and asks it for offsets.  Another instance goes
to the tasks.  The end offset alone determines what a batch reads (`offsets`), which makes these harmless:

    initialOffset is called two or three times, also in a new process: the second result is Spark's start of
        the first batch, and "latest" has moved by then
    a batch is planned again after a restart, perhaps with other options
    commit is not called for the last batch of a run: the start passed to latestOffset is committed too, and
        Spark does make that call

An idle query asks about eighty times a second, so each call makes one request to the server, over one
connection.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from millstream.spark.catalog import Catalog
from millstream.spark.commits import Commits
from millstream.spark.files import shipped
from millstream.spark.offsets import Offset, OffsetDict, Position, parse
from millstream.spark.options import BatchLimits, SourceOptions
from millstream.spark.partitions import RangePartition, nothing, read_partition
from millstream.spark.plan import Backlog, limited, parts_for, ranges_of, waits
from millstream.tables.connections import RequestConnection
from millstream.tables.readers.loss import report
from millstream.tables.streams import StreamFacts

logger: Final = logging.getLogger("millstream.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._server: RequestConnection | None = None
        self._catalog: Catalog | None = None
        self._commits: Commits | None = None
        self._initial: OffsetDict | None = None
        self._target: dict[str, int] | None = None  # where AvailableNow ends
        self._held_since: float | None = None  # since when there has been less than the minimum

    def __getstate__(self) -> dict[str, Any]:
        """Return only what tasks need: connections cannot be pickled."""
        return {"_options": self._options, "_schema": self._schema}

    # -- in the tasks -------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._schema)

    # -- offsets ------------------------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:
        catalog, _ = self._connected()
        self._target = {name: facts.after_last for name, facts in catalog.refresh().items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that Spark passes to each call, unless it wants everything in one batch."""
        limits = self._options.limits
        if limits.max_rows is not None:
            return ReadMaxRows(limits.max_rows)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_rows is not None:
            return ReadMinRows(limits.min_rows)
        return ReadAllAvailable()

    def initialOffset(self) -> OffsetDict:
        if self._initial is None:
            catalog, commits = self._connected()
            now_ns = time.time_ns()
            streams = catalog.refresh()
            commits.check(streams)
            positions = {}
            for name, facts in streams.items():
                start = self._options.start.resolve(
                    name, facts.first, facts.after_last, now_ns, partial(catalog.at_time, name)
                )
                start = self._within(name, facts, start)
                positions[name] = Position(facts.id, start, start, 0)
            offset = Offset(positions, commits.new_query_name())
            commits.begin(offset)
            self._initial = offset.to_dict()
        return self._initial

    def latestOffset(self, start: OffsetDict, limit: ReadLimit) -> OffsetDict:
        before = parse(start)
        catalog, commits = self._connected()
        streams = catalog.refresh()
        if start != self._initial:
            commits.tell(before, streams)
        commits.check(streams)
        commits.begin(_new_streams(before, streams))
        backlogs = self._backlogs(before, streams)
        if not any(backlog.count for backlog in backlogs.values()):
            self._held_since = None
            return start
        limits = BatchLimits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        if self._target is None and self._holds_back(backlogs, limits):
            return start
        self._held_since = None
        ends = limited(backlogs, limits)
        positions = {}
        for name, backlog in backlogs.items():
            end = ends[name]
            parts = parts_for(
                end - backlog.start, self._options.min_partitions, self._options.max_records_per_partition
            )
            positions[name] = Position(streams[name].id, backlog.start, end, parts)
        return Offset(positions, before.query or commits.new_query_name()).to_dict()

    def reportLatestOffset(self) -> OffsetDict | None:
        """Return the end of the streams for Spark's progress reports, as of the last refresh."""
        if self._catalog is None or not self._catalog.known():
            return None
        return Offset(
            {
                name: Position(facts.id, facts.after_last, facts.after_last, 0)
                for name, facts in self._catalog.known().items()
            }
        ).to_dict()

    def partitions(self, start: OffsetDict, end: OffsetDict) -> Sequence[InputPartition]:
        """Return the partitions of the batch that ends at `end`; `start` is not always where it starts."""
        catalog, _ = self._connected()
        offset = parse(end)
        filters = self._options.filters
        planned = []
        for part in ranges_of(offset.streams):
            facts = catalog.partition(part, filters)
            planned.append(_of_stream(facts, offset.streams[part.stream].id))
        return planned or [nothing()]

    def commit(self, end: OffsetDict) -> None:
        catalog, commits = self._connected()
        commits.tell(parse(end), catalog.known() or catalog.refresh())

    def stop(self) -> None:
        """Close the connection.

        Spark does not always call it; the end of the process has the same effect.
        """
        if self._server is not None:
            self._server.close()

    # -- how far ------------------------------------------------------------------------------------

    def _backlogs(self, before: Offset, streams: Mapping[str, StreamFacts]) -> dict[str, Backlog]:
        """Return what can be read of each stream, after reporting lost messages."""
        for name in before.streams.keys() - streams.keys():
            self._forget(name, before.streams[name])
        backlogs = {}
        for name, facts in streams.items():
            at = before.streams.get(name)
            begin = facts.first if at is None else self._next(name, facts, at)
            end = facts.after_last
            if self._target is not None:
                end = min(end, self._target.get(name, begin))
            if begin < end and not facts.is_dense:
                # Skip to the next message: a stream may have few messages in very many sequences.
                begin = self._connected()[0].next_message(name, begin) or begin
            backlogs[name] = Backlog(begin, max(begin, end), facts.average_bytes)
        return backlogs

    def _next(self, name: str, facts: StreamFacts, at: Position) -> int:
        if facts.id == at.id:
            return self._within(name, facts, at.next)
        why = (
            f"it was deleted and created again at {facts.id}; {at.next - 1} was the last one read of the old"
        )
        report(name, [(at.next, at.next)], why, fail=self._options.fetching.fail_on_data_loss)
        return facts.first

    def _within(self, name: str, facts: StreamFacts, following: int) -> int:
        """Return the sequence to continue at, within the stream's bounds; report messages that are lost."""
        fail = self._options.fetching.fail_on_data_loss
        if following < facts.first:
            why = f"its first message is {facts.first} now, the rest was purged or went by its limits"
            report(name, [(following, facts.first - 1)], why, fail=fail)
            return facts.first
        if following > facts.after_last:
            why = f"its last sequence is {facts.after_last - 1}"
            report(name, [(facts.after_last, following - 1)], why, fail=fail)
            return facts.after_last
        return following

    def _forget(self, name: str, at: Position) -> None:
        if self._options.pattern is None:
            logger.warning(
                "stream %s was read up to %d; the query does not name it any more", name, at.next - 1
            )
            return
        why = "the stream is gone"
        report(name, [(at.next, at.next)], why, fail=self._options.fetching.fail_on_data_loss)

    def _holds_back(self, backlogs: Mapping[str, Backlog], limits: BatchLimits) -> bool:
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        return waits(backlogs, limits, now - self._held_since)

    def _connected(self) -> tuple[Catalog, Commits]:
        if self._server is None or self._catalog is None or self._commits is None:
            self._server = RequestConnection(
                shipped(self._options.connection), "spark/plan", self._options.fetching.timeout
            )
            self._catalog = Catalog(self._options, self._server)
            self._commits = Commits(self._options, self._server)
        return self._catalog, self._commits


def _new_streams(before: Offset, streams: Mapping[str, StreamFacts]) -> Offset:
    """Return the start of streams that the pattern did not match before."""
    positions = {
        name: Position(facts.id, facts.first, facts.first, 0)
        for name, facts in streams.items()
        if name not in before.streams
    }
    return Offset(positions, before.query)


def _of_stream(partition: RangePartition, identity: str) -> RangePartition:
    """Return the partition for the stream that existed when the batch was planned."""
    return partition if partition.id == identity else replace(partition, id=identity, dense=False)
