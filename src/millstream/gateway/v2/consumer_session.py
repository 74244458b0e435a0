"""A reader of a pull consumer, which continues after lost connections.

    session = ConsumerSession(call, window=…)
    await session.open()
    while True:
        taken = await session.take(timeout_s)      # messages; empty if none came in time
        …                                          # write them
        session.sent()

Memory: at most `window` messages and `stream_buffer` bytes are requested at once, and nothing is requested
until the caller has taken the messages that came.

Disconnect: the reader may still acknowledge messages that it was sent, and JetStream redelivers them after
`ack_wait`, or at once with `OnDisconnect.NAK`.  For this, and for readers whose unacknowledged messages count
against the window, reply subjects are kept until the message is acknowledged or `ack_wait` is over; from then
on another reader may have it.  Messages that were never sent are always handed back with a nak.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from enum import StrEnum
from typing import Any, Final, NamedTuple

from millstream.gateway.errors import Conflict, Stopping
from millstream.gateway.link import CallerLink
from millstream.gateway.v2.calls import Call
from millstream.gateway.v2.consumers import consumer_of
from millstream.gateway.v2.pull_batch import PullInbox, PullOutcome, Taken, give_back, has_deliveries_left
from millstream.gateway.v2.streams import stream_of
from millstream.link.errors import LinkApiError, LinkError, NotConnected
from millstream.protocol.ack_subject import AckSubject, read_ack_subject

_EXPIRES_S: Final = 30.0
_HEARTBEAT_S: Final = 5.0
_SILENCE_S: Final = 12.5  # seconds: two and a half heartbeats
_LOOK_S: Final = 15.0  # seconds between checks that the consumer exists, while no request is open
_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 2.0
_SECOND: Final = 1_000_000_000
_MOST_REMEMBERED: Final = 65_536

_sessions: Final[weakref.WeakKeyDictionary[CallerLink, weakref.WeakSet[ConsumerSession]]] = (
    weakref.WeakKeyDictionary()
)


def settled(link: CallerLink, subject: str, *, acked: bool) -> None:
    """Note in all sessions of the link that a message is acknowledged, and need not be handed back.

    Sessions of other gateways notice it by themselves.
    """
    delivery = read_ack_subject(subject)
    if delivery is not None:
        for session in _sessions.get(link, ()):
            session.settle(delivery, acked=acked)


def progressed(link: CallerLink, subject: str) -> None:
    """Restart the `ack_wait` of a message in all sessions of the link."""
    delivery = read_ack_subject(subject)
    if delivery is not None:
        for session in _sessions.get(link, ()):
            session.progress(delivery)


class OnDisconnect(StrEnum):
    """The treatment of sent and unacknowledged messages when the reader disconnects."""

    WAIT = "wait"  # redelivered after ack_wait
    NAK = "nak"  # redelivered at once


class AckWait:
    """The seconds that a consumer waits for an acknowledgement."""

    def __init__(self, config: dict[str, Any]) -> None:
        waits = config.get("backoff") or [config.get("ack_wait") or 30 * _SECOND]
        self._waits_s: list[float] = [wait / _SECOND for wait in waits]

    def of(self, delivery: AckSubject) -> float:
        """Return the wait after a message's first, second, … delivery; the last value repeats."""
        return self._waits_s[min(max(delivery.delivered, 1), len(self._waits_s)) - 1]


class _Sent(NamedTuple):
    reply: str
    deadline: float  # time from which JetStream may deliver it to another reader


