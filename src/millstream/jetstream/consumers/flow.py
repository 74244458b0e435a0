"""How fast a consumer may send: a window that the client opens by answering, a rate, the original's pace.

All of it is pure arithmetic; the consumer sends the requests and waits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from millstream.jetstream.consumers.feed import Feed

_LARGEST_WINDOW: Final = 32 * 1024 * 1024
_FIRST_WINDOW: Final = _LARGEST_WINDOW // 16
_NS: Final = 1_000_000_000
_SHORTEST_PAUSE_NS: Final = 1_000_000
_SHORTEST_LOOK_S: Final = 0.002
_LONGEST_LOOK_S: Final = 0.05


class FlowWindow:
    """Bytes on their way to the client, as far as is known.

    A request to answer goes out when half of the window is used; nothing goes out when all of it is.
    Each answer frees what was on its way when the request was sent, and doubles the window.
    """

    def __init__(self) -> None:
        self.window = _FIRST_WINDOW
        self.outstanding = 0
        self.subject = b""  # where the client answers the open request; empty: there is none
        self._asked_at = 0  # bytes that the answer will free

    @property
    def blocked(self) -> bool:
        return self.outstanding > self.window

    def room(self) -> int:
        """Bytes that may go out before there is something to decide."""
        limit = self.window if self.subject else self.window // 2
        return max(limit - self.outstanding, 0)

    def sent(self, size: int) -> bool:
        """So much went out; True if it is time to ask the client."""
        self.outstanding += size
        if not self.subject:
            return self.outstanding > self.window // 2
        if self.outstanding - self._asked_at >= self.window:
            self._asked_at += size
        return False

    def ask(self, subject: bytes) -> None:
        """A request went out that is answered to `subject`."""
        self.subject = subject
        self._asked_at = self.outstanding

    def answer(self, subject: bytes) -> bool:
        """The client answered; False if that was not the open request."""
        if not self.subject or subject != self.subject:
            return False
        self.window = min(self.window * 2, _LARGEST_WINDOW)
        self.outstanding = max(self.outstanding - self._asked_at, 0)
        self.subject = b""
        self._asked_at = 0
        return True


class Rate:
    """A number of bits a second, with a burst to begin with."""

    def __init__(self, bits_per_second: int, burst: int) -> None:
        self._bytes_per_second = bits_per_second / 8
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at = 0

    def room(self, now: int) -> int:
        """Bytes that may go out now."""
        if self._at:
            gained = (now - self._at) * self._bytes_per_second / _NS
            self._tokens = min(self._tokens + max(gained, 0.0), self._burst)
        self._at = now
        return max(int(self._tokens), 0)

    def sent(self, size: int) -> None:
        self._tokens -= size

    def wait_ns(self, size: int) -> int:
        """How long until a message of `size` may go; a larger one than the burst goes with all of it."""
        missing = min(float(size), self._burst) - self._tokens
        return max(math.ceil(missing / self._bytes_per_second * _NS), 0)


class OriginalPace:
    """Deliver with the pauses that lay between the messages when they were stored, up to `last_sseq`."""

    def __init__(self, last_sseq: int) -> None:
        self.last_sseq = last_sseq
        self._last_timestamp = 0
        self._due = 0  # when the message may go that ``wait_ns`` was asked about

    def wait_ns(self, timestamp: int, now: int) -> int:
        """How long the next message, stored at `timestamp`, still has to wait."""
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
        """How long the feed's next message has to wait; 0: it goes now."""
        if feed.goes_again():
            return 0
        timestamp = feed.next_timestamp()
        if not timestamp:
            return 0
        wait = self.wait_ns(timestamp, now)
        if not wait:
            self.sent(timestamp)
        return wait


class Patience:
    """When to look again whether a receiver that is behind has caught up: later, the longer it takes."""

    def __init__(self) -> None:
        self._waited_s = 0.0

    def look_after_s(self) -> float:
        delay_s = min(max(self._waited_s / 4, _SHORTEST_LOOK_S), _LONGEST_LOOK_S)
        self._waited_s += delay_s
        return delay_s

    def is_over(self) -> None:
        """It took something."""
        self._waited_s = 0.0
