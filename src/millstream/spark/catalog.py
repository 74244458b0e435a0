"""The streams of a query during planning: which exist, their state, and how to read them.

Lives in the planning process and uses one connection.  It requests the state of a stream of advisories only
once and then reads its last message, because every other request would add a message to it.
"""

import logging
import time
from dataclasses import replace
from typing import Final

from millstream.spark.options import SourceOptions
from millstream.spark.partitions import RangePartition
from millstream.spark.plan import Range
from millstream.tables.connections import RequestConnection, explained
from millstream.tables.errors import StreamMissing
from millstream.tables.readers.arrow import find_offer
from millstream.tables.streams import (
    StreamFacts,
    last_message,
    matching_names,
    message_at,
    next_message,
    stream_facts,
)
from millstream.tables.transports import way_to_read

logger: Final = logging.getLogger("millstream.spark")

_PATTERN_AGE_S: Final = 1.0  # maximum age of the list of streams that a pattern is matched with


class Catalog:
    def __init__(self, options: SourceOptions, server: RequestConnection) -> None:
        self._options = options
        self._server = server
        self._advisories: dict[str, StreamFacts] = {}
        self._latest: dict[str, StreamFacts] = {}
        self._names: list[str] = []
        self._names_at = float("-inf")
        self._arrow: bool | None = None
        self._sparse: set[str] = set()

    def refresh(self) -> dict[str, StreamFacts]:
        """Request the current state of all streams of the query; return it by stream name."""
        self._latest = {name: self._look_at(name) for name in self.names()}
        return self._latest

    def known(self) -> dict[str, StreamFacts]:
        """Return the state from the last refresh."""
        return self._latest

    def names(self) -> list[str]:
        if self._options.pattern is None:
            return sorted(self._options.streams)
        if time.monotonic() - self._names_at > _PATTERN_AGE_S:
            with explained(self._options.connection):
                self._names = matching_names(self._server.api, self._options.pattern)
            self._names_at = time.monotonic()
            if not self._names:
                raise StreamMissing(
                    f"no stream on {self._options.connection} matches "
                    f"subscribePattern={self._options.pattern}"
                )
        return self._names

    def facts(self, name: str) -> StreamFacts:
        """Return the state of one stream; request it only if it is unknown."""
        found = self._latest.get(name)
        if found is None:
            found = self._latest[name] = self._look_at(name)
        return found

    def at_time(self, name: str, time_ns: int) -> int | None:
        with explained(self._options.connection, name):
            return message_at(self._server.api, name, time_ns)

    def next_message(self, name: str, seq: int) -> int | None:
        with explained(self._options.connection, name):
            return next_message(self._server.api, name, seq, ())

    def partition(self, part: Range, filters: tuple[str, ...]) -> RangePartition:
        """Return a range with everything that its task needs."""
        facts = self.facts(part.stream)
        wanted = self._options.fetching.transport
        how = way_to_read(facts, wanted, arrow_offered=self.arrow_offered())
        return RangePartition.of(part, filters=filters, **how)

    def arrow_offered(self) -> bool:
        """Return True if the server is a Millstream that serves ranges as Arrow; asks the server once."""
        if self._options.fetching.transport not in ("auto", "arrow"):
            return False
        if self._arrow is None:
            with explained(self._options.connection):
                hosts = self._options.fetching.arrow_hosts
                self._arrow = self._server.patiently(lambda link: find_offer(link, hosts)) is not None
        return self._arrow

    def _look_at(self, name: str) -> StreamFacts:
        with explained(self._options.connection, name):
            before = self._advisories.get(name)
            if before is not None:
                last = last_message(self._server.api, name)
                if last is None or last < before.after_last - 1:
                    before = None  # purged, or another stream of that name
                else:
                    messages = before.messages + last + 1 - before.after_last
                    before = replace(before, after_last=last + 1, messages=messages)
            facts = stream_facts(self._server.api, name) if before is None else before
            if facts.has_advisories:
                self._advisories[name] = facts
            self._warn_if_sparse(facts)
            return facts

    def _warn_if_sparse(self, facts: StreamFacts) -> None:
        if facts.name not in self._sparse and 10 * facts.messages < facts.after_last - facts.first:
            self._sparse.add(facts.name)
            logger.warning(
                "stream %s has %d messages in %d sequences: limits and partitions count sequences",
                facts.name,
                facts.messages,
                facts.after_last - facts.first,
            )