class ConsumerSession:
    """One reader of a pull consumer."""

    def __init__(
        self, call: Call, *, window: int, on_disconnect: OnDisconnect, hold_unacked: bool = False
    ) -> None:
        self._link = call.link
        self._core = call.core
        self._stream = stream_of(call)
        self._consumer = consumer_of(call)
        self._window = window
        self._most_bytes = call.settings.limits.stream_buffer
        self._inbox: PullInbox | None = None
        self._generation = 0
        self._expires_s = _EXPIRES_S
        self._remembered = _MOST_REMEMBERED
        self._acks = True
        self._acks_all = False  # an ack covers all earlier messages, too
        self._wait_s = _FIRST_WAIT_S
        self._looked = 0.0
        self._alone = False  # request one message: the next is larger than the buffer
        self.permits: int | None = None  # messages that may still be handed out; None is no limit
        self._gives_back = on_disconnect is OnDisconnect.NAK
        self._holds_unacked = hold_unacked  # unacknowledged messages count against the window
        self._ack_wait = AckWait({})
        self._max_deliver = -1
        self._handed: deque[Taken] = deque()  # taken, and not yet confirmed as sent
        self._out: dict[int, _Sent] = {}  # messages that were sent, by sequence, oldest first

    async def open(self) -> None:
        """Start; raises NotFound, or Conflict if the consumer cannot be pulled from."""
        await self.look()
        _sessions.setdefault(self._link, weakref.WeakSet()).add(self)
        self._link.listen(self.wake)

    async def look(self) -> None:
        """Check the consumer without starting; raises what `open` raises."""
        config = (await self._link.api(f"CONSUMER.INFO.{self._stream}.{self._consumer}"))["config"]
        if config.get("deliver_subject"):
            raise Conflict("this is a push consumer; messages are read from pull consumers here")
        if config.get("priority_policy", "none") != "none":
            raise Conflict("this consumer has priority groups; read it by fetch")
        self._limit_by(config)

    def _limit_by(self, config: dict[str, Any]) -> None:
        if most := config.get("max_batch", 0):
            self._window = min(self._window, most)
        if most := config.get("max_bytes", 0):
            self._most_bytes = min(self._most_bytes or most, most)
        if most := config.get("max_expires", 0):
            self._expires_s = min(self._expires_s, most / _SECOND)
        policy = config.get("ack_policy", "none")
        self._acks, self._acks_all = policy != "none", policy == "all"
        self._ack_wait = AckWait(config)
        self._max_deliver = config.get("max_deliver") or -1
        pending = config.get("max_ack_pending", 0)
        if pending > 0:
            self._remembered = min(pending, _MOST_REMEMBERED)

    # -- messages -------------------------------------------------------------------------------------

    async def take(self, timeout_s: float) -> list[Taken]:
        """Return messages, up to the window, or none if none came in time; raises if the session ends."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            if self._core.stopping.is_set():
                raise Stopping("the gateway is being stopped")
            inbox = await self._ready(deadline)
            if inbox is None:
                if self._core.stopping.is_set():
                    continue
                return []
            room = self._room()
            if room and inbox.buffered:
                return self._hand_out(inbox.take(room))
            if room and not inbox.asking:
                await self._ask(inbox, room)
            now = loop.time()
            if now >= deadline:
                return []
            await self._look(inbox, now)
            await inbox.wait(min(deadline - now, 1.0))  # at most a second: the gateway may be stopping

    def _room(self) -> int:
        room = self._window
        if self._holds_unacked:
            self._forget_expired()
            room -= len(self._out) + len(self._handed)
        return max(0, room if self.permits is None else min(room, self.permits))

    def _hand_out(self, taken: list[Taken]) -> list[Taken]:
        self._wait_s = _FIRST_WAIT_S
        self._alone = False
        if self.permits is not None:
            self.permits -= len(taken)
        self._handed.extend(taken)
        return taken

    def sent(self, count: int | None = None) -> None:
        """Note that the first `count` taken messages, by default all, have reached the socket."""
        handed = self._handed
        remember = self._acks and (self._gives_back or self._holds_unacked)
        now = asyncio.get_running_loop().time()
        for _ in range(len(handed) if count is None else count):
            message = handed.popleft()
            if remember:
                # A redelivery replaces the earlier delivery: an ack of either one settles the message.
                self._out.pop(message.delivery.stream_seq, None)
                self._out[message.delivery.stream_seq] = _Sent(
                    message.reply, now + self._ack_wait.of(message.delivery)
                )
        if len(self._out) > self._remembered:
            self._forget_expired()
            while len(self._out) > self._remembered and not self._holds_unacked:
                del self._out[next(iter(self._out))]

    def _forget_expired(self) -> None:
        """Forget messages that were not acknowledged in time: JetStream may deliver them to any reader."""
        now = asyncio.get_running_loop().time()
        out = self._out
        while out and out[oldest := next(iter(out))].deadline <= now:
            del out[oldest]

    def settle(self, delivery: AckSubject, *, acked: bool) -> None:
        """Forget a message of this consumer that was acknowledged or terminated."""
        if delivery.consumer != self._consumer or delivery.stream != self._stream:
            return
        out, last = self._out, delivery.stream_seq
        done = [seq for seq in out if seq <= last] if acked and self._acks_all else [last] * (last in out)
        for seq in done:
            del out[seq]
        if done and self._holds_unacked:
            self.wake()

    def progress(self, delivery: AckSubject) -> None:
        """Restart the ack_wait of a message of this consumer, because its reader sent progress."""
        if delivery.consumer != self._consumer or delivery.stream != self._stream:
            return
        sent = self._out.pop(delivery.stream_seq, None)
        if sent is not None:
            now = asyncio.get_running_loop().time()
            self._out[delivery.stream_seq] = _Sent(sent.reply, now + self._ack_wait.of(delivery))

    def wake(self) -> None:
        """Wake `take`, because the state has changed."""
        if self._inbox is not None:
            self._inbox.wake()

    # -- the line -------------------------------------------------------------------------------------

    async def _ready(self, deadline: float) -> PullInbox | None:
        """Return an inbox on the current connection; None if there was no connection in time."""
        loop = asyncio.get_running_loop()
        while self._inbox is None or self._generation != self._link.generation or not self._link.is_up:
            if self._link.is_closed:
                raise NotConnected("the link to NATS is closed")
            inbox, self._inbox = self._inbox, None
            if inbox is not None:
                # The server redelivers messages of a lost connection after ack_wait.
                await self._give_back_unsent(await inbox.close())
            if self._link.is_up:
                inbox = PullInbox(self._link, self._stream, self._consumer)
                self._generation = self._link.generation
                try:
                    inbox.open()
                    self._inbox = inbox
                    continue
                except NotConnected:
                    pass
            if loop.time() >= deadline or self._core.stopping.is_set():
                return None
            await self._pause(deadline)
        return self._inbox

    async def _ask(self, inbox: PullInbox, room: int) -> None:
        outcome = inbox.outcome()
        if outcome is PullOutcome.LOST:
            await self._must_be_there()
            await self._pause()
        elif outcome is PullOutcome.TOO_BIG:
            self._alone = True
        elif outcome is PullOutcome.NOT_NOW:
            await self._pause()
        heartbeat_s = min(_HEARTBEAT_S, self._expires_s / 2)
        try:
            if self._alone:
                inbox.ask(1, expires_s=self._expires_s, heartbeat_s=heartbeat_s)
            else:
                inbox.ask(
                    room, most_bytes=self._most_bytes, expires_s=self._expires_s, heartbeat_s=heartbeat_s
                )
        except NotConnected:
            await self._pause()

    async def _look(self, inbox: PullInbox, now: float) -> None:
        """Check for changes without an event: a pull request that the server lost, a deleted consumer."""
        silent = inbox.asking and now - inbox.heard > _SILENCE_S
        idle = not inbox.asking and now - max(inbox.heard, self._looked) > _LOOK_S
        if silent or idle:
            self._looked = now
            await self._must_be_there()
            if silent:
                self._generation = -1  # use a new inbox: the old request ends with the old one

    async def _must_be_there(self) -> None:
        try:
            await self._link.api(f"CONSUMER.INFO.{self._stream}.{self._consumer}")
        except LinkApiError as error:
            if error.code == 404:
                raise
        except LinkError:
            pass

    async def _pause(self, deadline: float | None = None) -> None:
        wait_s = self._wait_s
        if deadline is not None:
            wait_s = max(0.01, min(wait_s, deadline - asyncio.get_running_loop().time()))
        await asyncio.sleep(wait_s)
        self._wait_s = min(self._wait_s * 2, _LONGEST_WAIT_S)

    # -- the end --------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Nak messages that were never sent, and with `OnDisconnect.NAK` those that were, too."""
        self._link.unlisten(self.wake)
        _sessions.get(self._link, weakref.WeakSet()).discard(self)
        unsent = list(self._handed)
        self._handed.clear()
        if self._inbox is not None:
            unsent += await self._inbox.close()
            self._inbox = None
        await self._give_back_unsent(unsent)
        if self._gives_back and self._link.is_up:
            now = asyncio.get_running_loop().time()
            await give_back(self._link, [sent.reply for sent in self._out.values() if sent.deadline > now])
        self._out.clear()

    async def _give_back_unsent(self, unsent: list[Taken]) -> None:
        if self._acks and self._link.is_up:
            replies = [each.reply for each in unsent if has_deliveries_left(each, self._max_deliver)]
            await give_back(self._link, replies)
