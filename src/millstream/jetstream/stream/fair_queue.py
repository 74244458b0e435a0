"""A queue of streams that wait for a commit, in which publishers take turns.

A stream belongs to the client that is served when the stream begins to wait.  Clients take turns with one
stream each, so the many streams of one client do not delay those of others.  The streams of one client leave
in the order in which they came.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.jetstream.stream.committed_log import Committing


class FairQueue:
    """Streams that wait; the cost of an operation does not depend on their number."""

    def __init__(self) -> None:
        self.publisher = 0  # of the stream that was popped last
        self._publisher_of: dict[Committing, int] = {}
        # A stream that was discarded stays in here, and is passed over.
        self._streams_of: dict[int, deque[Committing]] = {}
        self._turns: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._publisher_of)

    def __contains__(self, stream: Committing) -> bool:
        return stream in self._publisher_of

    def add(self, stream: Committing, publisher: int) -> None:
        """Append a stream; a stream that already waits keeps its place."""
        if stream in self._publisher_of:
            return
        self._publisher_of[stream] = publisher
        streams = self._streams_of.get(publisher)
        if streams is None:
            self._streams_of[publisher] = deque((stream,))
            self._turns.append(publisher)
        else:
            streams.append(stream)

    def discard(self, stream: Committing) -> None:
        self._publisher_of.pop(stream, None)

    def pop(self) -> Committing | None:
        """Remove and return the stream whose turn it is, or None if none waits."""
        while self._turns:
            publisher = self._turns.popleft()
            streams = self._streams_of[publisher]
            stream = streams.popleft()
            if streams:
                self._turns.append(publisher)
            else:
                del self._streams_of[publisher]
            if self._publisher_of.pop(stream, None) is not None:
                self.publisher = publisher
                return stream
        return None
