"""The reader of `spark.readStream`, which plans micro-batches.

Spark runs one instance of it in one process for as long as the query runs, and asks that one for offsets.
Another instance, which has been asked nothing, goes to the tasks.  What a batch reads is said by its end
offset alone (`offsets`), which makes these harmless:

    initialOffset is asked twice or three times, also by a new process: the second answer is Spark's start of
        the first batch, and "latest" is another one by then
    a batch is planned again after a restart, perhaps with other options
    commit is not called for the last batch of a run: the start given to latestOffset is committed too, and
        that call is made

Spark asks some eighty times a second when a query is idle, so one question goes to the server each time, over
one connection.
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
from millstream.spark.connecting import Server
from millstream.spark.offsets import Offset, OffsetDict, Position, parse
from millstream.spark.options import Limits, SourceOptions
from millstream.spark.partitions import RangePartition, nothing
from millstream.spark.planning import Backlog, limited, parts_for, ranges_of, waits
from millstream.spark.readers.loss import report
from millstream.spark.streams import StreamFacts

logger: Final = logging.getLogger("millstream.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._server: Server | None = None
        self._catalog: Catalog | None = None
        self._commits: Commits | None = None
        self._initial: OffsetDict | None = None
        self._target: dict[str, int] | None = None  # where AvailableNow ends
        self._held_since: float | None = None  # how long there has been less than the minimum

    def __getstate__(self) -> dict[str, Any]:
        """Only what tasks need: connections cannot travel."""
        return {"_options": self._options, "_schema": self._schema}

    # -- in the tasks -------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from millstream.spark.readers.ranges import read_range

        assert isinstance(partition, RangePartition)
        return read_range(partition, self._options.connection, self._options.fetching, self._schema)

    # -- offsets ------------------------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:
        catalog, _ = self._connected()
        self._target = {name: facts.after_last for name, facts in catalog.refresh().items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark gives it back in each call, or ReadAllAvailable when it wants all in one batch."""
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
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self._options.limits
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
        """Where the streams end, for Spark's progress reports; as of the last look at them."""
        if self._catalog is None or not self._catalog.known():
            return None
        return Offset(
            {
                name: Position(facts.id, facts.after_last, facts.after_last, 0)
                for name, facts in self._catalog.known().items()
            }
        ).to_dict()

    def partitions(self, start: OffsetDict, end: OffsetDict) -> Sequence[InputPartition]:
        """What the batch that ends there reads; `start` is not always where it starts."""
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
        """Spark does not always call it; the end of the process does the same."""
        if self._server is not None:
            self._server.close()

    # -- how far ------------------------------------------------------------------------------------

    def _backlogs(self, before: Offset, streams: Mapping[str, StreamFacts]) -> dict[str, Backlog]:
        """What could be read of each stream, after what is lost."""
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
                # Some streams have few messages in very many sequences: no batches of nothing for those.
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
        """The sequence to go on at, where the stream still has it or will have it next."""
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

    def _holds_back(self, backlogs: Mapping[str, Backlog], limits: Limits) -> bool:
        now = time.monotonic()
        if self._held_since is None:
            self._held_since = now
        return waits(backlogs, limits, now - self._held_since)

    def _connected(self) -> tuple[Catalog, Commits]:
        if self._server is None or self._catalog is None or self._commits is None:
            self._server = Server(self._options.connection, "spark/plan", self._options.fetching.timeout)
            self._catalog = Catalog(self._options, self._server)
            self._commits = Commits(self._options, self._server)
        return self._catalog, self._commits


def _new_streams(before: Offset, streams: Mapping[str, StreamFacts]) -> Offset:
    """Where the streams begin that a pattern did not match before."""
    positions = {
        name: Position(facts.id, facts.first, facts.first, 0)
        for name, facts in streams.items()
        if name not in before.streams
    }
    return Offset(positions, before.query)


def _of_stream(partition: RangePartition, identity: str) -> RangePartition:
    """The range is of the stream that there was when the batch was planned, whatever there is now."""
    return partition if partition.id == identity else replace(partition, id=identity, dense=False)
