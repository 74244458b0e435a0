"""Reading a pull consumer for as long as somebody wants its messages, whatever happens to the line.

    session = ConsumerSession(call, window=…)
    await session.open()
    while True:
        taken = await session.take(timeout_s)      # some messages, or none if none came in time
        …                                          # write them
        session.sent()

Memory: at most `window` messages and `stream_buffer` bytes are asked for at once, and nothing is asked for
while somebody has not taken what came.

Leaving: what was sent stays the reader's, who may still acknowledge it, and JetStream delivers it again when
`ack_wait` is over.  A reader that wants it delivered again at once says so (`OnDisconnect.NAK`); for this,
and for readers that hold unacknowledged messages against their window, reply subjects are remembered until
the message is acknowledged or `ack_wait` is over: from then on it may be somebody else's.  What was never
sent is always given back.
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
_SILENCE_S: Final = 12.5  # two and a half heartbeats
_LOOK_S: Final = 15.0  # how often to see whether the consumer is there, while nothing is asked of it
_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 2.0
_SECOND: Final = 1_000_000_000
_MOST_REMEMBERED: Final = 65_536

_sessions: Final[weakref.WeakKeyDictionary[CallerLink, weakref.WeakSet[ConsumerSession]]] = (
    weakref.WeakKeyDictionary()
)


def settled(link: CallerLink, subject: str, *, acked: bool) -> None:
    """Messages that are dealt with need not be given back; sessions of other gateways find out by
    themselves."""
    delivery = read_ack_subject(subject)
    if delivery is not None:
        for session in _sessions.get(link, ()):
            session.settle(delivery, acked=acked)


def progressed(link: CallerLink, subject: str) -> None:
    """The time of a message starts anew."""
    delivery = read_ack_subject(subject)
    if delivery is not None:
        for session in _sessions.get(link, ()):
            session.progress(delivery)


class OnDisconnect(StrEnum):
    """What becomes of messages that were sent and not acknowledged when the reader leaves."""

    WAIT = "wait"  # delivered again after ack_wait
    NAK = "nak"  # delivered again at once


class AckWait:
    """How many seconds a consumer waits for an acknowledgement."""

    def __init__(self, config: dict[str, Any]) -> None:
        waits = config.get("backoff") or [config.get("ack_wait") or 30 * _SECOND]
        self._waits_s: list[float] = [wait / _SECOND for wait in waits]

    def of(self, delivery: AckSubject) -> float:
        """Of the first delivery of a message, the second, …; the last one holds for those that follow."""
        return self._waits_s[min(max(delivery.delivered, 1), len(self._waits_s)) - 1]


class _Sent(NamedTuple):
    reply: str
    deadline: float  # when JetStream may deliver it to somebody else


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
        self._acks_all = False  # an ack is one of all messages before, too
        self._wait_s = _FIRST_WAIT_S
        self._looked = 0.0
        self._alone = False  # the next message is bigger than the buffer
        self.permits: int | None = None  # how many messages may still be handed out; None is any number
        self._gives_back = on_disconnect is OnDisconnect.NAK
        self._holds_unacked = hold_unacked  # unacknowledged messages count against the window
        self._ack_wait = AckWait({})
        self._max_deliver = -1
        self._handed: deque[Taken] = deque()  # taken, and not known to be sent
        self._out: dict[int, _Sent] = {}  # what was sent, by sequence, oldest first

    async def open(self) -> None:
        """Begin; NotFound, or Conflict if the consumer is none that can be pulled from."""
        await self.look()
        _sessions.setdefault(self._link, weakref.WeakSet()).add(self)
        self._link.listen(self.wake)

    async def look(self) -> None:
        """Look at the consumer; raises as `open`, and begins nothing."""
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
        """What there is, up to the window; nothing if nothing came in time.  Raises what ends the session."""
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
            await inbox.wait(min(deadline - now, 1.0))  # the gateway may be stopping

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
        """The first `count` messages that were taken, or all of them, have reached the socket."""
        handed = self._handed
        remember = self._acks and (self._gives_back or self._holds_unacked)
        now = asyncio.get_running_loop().time()
        for _ in range(len(handed) if count is None else count):
            message = handed.popleft()
            if remember:
                # One that comes again takes the place of what it was: whichever is acknowledged, it is done.
                self._out.pop(message.delivery.stream_seq, None)
                self._out[message.delivery.stream_seq] = _Sent(
                    message.reply, now + self._ack_wait.of(message.delivery)
                )
        if len(self._out) > self._remembered:
            self._forget_expired()
            while len(self._out) > self._remembered and not self._holds_unacked:
                del self._out[next(iter(self._out))]

    def _forget_expired(self) -> None:
        """Give up what was not acknowledged in time: JetStream delivers it again, to anybody."""
        now = asyncio.get_running_loop().time()
        out = self._out
        while out and out[oldest := next(iter(out))].deadline <= now:
            del out[oldest]

    def settle(self, delivery: AckSubject, *, acked: bool) -> None:
        """A message needs nothing more, if it is one of this consumer: acknowledged, or given up."""
        if delivery.consumer != self._consumer or delivery.stream != self._stream:
            return
        out, last = self._out, delivery.stream_seq
        done = [seq for seq in out if seq <= last] if acked and self._acks_all else [last] * (last in out)
        for seq in done:
            del out[seq]
        if done and self._holds_unacked:
            self.wake()

    def progress(self, delivery: AckSubject) -> None:
        """Somebody works on a message, if it is one of this consumer: it stays his for another ack_wait."""
        if delivery.consumer != self._consumer or delivery.stream != self._stream:
            return
        sent = self._out.pop(delivery.stream_seq, None)
        if sent is not None:
            now = asyncio.get_running_loop().time()
            self._out[delivery.stream_seq] = _Sent(sent.reply, now + self._ack_wait.of(delivery))

    def wake(self) -> None:
        """Look again: something is different."""
        if self._inbox is not None:
            self._inbox.wake()

    # -- the line -------------------------------------------------------------------------------------

    async def _ready(self, deadline: float) -> PullInbox | None:
        """An inbox on the connection of the moment; None if there was no connection in time."""
        loop = asyncio.get_running_loop()
        while self._inbox is None or self._generation != self._link.generation or not self._link.is_up:
            if self._link.is_closed:
                raise NotConnected("the link to NATS is closed")
            inbox, self._inbox = self._inbox, None
            if inbox is not None:
                # What came over a connection that is gone is delivered again by the server, after ack_wait.
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
        """Find out about what nobody told: a request that is no longer known there, a consumer that is
        gone."""
        silent = inbox.asking and now - inbox.heard > _SILENCE_S
        idle = not inbox.asking and now - max(inbox.heard, self._looked) > _LOOK_S
        if silent or idle:
            self._looked = now
            await self._must_be_there()
            if silent:
                self._generation = -1  # a new inbox: the old request, if there is one, dies with its own

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
        """Give back what was never sent; and what was, if the reader wanted that."""
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
