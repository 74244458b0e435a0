"""Count the messages from a sequence on, for clients that read page by page.

Counting with a filter reads the tables of every segment.  A client that reads a stream in batches requests
the count with each of them, from where the last one ended, so that count is cached with the log's state: as
long as nothing was removed, only newer messages need counting.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from millstream.store.counts import count_between
from millstream.store.log import Log

_MOST = 64  # readers of a stream at a time


class _Known(NamedTuple):
    left: int
    last_seq: int
    messages: int


class PageCounts:
    """The counts of one log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: OrderedDict[tuple[int, bytes], _Known] = OrderedDict()

    def count(self, seq: int, pattern: bytes) -> int:
        """Count messages not below `seq`, durable or not; an empty `pattern` means all subjects."""
        log = self._log
        patterns = (pattern,) if pattern else ()
        known = self._known.pop((seq, pattern), None)
        if known is not None:
            grown = log.last_seq - known.last_seq
            if log.messages - known.messages == grown:  # so everything that came is there, and nothing went
                since = count_between(log, known.last_seq + 1, log.last_seq, patterns) if grown else 0
                return known.left + since
        return count_between(log, seq, log.last_seq, patterns)

    def keep(self, seq: int, pattern: bytes, left: int) -> None:
        """Cache that there are `left` messages from `seq` on."""
        if len(self._known) >= _MOST:
            self._known.popitem(last=False)
        self._known[seq, pattern] = _Known(left, self._log.last_seq, self._log.messages)
