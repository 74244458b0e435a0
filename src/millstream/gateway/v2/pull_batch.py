"""Pull requests to a consumer, and a bounded buffer for their messages.

A request limits messages and bytes, so no more can arrive.  The reader that takes messages out sends the next
request.  JetStream ends a request with a status:

    404, 408             no message, or none in time              ─▶ ENDED: ask again
    409 batch completed                                           ─▶ ENDED
    409 leadership change, server shutdown, max waiting           ─▶ NOT_NOW: ask again after a while
    409 message size exceeds max bytes                            ─▶ TOO_BIG: ask for one message, of any size
    409 consumer deleted                                          ─▶ NotFound
    409 anything else                                             ─▶ Conflict: asking again would not help
    503                                                           ─▶ LOST: is the consumer still there?
    100                                                           heartbeat: the request is still open
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from enum import Enum, auto
from typing import Any, Final

import msgspec

from millstream.gateway.errors import Conflict, GatewayError, NotFound
from millstream.gateway.link import CallerLink
from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkError
from millstream.link.subscriptions import LinkSubscription
from millstream.protocol.ack_subject import AckSubject, read_ack_subject
from millstream.protocol.headers import read_pairs

_SECOND: Final = 1_000_000_000
_NAK: Final = b"-NAK"
_PATIENCE_S: Final = 2.0  # seconds for the server to answer a PING
_NOT_NOW: Final = ("leadership change", "server shutdown", "exceeded maxwaiting")


class PullOutcome(Enum):
    """The end of a request."""

    ENDED = auto()
    NOT_NOW = auto()
    TOO_BIG = auto()
    LOST = auto()


class Taken(msgspec.Struct, frozen=True):
    """A message that a consumer delivered."""

    delivery: AckSubject
    reply: str  # the ack subject
    subject: str
    headers: list[tuple[str, str]]
    body: bytes


class PullInbox:
    """The inbox of the messages of a consumer."""

    def __init__(self, link: CallerLink, stream: str, consumer: str) -> None:
        self._link = link
        self._ask_subject = f"{link.options.api}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = ""
        self._subscription: LinkSubscription | None = None
        self._buffer: deque[Taken] = deque()
        self._ended: PullOutcome | GatewayError | None = None
        self._awake = asyncio.Event()
        self.expected = 0  # messages that the current request may still deliver
        self.heard = 0.0  # loop time of the last message or status

    # -- asking ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Subscribe; raises NotConnected if there is no connection."""
        self._link.out.check()
        self._inbox = self._link.new_inbox()
        self._subscription = self._link.subscribe(self._inbox, deliver=self._take)

    def ask(
        self,
        count: int,
        *,
        most_bytes: int = 0,
        expires_s: float = 0,
        heartbeat_s: float = 0,
        no_wait: bool = False,
    ) -> None:
        """Request `count` messages; the last request must have ended.  Raises NotConnected."""
        request: dict[str, Any] = {"batch": count}
        if most_bytes:
            request["max_bytes"] = most_bytes
        if expires_s:
            request["expires"] = int(expires_s * _SECOND)
        if heartbeat_s:
            request["idle_heartbeat"] = int(heartbeat_s * _SECOND)
        if no_wait:
            request["no_wait"] = True
        self.expected = count
        self._ended = None
        self.heard = asyncio.get_running_loop().time()
        self._link.publish(self._ask_subject, msgspec.json.encode(request), reply=self._inbox)

    # -- taking ---------------------------------------------------------------------------------------

    def take(self, most: int) -> list[Taken]:
        """Return the messages that have come, without waiting."""
        buffer = self._buffer
        return [buffer.popleft() for _ in range(min(most, len(buffer)))]

    @property
    def buffered(self) -> int:
        return len(self._buffer)

    @property
    def asking(self) -> bool:
        """Return whether the last request is still open."""
        return self.expected > 0 and self._ended is None

    def outcome(self) -> PullOutcome:
        """Return the end of the last request; raises if another request would fail, too."""
        if isinstance(self._ended, GatewayError):
            raise self._ended
        return self._ended or PullOutcome.ENDED

    def wake(self) -> None:
        self._awake.set()

    async def wait(self, timeout_s: float) -> None:
        """Wait for a message, the end of the request or a call of `wake`, for at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._awake.wait()
        self._awake.clear()

    def _take(self, messages: list[LinkMessage]) -> None:
        self.heard = asyncio.get_running_loop().time()
        for message in messages:
            delivery = read_ack_subject(message.reply) if message.reply else None
            if delivery is not None:
                self.expected -= 1
                headers = read_pairs(message.block) if message.block else []
                self._buffer.append(Taken(delivery, message.reply, message.subject, headers, message.payload))
            elif message.status:  # anything else does not come from the consumer
                self._status(message.status, message.description)
        self._awake.set()

    def _status(self, status: int, description: str) -> None:
        said = description.lower()
        if status == 100:
            return
        if status in (404, 408) or (status == 409 and said.startswith("batch completed")):
            self._ended = PullOutcome.ENDED
        elif status == 409 and said.startswith(_NOT_NOW):
            self._ended = PullOutcome.NOT_NOW
        elif status == 503:
            self._ended = PullOutcome.LOST
        elif status == 409 and said.startswith("message size exceeds maxbytes"):
            self._ended = PullOutcome.TOO_BIG
        elif status == 409 and said.startswith("consumer deleted"):
            self._ended = NotFound("the consumer was deleted")
        else:
            self._ended = Conflict(f"the consumer says: {description or status}")

    # -- leaving --------------------------------------------------------------------------------------

    async def close(self) -> list[Taken]:
        """Unsubscribe, and return the messages that were not taken, those on their way included."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.drain(_PATIENCE_S)
        self.expected = 0
        return self.take(len(self._buffer))


def has_deliveries_left(taken: Taken, max_deliver: int) -> bool:
    """Return whether a message has more than one delivery left after a nak.

    JetStream counts the delivery that is handed back.  A message before its last delivery waits for ack_wait
    instead, so that callers who come and go do not use it up.
    """
    return max_deliver < 0 or taken.delivery.delivered + 1 < max_deliver


async def give_back(link: CallerLink, replies: list[str]) -> None:
    """Nak messages, so that the next request gets them; without a connection, after ack_wait."""
    if not replies:
        return
    with contextlib.suppress(LinkError):
        for reply in replies:
            link.publish(reply, _NAK)
        await link.flush(_PATIENCE_S)
