"""A window of publishes on a blocking link.

    publisher = BlockingPublisher(link)
    receipts = Receipts()
    for subject, payload in rows:
        publisher.publish(receipts, subject, b"", payload)
    publisher.settle(receipts)           # every message has an outcome now

When the connection is lost, every message without an outcome fails with that error, and the call raises it:
it is unknown whether the server has them.  After ``link.reconnect`` the publisher can be used again.
"""

import time
from typing import Final

from millstream.link.blocking_link import BlockingLink
from millstream.link.errors import NotConnected
from millstream.link.login import new_inbox
from millstream.link.publish_window import DEFAULT_LIMIT, PublishWindow, Receipts

DEFAULT_ANSWER_S: Final = 30.0
_FLUSH_AT: Final = 128 * 1024  # bytes of frames that are written together
_LONGEST_WAIT_S: Final = 1.0  # between two checks of the clock


class BlockingPublisher:
    """A publisher on a link; a link may have several, each with its own inbox."""

    def __init__(
        self, link: BlockingLink, *, limit: int = DEFAULT_LIMIT, timeout_s: float = DEFAULT_ANSWER_S
    ) -> None:
        self.link: Final = link
        inbox = new_inbox(link.options)
        self.window: Final = PublishWindow(inbox.encode(), limit)
        self._timeout_s = timeout_s
        self._wake_at = max(limit // 4, 1)  # free places to wait for, so that writes are few and large
        self._take_info()
        self._sid = link.subscribe(f"{inbox}.*", handler=self.window.settle)

    def close(self) -> None:
        """Stop waiting for answers."""
        self.link.unsubscribe(self._sid)

    def publish(self, receipts: Receipts, subject: bytes, headers: bytes, payload: bytes) -> None:
        """Publish one message; wait if the window is full.  Raises BadMessage if no server accepts it."""
        problem = self.window.problem(subject, len(headers), len(payload))
        if problem is not None:
            raise problem
        if not self.window.free():
            self.make_room()
        self.window.add(receipts, subject, headers, payload)
        if self.window.frames.size >= _FLUSH_AT:
            self.flush()

    def flush(self) -> None:
        """Write the gathered frames."""
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
        """Write the gathered frames and wait until a good part of the window is free."""
        self.flush()
        while self.window.free() < self._wake_at:
            self._work()

    def settle(self, receipts: Receipts) -> None:
        """Write the gathered frames and wait until each of these messages has an outcome."""
        self.flush()
        while receipts.open:
            self._work()

    def reconnected(self) -> None:
        """Take over the limits of the new server; call this after ``link.reconnect``."""
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
