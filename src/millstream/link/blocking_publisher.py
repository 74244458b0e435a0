"""A window of publishes on a connection that blocks.

    publisher = BlockingPublisher(link)
    receipts = Receipts()
    for subject, payload in rows:
        publisher.publish(receipts, subject, b"", payload)
    publisher.settle(receipts)           # every message has an outcome now

When the connection breaks, every message without an outcome gets the error as one, and the call raises it:
whether the server has them is unknown.  After ``link.reconnect`` the publisher goes on.
"""

import time
from typing import Final

from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import NotConnected
from millstream.link.login import new_inbox
from millstream.link.publish_window import DEFAULT_LIMIT, PublishWindow, Receipts

DEFAULT_ANSWER_S: Final = 30.0
_FLUSH_AT: Final = 128 * 1024  # bytes of frames that are worth a write
_LONGEST_WAIT_S: Final = 1.0  # between two looks at the clock


class BlockingPublisher:
    """One per link, or several: each has an inbox of its own."""

    def __init__(
        self, link: BlockingLink, *, limit: int = DEFAULT_LIMIT, timeout_s: float = DEFAULT_ANSWER_S
    ) -> None:
        self.link: Final = link
        inbox = new_inbox(link.options)
        self.window: Final = PublishWindow(inbox.encode(), limit)
        self._timeout_s = timeout_s
        self._wake_at = max(limit // 4, 1)  # free places before more is written: fewer, larger writes
        self._take_info()
        self._sid = link.subscribe(f"{inbox}.*", handler=self.window.settle)

    def close(self) -> None:
        """Nobody waits for answers any more."""
        self.link.unsubscribe(self._sid)

    def publish(self, receipts: Receipts, subject: bytes, headers: bytes, payload: bytes) -> None:
        """Publish one message; waits if the window is full.  BadMessage if no server would take it."""
        problem = self.window.problem(subject, len(headers), len(payload))
        if problem is not None:
            raise problem
        if not self.window.free():
            self.make_room()
        self.window.add(receipts, subject, headers, payload)
        if self.window.frames.size >= _FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        frames = self.window.frames
        if frames.size == 0:
            return
        self.window.mark(time.monotonic())
        try:
            with frames.view() as data:
                self.link.send(data, self._timeout_s)
        except NotConnected as error:
            self.window.fail_all(error)
            raise
        frames.clear()

    def make_room(self) -> None:
        """Write what was gathered and wait until a good part of the window is free."""
        self.flush()
        while self.window.free() < self._wake_at:
            self._work()

    def settle(self, receipts: Receipts) -> None:
        """Write what was gathered and wait until each of these messages has an outcome."""
        self.flush()
        while receipts.open:
            self._work()

    def reconnected(self) -> None:
        """To be called after ``link.reconnect``: another server may have other limits."""
        self._take_info()

    def _work(self) -> None:
        oldest = self.window.oldest()
        now = time.monotonic()
        if oldest is not None and oldest + self._timeout_s <= now:
            self.window.expire(now - self._timeout_s, self._timeout_s)
            return
        left_s = self._timeout_s if oldest is None else oldest + self._timeout_s - now
        try:
            self.link.work(min(left_s, _LONGEST_WAIT_S))
        except NotConnected as error:
            self.window.fail_all(error)
            raise

    def _take_info(self) -> None:
        if self.link.info is not None:
            self.window.max_payload = self.link.info.max_payload
