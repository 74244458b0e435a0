"""Limit how fast a consumer sends: a window that the client's responses open, a rate, the original pace.

All of it is pure arithmetic; the consumer sends the requests and waits.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millstream.jetstream.consumers.feed import Feed

_LARGEST_WINDOW = 32 * 1024 * 1024
_FIRST_WINDOW = _LARGEST_WINDOW // 16
_NS = 1_000_000_000
_SHORTEST_PAUSE_NS = 1_000_000


class FlowWindow:
    """The bytes under way to the client, as far as known.

    A flow control request is sent when half of the window is used; nothing is sent when it is full.  Each
    response frees what was under way when the request was sent, and doubles the window.
    """

    def __init__(self) -> None:
        self.window = _FIRST_WINDOW
        self.outstanding = 0
        self.subject = b""  # where the client answers the open request; empty: there is none
        self._asked_at = 0  # bytes that the answer will free

    def is_blocked(self) -> bool:
        return self.outstanding > self.window

    def room(self) -> int:
        """Return the bytes that may be sent before the next decision."""
        limit = self.window if self.subject else self.window // 2
        return max(limit - self.outstanding, 0)

    def sent(self, size: int) -> bool:
        """Count sent bytes; return True if a request to the client is due."""
        self.outstanding += size
        if not self.subject:
            return self.outstanding > self.window // 2
        if self.outstanding - self._asked_at >= self.window:
            self._asked_at += size
        return False

    def ask(self, subject: bytes) -> None:
        """Record that a request was sent whose response goes to `subject`."""
        self.subject = subject
        self._asked_at = self.outstanding

    def answer(self, subject: bytes) -> bool:
        """Handle the client's response; return False if it does not answer the open request."""
        if not self.subject or subject != self.subject:
            return False
        self.window = min(self.window * 2, _LARGEST_WINDOW)
        self.outstanding = max(self.outstanding - self._asked_at, 0)
        self.subject = b""
        self._asked_at = 0
        return True


class Rate:
    """A rate in bits per second, with an initial burst."""

    def __init__(self, bits_per_second: int, burst: int) -> None:
        self._bytes_per_second = bits_per_second / 8
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at = 0

    def room(self, now: int) -> int:
        """Return the bytes that may be sent now."""
        if self._at:
            gained = (now - self._at) * self._bytes_per_second / _NS
            self._tokens = min(self._tokens + max(gained, 0.0), self._burst)
        self._at = now
        return max(int(self._tokens), 0)

    def sent(self, size: int) -> None:
        self._tokens -= size

    def wait_ns(self, size: int) -> int:
        """Return the wait for a message of `size`; one larger than the burst uses all of it."""
        missing = min(float(size), self._burst) - self._tokens
        return max(math.ceil(missing / self._bytes_per_second * _NS), 0)


class OriginalPace:
    """Delivers with the original pauses between messages, up to `last_sseq`."""

    def __init__(self, last_sseq: int) -> None:
        self.last_sseq = last_sseq
        self._last_timestamp = 0
        self._due = 0  # when the message may go that ``wait_ns`` was asked about

    def wait_ns(self, timestamp: int, now: int) -> int:
        """Return how long the next message, stored at `timestamp`, must wait."""
        if not self._last_timestamp or timestamp - self._last_timestamp <= _SHORTEST_PAUSE_NS:
            return 0
        pause = timestamp - self._last_timestamp
        if not self._due:
            self._due = now + pause
        return max(min(self._due - now, pause), 0)  # not longer, if the clock was set back

    def sent(self, timestamp: int) -> None:
        self._last_timestamp = timestamp
        self._due = 0

    def pause_ns(self, feed: Feed, now: int) -> int:
        """Return how long the feed's next message must wait; 0: send it now."""
        if feed.goes_again():
            return 0
        timestamp = feed.next_timestamp()
        if not timestamp:
            return 0
        wait = self.wait_ns(timestamp, now)
        if not wait:
            self.sent(timestamp)
        return wait
