"""Forward acks that reach the source after its consumers were copied.

A client acknowledges a message where it got it: at the source.  Acks are ordinary messages, so they can be
subscribed to, and the subject of each names its message.

They are recorded from before the copy on, and sent to the consumer of the same name at the target once it
exists.  An ack that the copy already has changes nothing.  Without the permission to subscribe, none are
forwarded.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from millstream.jsapi.ack_subject import read_ack_subject
from millstream.jsapi.names import ACK_PREFIX
from millstream.transfer.errors import ServerLost

_ALL: Final = f"{ACK_PREFIX}>"
_DONE: Final = (b"", b"+ACK", b"+TERM", b"+NXT")


@dataclass(frozen=True, slots=True)
class Ack:
    """One ack."""

    stream: str
    consumer: str
    stream_seq: int
    subject: str  # at the target
    body: bytes


def read_ack(subject: str, body: bytes) -> Ack | None:
    """Parse an ack; return None if it is none, or leaves the message pending."""
    delivery = read_ack_subject(subject)
    if delivery is None:
        return None
    verb = body.split(b" ", 1)[0].strip()
    if verb not in _DONE:
        return None
    kept = b"+TERM" if verb == b"+TERM" else b"+ACK"
    return Ack(delivery.stream, delivery.consumer, delivery.stream_seq, delivery.short_form, kept)


class LateAcks:
    """Subscribes at `source` and, after ``flow`` was called, publishes at `target`."""

    def __init__(self, source: Connection, target: Connection, streams: list[str]) -> None:
        self._source = source
        self._target = target
        self._streams = frozenset(streams)
        self._waiting: list[Ack] = []
        self._flowing = False
        self._subscription: Subscription | None = None
        self.replies: dict[tuple[str, str, int], str] = {}  # ack subjects of messages at the target
        self.carried = 0

    async def listen(self) -> None:
        try:
            self._subscription = await self._source.subscribe(_ALL, cb=self._heard)
            await self._source.flush()
        except (NatsError, OSError) as error:
            raise ServerLost(f"acknowledgements at the source: {error or type(error).__name__}") from error

    async def _heard(self, message: Msg) -> None:
        ack = read_ack(message.subject, message.data)
        if ack is None or ack.stream not in self._streams:
            return
        if self._flowing:
            await self._send(ack)
        else:
            self._waiting.append(ack)

    async def flow(self) -> None:
        """Start forwarding: the consumers exist at the target."""
        waiting, self._waiting = self._waiting, []
        self._flowing = True
        try:
            for ack in waiting:
                await self._send(ack)
            await self._target.flush()
        except (NatsError, OSError) as error:
            raise ServerLost(f"acknowledgements at the target: {error or type(error).__name__}") from error

    async def _send(self, ack: Ack) -> None:
        subject = self.replies.get((ack.stream, ack.consumer, ack.stream_seq), ack.subject)
        await self._target.publish(subject, ack.body)
        self.carried += 1

    async def close(self) -> None:
        subscription, self._subscription = self._subscription, None
        with suppress(NatsError, OSError):  # whoever needs these connections gets the error from them
            if subscription is not None and not self._source.is_closed:
                await subscription.unsubscribe()
            if not self._target.is_closed:
                await self._target.flush()
