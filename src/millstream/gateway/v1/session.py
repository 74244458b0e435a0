"""An open subscription of `/v1`: from a push consumer's deliver subject to the lines of an answer.

A message is held until it can be written: until `max_msg_inflight` and the caller's socket have room.  While
it is held, the session sends in-progress acks, so that only the caller's own time counts against `ack_wait`.
When too much is held, the session unsubscribes until there is room again; a consumer without interest stops
delivering, which is the back-pressure of a slow reader.

When the caller disconnects, the session unsubscribes first.  The caller may still acknowledge written
messages, which JetStream redelivers after `ack_wait`.  Messages that were never written are handed back for
immediate redelivery.  The exception is a message with a single delivery left: it waits for `ack_wait`, too,
so that callers who come and go do not use up messages that nobody has seen.
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
_PATIENCE_S: Final = 2.0  # seconds for the server to answer a PING
_LOOK_AFTER_S: Final = 15.0  # seconds without a message before the consumer is checked
_GONE: Final = (Err.CONSUMER_NOT_FOUND, Err.STREAM_NOT_FOUND)

# returns False if the caller disconnected before anything was written
Write = Callable[[bytes], Awaitable[bool]]
Frame = Callable[[HttpDelivery], bytes]


class Session:
    """A subscription; `run` writes until it ends and returns the reason, empty if the caller disconnected."""

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
        # the newest sequence that JetStream has delivered
        self._newest: int = info["delivered"]["stream_seq"]
        self._asked: set[int] = set()  # sequences that were handed back unseen and not redelivered yet
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
        """Subscribe to the deliver subject, which starts the deliveries."""
        self._link.listen(self._link_changed)
        await self._subscribe()

    async def run(self, write: Write, ping: bytes, ping_s: float) -> str:
        """Write messages, and `ping` in pauses if it is not empty.

        A cancelled write has written nothing, unless the server may send parts of it.
        """
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
        """Unsubscribe, then hand back the messages that were not written."""
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
        """Return whether the message has more than one delivery left after it is handed back."""
        return self._max_deliver < 0 or delivery.delivered + 1 < self._max_deliver

    def fail(self, reason: str) -> None:
        """End the session; the caller gets the reason."""
        self._ended = self._ended or reason
        self._wake.set()

    # -- acknowledgements ---------------------------------------------------------------------------

    def acked(self, stream_seq: int) -> bool:
        """Note an ack that JetStream has; return whether the message was in this session."""
        if self._window.acked(stream_seq) is None:
            return False
        self._wake.set()
        return True

    def acknowledge(self, stream_seq: int) -> None:
        """Send an ack to JetStream, which does not have it yet."""
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
            # flow control of a consumer that another client made: it continues after the answer
            elif message.reply:
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
        """Unsubscribe, and take the messages that are still on their way."""
        await subscription.drain(_PATIENCE_S)

    async def _recover(self, newest: int, *, is_over: bool = False) -> None:
        """Hand back messages after `newest` that JetStream sent while nobody was subscribed.

        JetStream delivers for a moment after the interest ends, and would wait for the acks of those
        messages. Call this when the session listens again or has ended: messages that are handed back during
        that moment would be lost once more.  When the session `is_over`, another session may be subscribed
        already, and keeps what was sent to it.
        """
        if self._group:  # other members of the group have the messages that we have not seen
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
            self._pausing = None  # only now: `close` waits for it, too
        self._is_paused = False
        newest = self._newest
        with contextlib.suppress(LinkError):  # otherwise the link calls back when it has reconnected
            await self._subscribe()
            await self._recover(newest)

    def _link_changed(self) -> None:
        if self._link.is_closed:
            self.fail("the connection to NATS was closed")
        self._wake.set()

    async def _mend(self) -> None:
        """Check the consumer after a reconnect, which has subscribed again."""
        if self._is_paused or not self._link.is_up or self._generation == self._link.generation:
            return
        self._generation = self._link.generation
        with contextlib.suppress(LinkError):
            await self._look()

    # -- to the caller ------------------------------------------------------------------------------

    def _gather(self) -> bytes:
        """Return the lines that may be written now, up to a chunk."""
        now = self._loop.time()
        lines: list[bytes] = []
        size = 0
        while size < _CHUNK:
            delivery = self._window.next(now)
            if delivery is None:
                break
            if now - delivery.taken > self._ack_wait_s / 8:
                self._say_in_progress([delivery])  # restarts ack_wait: the caller's time begins now
            line = self._frame(delivery)
            delivery.message = None
            self._unwritten.append(delivery)
            lines.append(line)
            size += len(line)
        return b"".join(lines)

    async def _sleep(self, at_most_s: float) -> bool:
        """Wait until there may be something to do; return whether there is."""
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
        """Send in-progress acks for held messages, and check the consumer when no message comes."""
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
        """Fail if the consumer was deleted: no event says so."""
        try:
            await self._link.api(f"CONSUMER.INFO.{self.key[0]}.{self.key[1]}")
        except LinkApiError as error:
            if error.err in _GONE:
                self.fail(error.description)
