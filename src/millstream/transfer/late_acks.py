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

from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkError
from millstream.link.link import Link
from millstream.link.subscriptions import LinkSubscription
from millstream.protocol.ack_subject import ACK_PREFIX, read_ack_subject
from millstream.transfer.errors import ServerLost

_ALL: Final = f"{ACK_PREFIX}>"
_DONE: Final = (b"", b"+ACK", b"+TERM", b"+NXT")


@dataclass(frozen=True, slots=True)
class LateAck:
    """One ack."""

    stream: str
    consumer: str
    stream_seq: int
    subject: str  # at the target
    body: bytes


def read_ack(subject: str, body: bytes) -> LateAck | None:
    """Parse an ack; return None if it is none, or leaves the message pending."""
    delivery = read_ack_subject(subject)
    if delivery is None:
        return None
    verb = body.split(b" ", 1)[0].strip()
    if verb not in _DONE:
        return None
    kept = b"+TERM" if verb == b"+TERM" else b"+ACK"
    return LateAck(delivery.stream, delivery.consumer, delivery.stream_seq, delivery.short_form, kept)


class LateAcks:
    """Subscribes at `source` and, after ``flow`` was called, publishes at `target`."""

    def __init__(self, source: Link, target: Link, streams: list[str]) -> None:
        self._source = source
        self._target = target
        self._streams = frozenset(streams)
        self._waiting: list[LateAck] = []
        self._flowing = False
        self._subscription: LinkSubscription | None = None
        self.replies: dict[tuple[str, str, int], str] = {}  # ack subjects of messages at the target
        self.carried = 0

    async def listen(self) -> None:
        try:
            self._subscription = self._source.subscribe(_ALL, deliver=self._heard)
            await self._source.flush()
        except LinkError as error:
            raise ServerLost(f"acknowledgements at the source: {error}") from error

    def _heard(self, messages: list[LinkMessage]) -> None:
        for message in messages:
            ack = read_ack(message.subject, message.payload)
            if ack is None or ack.stream not in self._streams:
                continue
            if not self._flowing or not self._target.is_up:
                self._waiting.append(ack)
            else:
                self._send(ack)

    async def flow(self) -> None:
        """Start forwarding: the consumers exist at the target."""
        waiting, self._waiting = self._waiting, []
        self._flowing = True
        try:
            for ack in waiting:
                self._send(ack)
            await self._target.flush()
        except LinkError as error:
            raise ServerLost(f"acknowledgements at the target: {error}") from error

    def _send(self, ack: LateAck) -> None:
        subject = self.replies.get((ack.stream, ack.consumer, ack.stream_seq), ack.subject)
        self._target.publish(subject, ack.body)
        self.carried += 1

    async def close(self) -> None:
        """Stop listening, and send the acks received so far."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.drain()
        if self._flowing:
            with suppress(ServerLost):  # whoever needs these connections is told by them
                await self.flow()
