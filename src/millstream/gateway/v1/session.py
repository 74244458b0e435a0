"""One open subscription of `/v1`: from a push consumer's deliver subject to the lines of an answer.

A message is taken from NATS as it comes and held until it can be written: the caller has room for more
(`max_msg_inflight`) and his socket too.  While it is held, JetStream is told that it is in progress, so
that only the caller's own time counts against `ack_wait`.  When too much is held, the subscription is given
up until there is room again, and a consumer without interest stops delivering: that is how a slow reader
pushes back.

When the caller is gone, the subscription goes first.  What was written stays the caller's, who may still
acknowledge it: JetStream delivers it again when `ack_wait` is over, and not before.  What was never written
is handed back, to be delivered anew at once; only a message that has a single delivery left waits for
`ack_wait` too, so that callers who come and go do not use up what nobody has seen.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from millstream.gateway.link import CallerLink
from millstream.gateway.v1.board import Key
from millstream.gateway.v1.delivery import ACK, NAK, PROGRESS, HttpDelivery, ack_subject, delivery_of
from millstream.gateway.v1.window import Window
from millstream.jsapi.errors import Err
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkApiError, LinkError, RequestTimeout
from millstream.link.subscriptions import LinkSubscription

_HELD_AT_MOST: Final = 4096  # messages; bytes are limited by a setting
_CHUNK: Final = 64 * 1024
_PATIENCE_S: Final = 2.0  # for the server to answer a PING
_LOOK_AFTER_S: Final = 15.0  # without a message, whether the consumer is still there
_GONE: Final = (Err.CONSUMER_NOT_FOUND, Err.STREAM_NOT_FOUND)

Write = Callable[[bytes], Awaitable[bool]]  # False: the caller was gone before anything was written
Frame = Callable[[HttpDelivery], bytes]


class Session:
    """`run` writes until something ends it and returns what that was, empty if the caller just left."""

    def __init__(
        self,
        link: CallerLink,
        key: Key,
        info: dict[str, Any],
        *,
        window: int,
        buffer: int,
        frame: Frame,
        writes_whole: bool,
    ) -> None:
        config: dict[str, Any] = info["config"]
        self.key = key
        self._newest: int = info["delivered"]["stream_seq"]  # of what JetStream has handed out
        self._asked: set[int] = set()  # sequences that were handed back unseen and did not come yet
        self._link = link
        self._deliver_subject: str = config["deliver_subject"]
        self._group: str = config.get("deliver_group") or ""
        self._ack_wait_s = (config.get("ack_wait") or 30_000_000_000) / 1e9
        self._max_deliver: int = config.get("max_deliver") or -1
        self._window = Window(window, self._ack_wait_s)
        self._buffer = buffer
        self._frame = frame
        self._writes_whole = writes_whole
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._ended = ""
        self._subscription: LinkSubscription | None = None
        self._generation = -1
        self._is_paused = False
        self._pausing: asyncio.Task[None] | None = None
        self._last_message = self._loop.time()
        self._unwritten: list[HttpDelivery] = []  # in a write that has not ended

    # -- its life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Show interest, which lets the consumer begin."""
        self._link.listen(self._link_changed)
        await self._subscribe()

    async def run(self, write: Write, ping: bytes, ping_s: float) -> str:
        """Write messages; `ping` in between, if it is not empty.

        A write that is cancelled has written nothing, unless parts of it may leave on their own."""
        keeper = self._loop.create_task(self._keep())
        try:
            while True:
                chunk = self._gather()
                if chunk:
                    if not self._writes_whole:
                        self._unwritten = []
                    if not await write(chunk):
                        return ""
                    self._unwritten = []
                    if self._is_paused:
                        await self._resume()
                elif self._ended:
                    return self._ended
                elif not await self._sleep(ping_s if ping else 0.0) and ping:
                    await write(ping)
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def close(self) -> None:
        """Let go of the consumer, then hand back what was not written."""
        self._link.unlisten(self._link_changed)
        if self._subscription is not None:
            self._pause()
        pausing, self._pausing = self._pausing, None
        if pausing is not None:
            await asyncio.wait([pausing])
        with contextlib.suppress(LinkError):
            unwritten = [*self._unwritten, *self._window.waiting()]
            self._answer(NAK, [each for each in unwritten if self._has_deliveries_left(each)])
            await self._recover(self._newest, is_over=True)

    def _has_deliveries_left(self, delivery: HttpDelivery) -> bool:
        """Whether handing the message back leaves it more than its last delivery."""
        return self._max_deliver < 0 or delivery.delivered + 1 < self._max_deliver

    def fail(self, reason: str) -> None:
        """End it; the caller hears why."""
        self._ended = self._ended or reason
        self._wake.set()

    # -- acknowledgements ---------------------------------------------------------------------------

    def acked(self, stream_seq: int) -> bool:
        """JetStream knows; whether the message was one of ours."""
        if self._window.acked(stream_seq) is None:
            return False
        self._wake.set()
        return True

    def acknowledge(self, stream_seq: int) -> None:
        """JetStream does not know yet."""
        delivery = self._window.acked(stream_seq)
        if delivery is not None:
            self._wake.set()
            with contextlib.suppress(LinkError):
                self._answer(ACK, [delivery])

    def _answer(self, word: bytes, deliveries: list[HttpDelivery]) -> None:
        for delivery in deliveries:
            self._link.publish(delivery.reply, word)

    # -- from NATS ----------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        self._generation = self._link.generation
        self._subscription = self._link.subscribe(
            self._deliver_subject, queue=self._group, deliver=self._take
        )
        with contextlib.suppress(RequestTimeout):
            await self._link.flush(_PATIENCE_S)

    def _take(self, messages: list[LinkMessage]) -> None:
        now = self._last_message = self._loop.time()
        for message in messages:
            delivery = delivery_of(message, now)
            if delivery is not None:
                self._newest = max(self._newest, delivery.stream_seq)
                self._asked.discard(delivery.stream_seq)
                self._window.take(delivery)
            elif message.reply:  # flow control of a consumer that others made: it goes on when answered
                with contextlib.suppress(LinkError):
                    self._link.publish(message.reply)
        self._wake.set()
        if self._window.held_bytes > self._buffer or self._window.held >= _HELD_AT_MOST:
            self._pause()

    def _pause(self) -> None:
        if self._is_paused or self._subscription is None:
            return
        self._is_paused = True
        subscription, self._subscription = self._subscription, None
        self._pausing = self._loop.create_task(self._drain(subscription))

    async def _drain(self, subscription: LinkSubscription) -> None:
        """What is on its way still comes."""
        await subscription.drain(_PATIENCE_S)

    async def _recover(self, newest: int, *, is_over: bool = False) -> None:
        """JetStream goes on for a moment after the interest is gone, and would wait for the acks of what it
        sent to nobody behind `newest`.  To be asked for when somebody listens again, or nobody will: what is
        handed back within that moment goes to nobody once more.  When the session `is_over`, somebody else
        may listen already: what was sent to him is his."""
        if self._group:  # whose other members have what we have not seen
            return
        info = await self._link.api(f"CONSUMER.INFO.{self.key[0]}.{self.key[1]}")
        if is_over and info.get("push_bound"):
            return
        last: int = info["delivered"]["stream_seq"]
        floor: int = info["ack_floor"]["stream_seq"]
        self._asked = {sequence for sequence in self._asked if sequence > floor}
        self._asked.update(range(max(newest, last - _HELD_AT_MOST) + 1, last + 1))
        for sequence in sorted(self._asked):
            if not self._window.has(sequence):
                self._link.publish(ack_subject(*self.key, sequence, 1), NAK)

    async def _resume(self) -> None:
        if self._window.held_bytes > self._buffer // 2 or self._window.held > _HELD_AT_MOST // 2:
            return
        if self._pausing is not None:
            await asyncio.wait([self._pausing])
            self._pausing = None  # not before: `close` waits for it too
        self._is_paused = False
        newest = self._newest
        with contextlib.suppress(LinkError):  # else the link tells when it is back
            await self._subscribe()
            await self._recover(newest)

    def _link_changed(self) -> None:
        if self._link.is_closed:
            self.fail("the connection to NATS was closed")
        self._wake.set()

    async def _mend(self) -> None:
        """After the link was lost and found, which shows interest again: look after the consumer."""
        if self._is_paused or not self._link.is_up or self._generation == self._link.generation:
            return
        self._generation = self._link.generation
        with contextlib.suppress(LinkError):
            await self._look()

    # -- to the caller ------------------------------------------------------------------------------

    def _gather(self) -> bytes:
        """As many lines as may go now, up to a chunk."""
        now = self._loop.time()
        lines: list[bytes] = []
        size = 0
        while size < _CHUNK:
            delivery = self._window.next(now)
            if delivery is None:
                break
            if now - delivery.taken > self._ack_wait_s / 8:
                self._say_in_progress([delivery])  # the caller's time begins now
            line = self._frame(delivery)
            delivery.message = None
            self._unwritten.append(delivery)
            lines.append(line)
            size += len(line)
        return b"".join(lines)

    async def _sleep(self, at_most_s: float) -> bool:
        """Until there may be something to do; whether there is."""
        await self._mend()
        now = self._loop.time()
        deadline = self._window.next_deadline() if self._window.held else None
        patience = [at_most_s] if at_most_s else []
        if deadline is not None:
            patience.append(max(0.0, deadline - now) + 0.001)
        try:
            async with asyncio.timeout(min(patience) if patience else None):
                await self._wake.wait()
        except TimeoutError:
            return bool(self._window.held)
        self._wake.clear()
        return True

    async def _keep(self) -> None:
        """Tell JetStream about what is held, and look after the consumer when it is quiet."""
        rest_s = min(max(self._ack_wait_s / 3, 0.05), _LOOK_AFTER_S)
        while True:
            await asyncio.sleep(rest_s)
            with contextlib.suppress(LinkError):
                self._say_in_progress(self._window.waiting())
                if self._loop.time() - self._last_message > _LOOK_AFTER_S:
                    self._last_message = self._loop.time()
                    await self._look()

    def _say_in_progress(self, deliveries: list[HttpDelivery]) -> None:
        with contextlib.suppress(LinkError):
            self._answer(PROGRESS, deliveries)
            now = self._loop.time()
            for delivery in deliveries:
                delivery.taken = now

    async def _look(self) -> None:
        """A consumer that is gone delivers nothing, and does not say so."""
        try:
            await self._link.api(f"CONSUMER.INFO.{self.key[0]}.{self.key[1]}")
        except LinkApiError as error:
            if error.err in _GONE:
                self.fail(error.description)
