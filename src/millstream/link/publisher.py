"""A window of publishes on a link with an event loop.

    publisher = Publisher(link)
    ack = await publisher.publish(b"orders.eu", b"hello")
    receipts = await publisher.publish_many([(b"orders.eu", b"", b"hello"), …])

All messages of one turn of the loop are written together; a batch has one future.  Publishers wait while the
window is full or the server does not read.

When the connection is lost, every message without an outcome fails with that error: it is unknown whether the
server has it.  Until the link is connected again, messages are refused.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from millstream.link.deliveries import Direct
from millstream.link.errors import ConnectionLost, LinkError
from millstream.link.link import Link
from millstream.link.outbox import WRITE_AT
from millstream.link.publish_window import DEFAULT_LIMIT, PubAck, PublishWindow, Receipts

DEFAULT_ANSWER_S: Final = 10.0

Publish = tuple[bytes, bytes, bytes]  # subject, header block or nothing, payload


class Publisher:
    """A publisher for any number of tasks; a link may have several, each with its own inbox."""

    def __init__(
        self, link: Link, *, limit: int = DEFAULT_LIMIT, timeout_s: float = DEFAULT_ANSWER_S
    ) -> None:
        self._link = link
        self._timeout_s = timeout_s
        inbox = link.new_inbox()
        self._window = PublishWindow(inbox.encode(), limit, link.out.frames)
        self._wake_at = max(limit // 4, 1)  # free places to wait for, so that writes are few and large
        self._expiry: asyncio.TimerHandle | None = None
        self._sid = link.subscribe_receiver(f"{inbox}.*", Direct(self._window.settle))
        link.out.before_write.add(self._mark)
        link.after_read.add(self._received)
        link.at_loss.add(self._lost)
        link.dialogue.denied.add(self._window.deny)
        link.unanswered.add(self._window.open_count)

    def close(self) -> None:
        """Close the publisher; messages without an outcome fail."""
        link = self._link
        link.out.before_write.discard(self._mark)
        link.after_read.discard(self._received)
        link.at_loss.discard(self._lost)
        link.dialogue.denied.discard(self._window.deny)
        link.unanswered.discard(self._window.open_count)
        link.out.write()  # the window gives up what is not written; the frames are shared with others
        self._lost(ConnectionLost("the publisher is closed"))
        link.end_subscription(self._sid)

    async def publish(self, subject: bytes, payload: bytes, headers: bytes = b"") -> PubAck:
        """Publish one message and return its PubAck; raises the error of a message that was not stored."""
        window, out = self._window, self._link.out
        window.max_payload = self._link.max_payload
        problem = window.problem(subject, len(headers), len(payload))
        if problem is not None:
            raise problem
        while not self._has_room():
            out.write()
            await out.room()
        out.check()
        done, receipts = self._awaited()
        window.add(receipts, subject, headers, payload)
        receipts.seal()
        out.plan_write()
        return (await done).ack(0)

    async def publish_many(self, messages: Iterable[Publish]) -> Receipts:
        """Publish messages and return their outcomes in order."""
        return await (await self.submit(messages))

    async def submit(self, messages: Iterable[Publish]) -> "asyncio.Future[Receipts]":
        """Send messages and return without waiting for outcomes.  Batches that are submitted one after the
        other are stored in that order."""
        done, receipts = self._awaited()
        window, out = self._window, self._link.out
        window.max_payload = self._link.max_payload
        waiting = messages if isinstance(messages, list) else list(messages)
        place = 0
        while place < len(waiting):
            while not self._has_room():
                out.write()
                await out.room()
            if not out.is_up:
                receipts.refuse(out.problem or ConnectionLost("the connection was lost"))
                place += 1
                continue
            place = window.add_some(receipts, waiting, place, WRITE_AT)
            if out.frames.size >= WRITE_AT:
                out.write()
        out.plan_write()
        receipts.seal()
        return done

    def _awaited(self) -> "tuple[asyncio.Future[Receipts], Receipts]":
        done: asyncio.Future[Receipts] = asyncio.get_running_loop().create_future()
        return done, Receipts(lambda made: None if done.done() else done.set_result(made))

    def _has_room(self) -> bool:
        out = self._link.out
        return not out.is_up or (out.can_write and self._window.free() > 0)

    # -- told by the link ---------------------------------------------------------------------------

    def _mark(self, now: float) -> None:
        self._window.mark(now)
        if self._expiry is None and self._window.open_count():
            self._expiry = asyncio.get_running_loop().call_later(self._timeout_s, self._expire)

    def _received(self) -> None:
        if self._link.out.has_waiters and self._window.free() >= self._wake_at:
            self._link.out.wake()

    def _lost(self, reason: LinkError) -> None:
        if self._window.open_count():
            self._window.fail_all(ConnectionLost(f"the connection was lost before the answer came: {reason}"))

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._expiry = None
        if self._window.expire(loop.time() - self._timeout_s, self._timeout_s):
            self._link.out.wake()
        oldest = self._window.oldest()
        if oldest is not None:
            self._expiry = loop.call_at(oldest + self._timeout_s, self._expire)
