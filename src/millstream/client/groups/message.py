"""A message that a member of a group received, and its acknowledgement."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from millstream.client.api import Api
from millstream.client.core import Arrival
from millstream.client.errors import AckLost, ServerUnavailable
from millstream.link.errors import LinkError, NoResponders
from millstream.protocol.ack_subject import AckSubject

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000_000


class GroupMessage:
    """A message to be settled by `ack`, `nak` or `term`; `subject` is without the partition's number."""

    __slots__ = (
        "_api",
        "_lost",
        "_settled",
        "_settling",
        "arrived_s",
        "consumer_seq",
        "data",
        "deliveries",
        "headers",
        "partition",
        "pending",
        "reply",
        "stream",
        "stream_seq",
        "subject",
        "timestamp_ns",
    )

    def __init__(
        self,
        api: Api,
        arrival: Arrival,
        position: AckSubject,
        arrived_s: float,
        settling: Callable[[GroupMessage], None],
    ) -> None:
        number, _, rest = arrival.subject.partition(".")
        self.subject: Final = rest or arrival.subject
        self.partition: Final = int(number) if number.isdecimal() else -1
        self.data: Final = arrival.payload
        self.headers: Final[Mapping[str, str]] = arrival.headers
        self.stream: Final = position.stream
        self.stream_seq: Final = position.stream_seq
        self.consumer_seq: Final = position.consumer_seq
        self.timestamp_ns: Final = position.timestamp_ns  # when it was stored, since 1970 in UTC
        self.deliveries: Final = position.delivered  # of this message, this one included
        self.pending: Final = position.pending  # messages after this one when it was sent
        self.reply: Final = arrival.reply
        self.arrived_s = arrived_s  # when its ack wait began, as a time of the event loop
        self._api = api
        self._settling = settling
        self._settled = False
        self._lost = False

    def __repr__(self) -> str:
        return f"<GroupMessage {self.stream_seq} of {self.stream} on {self.subject}>"

    @property
    def timestamp(self) -> datetime:
        """The time at which the message was stored, to the microsecond."""
        return _EPOCH + timedelta(microseconds=self.timestamp_ns // 1_000)

    @property
    def is_settled(self) -> bool:
        return self._settled

    async def ack(self, *, wait: bool = True) -> None:
        """Acknowledge the message; by default, wait until the server has confirmed it.

        Raises AckLost if the member's consumer is gone: the message is delivered again, maybe to another
        member.  Raises ServerUnavailable without an answer: it may be delivered again.
        """
        await self._settle(b"+ACK", wait)

    async def nak(self, delay_s: float = 0.0) -> None:
        """Ask for the message again, at once or after a time."""
        delay = round(delay_s * _SECOND)
        await self._settle(b"-NAK" + (json.dumps({"delay": delay}).encode() if delay > 0 else b""), False)

    async def term(self, reason: str = "") -> None:
        """Give the message up: it is not delivered again."""
        await self._settle(f"+TERM {reason}".strip().encode(), True)

    async def in_progress(self) -> None:
        """Ask for more time: `ack_wait_s` begins again."""
        self.arrived_s = asyncio.get_running_loop().time()
        self._api.carrier.publish(self.reply, b"+WPI")

    def lose(self) -> None:
        """Called when the consumer is gone; another one of the same name would not answer an ack."""
        self._lost = True

    async def _settle(self, text: bytes, wait: bool) -> None:
        if self._settled:
            return
        if self._lost:
            raise self._ack_lost()
        try:
            if wait:
                await self._confirmed(text)
            else:
                self._api.carrier.publish(self.reply, text)
        finally:
            self._settled = True
            self._settling(self)

    async def _confirmed(self, text: bytes) -> None:
        try:
            await self._api.carrier.request(self.reply, text, b"", self._api.timeout_s)
        except NoResponders:
            raise self._ack_lost() from None
        except LinkError as error:
            raise ServerUnavailable(f"acknowledging message {self.stream_seq}: {error}") from error

    def _ack_lost(self) -> AckLost:
        return AckLost(
            f"message {self.stream_seq} of {self.stream} was not acknowledged: its consumer is gone, so it "
            "is delivered again"
        )
