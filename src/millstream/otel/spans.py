"""Finished spans on their way to the collector.

Whoever records a span makes one object and puts it in the queue; a thread takes it out (``sender``).  The
queue has a limit, beyond which spans are dropped and counted: nobody waits for a collector.
"""

from __future__ import annotations

import os
from collections import deque
from enum import IntEnum
from typing import Final

import msgspec

from millstream.protocol.trace_context import TraceContext, read_context

Attribute = str | int | bool

_WHOLE: Final = 1 << 64
_MOST_OPEN: Final = 10_000  # spans that have begun, of one process


class SpanKind(IntEnum):
    """The kinds of OpenTelemetry's spans that are recorded here."""

    INTERNAL = 0
    PRODUCER = 3
    CONSUMER = 4


class FinishedSpan(msgspec.Struct, frozen=True, gc=False):
    """One finished span."""

    name: str
    kind: SpanKind
    parent: TraceContext
    span_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Attribute]
    error: str = ""


class SpanQueue:
    """Spans that wait to be sent, of the share of all traces that is recorded."""

    def __init__(self, limit: int, share: float) -> None:
        self.recorded = 0
        self.dropped = 0  # the queue was full, or the collector did not take them
        self.open = 0  # deliveries that are not settled
        self._waiting: deque[FinishedSpan] = deque()
        self._limit = limit
        self._bound = int(share * _WHOLE)

    def context(self, text: bytes) -> TraceContext | None:
        """Return the trace that spans are to be recorded for; None if it is invalid or not in the share.

        Every process with the same share chooses the same traces: the id of the trace decides.
        """
        found = read_context(text)
        if found is None or int(found.trace_id[16:], 16) >= self._bound:
            return None
        return found

    def may_open(self) -> bool:
        """Return True if one more span may wait for its end."""
        return self.open < _MOST_OPEN

    def record(self, span: FinishedSpan) -> None:
        self.recorded += 1
        if len(self._waiting) >= self._limit:
            self.dropped += 1
        else:
            self._waiting.append(span)

    def take(self, most: int) -> list[FinishedSpan]:
        """Remove and return the oldest spans; in any thread, one at a time."""
        taken: list[FinishedSpan] = []
        while self._waiting and len(taken) < most:
            taken.append(self._waiting.popleft())
        return taken


def new_span_id() -> str:
    return os.urandom(8).hex()
