"""Any part of any stream of one server as record batches: the door of this package.

A `Selection` names columns, sequences, times and subjects.  The source plans the range when the first batch
is asked for: which sequences there are, and over which transport they are read.  The end of the range is
fixed then, so messages that come later are in no batch.

Messages that the stream loses while it is read are left out with a warning, unless `Fetching` says otherwise.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from millstream.link.options import LinkOptions
from millstream.tables.connections import RequestConnection, close_idle_links, explained
from millstream.tables.schema import USUAL_COLUMNS, stream_schema
from millstream.tables.stream_range import Fetching, StreamRange
from millstream.tables.streams import StreamFacts, matching_names, message_at, next_message, stream_facts
from millstream.tables.transports import way_to_read

_PATIENCE_S: Final = 10.0  # for a server that is away when a query begins
_QUIET: Final = Fetching(fail_on_data_loss=False, timeout=60.0)


@dataclass(frozen=True)
class Selection:
    """The part of a stream to read."""

    columns: tuple[str, ...] = USUAL_COLUMNS
    low: int = 1
    high: int | None = None  # None: up to the last message
    from_ns: int | None = None
    until_ns: int | None = None  # exclusive
    subjects: tuple[str, ...] | None = None  # filters of the server; None: all, empty: none


class TableSource:
    """Reads streams over connections of its own; several threads may read at once."""

    def __init__(self, connection: LinkOptions, *, name: str, fetching: Fetching = _QUIET) -> None:
        self.connection: Final = connection
        self._name = name
        self._fetching = fetching
        self._server = RequestConnection(connection, name, _PATIENCE_S)
        self._planning = threading.Lock()
        self._arrow: bool | None = None

    def facts(self, stream: str) -> StreamFacts:
        """Return the state of a stream; raise StreamMissing if there is none."""
        with self._planning, explained(self.connection, stream):
            return stream_facts(self._server.api, stream)

    def readable_since(self, stream: str) -> str:
        """Return the creation time of a stream whose messages this user may get.

        Raises NotAllowed or SourceUnavailable if the user may not, and StreamMissing.
        """
        with self._planning, explained(self.connection, stream):
            facts = stream_facts(self._server.api, stream)
            next_message(self._server.api, stream, facts.after_last, ())
        return facts.id

    def names(self) -> list[str]:
        """Return the names of all streams, sorted."""
        with self._planning, explained(self.connection):
            return matching_names(self._server.api, ".*")

    def batches(self, stream: str, selection: Selection) -> Iterator[Any]:
        """Yield the selected messages in order of their sequences."""
        yield from self.read(self.plan(stream, selection), selection.columns)

    def read(self, part: StreamRange, columns: tuple[str, ...]) -> Iterator[Any]:
        """Yield the messages of a planned range."""
        from millstream.tables.readers.ranges import read_range

        return read_range(part, self.connection, self._fetching, stream_schema(columns), self._name)

    def plan(self, stream: str, selection: Selection) -> StreamRange:
        """Return the range that a selection means now."""
        with self._planning, explained(self.connection, stream):
            facts = stream_facts(self._server.api, stream)
            low, end = self._bounds(facts, selection)
            wanted = self._fetching.transport
            how = way_to_read(facts, wanted, arrow_offered=self._arrow_offered())
        return StreamRange(stream, low, end - 1, filters=selection.subjects or (), **how)

    def close(self) -> None:
        """Close the connections; batches that are read at the moment are not disturbed."""
        self._server.close()
        close_idle_links(self.connection)

    def _bounds(self, facts: StreamFacts, selection: Selection) -> tuple[int, int]:
        low = max(facts.first, selection.low)
        end = facts.after_last if selection.high is None else min(facts.after_last, selection.high + 1)
        if selection.subjects == () or low >= end:
            return low, low
        if selection.from_ns is not None:
            first = message_at(self._server.api, facts.name, selection.from_ns)
            low = end if first is None else max(low, first)
        if selection.until_ns is not None:
            after = message_at(self._server.api, facts.name, selection.until_ns)
            end = end if after is None else min(end, after)
        return low, max(low, end)

    def _arrow_offered(self) -> bool:
        """Return True if the server serves ranges as Arrow; asks it once."""
        from millstream.tables.readers.arrow import find_offer

        if self._fetching.transport not in ("auto", "arrow"):
            return False
        if self._arrow is None:
            hosts = self._fetching.arrow_hosts
            self._arrow = self._server.patiently(lambda link: find_offer(link, hosts)) is not None
        return self._arrow
