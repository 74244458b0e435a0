"""The advisories of an account's JetStream, published on `$JS.EVENT.ADVISORY.…`.

An advisory without a subscriber is not built.  nats-server has no advisory for damage to a store, so that
type is ours; its subject is beside the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base.ids import nuid
from millstream.golang.time import ZERO_TIME, Time
from millstream.jsapi import names
from millstream.jsapi.advisory_types import (
    ApiAudit,
    ApiLimitReached,
    BatchAbandoned,
    ConsumerAckMetric,
    ConsumerActionAdvisory,
    ConsumerPause,
    Event,
    GroupPinned,
    GroupUnpinned,
    MaxDeliveries,
    MessageNaked,
    MessageTerminated,
    ServerOutOfStorage,
    StreamActionAdvisory,
)
from millstream.jsapi.codec import encode
from millstream.jsapi.enums import AdvisoryAction, BatchAbandonReason
from millstream.jsapi.go_types import Int64, UInt64, always, no_items

if TYPE_CHECKING:
    from millstream.jetstream.ports import ClientRequest, World

_API: Final = names.ADVISORY_API.encode()
_STREAM_ACTIONS: Final = {
    AdvisoryAction.CREATE: names.ADVISORY_STREAM_CREATED,
    AdvisoryAction.MODIFY: names.ADVISORY_STREAM_UPDATED,
    AdvisoryAction.DELETE: names.ADVISORY_STREAM_DELETED,
}
STREAM_DAMAGED: Final = "$JS.EVENT.ADVISORY.STREAM.DAMAGED.*"


class StreamDamaged(Event):
    """Stored messages can no longer be read."""

    type: str = always("io.millstream.jetstream.advisory.v1.stream_damaged")
    stream: str = always("")
    messages: Int64 = always(0)  # messages lost since the server started
    bytes: Int64 = always(0)
    sequences: list[UInt64] = no_items()  # if known
    domain: str = ""


class Advisories:
    """The advisories of one account."""

    def __init__(
        self,
        world: World,
        *,
        account: str,
        domain: str = "",
        server_name: str = "",
        server_id: str = "",
        system: World | None = None,
    ) -> None:
        self._world = world
        self._account = account
        self._domain = domain
        self._server_name = server_name
        self._server_id = server_id
        self._system = system  # the system account, for advisories about the whole server

    def heard(self, pattern: str, *tokens: str) -> bool:
        """Return True if there is a subscriber."""
        return self._world.has_interest(names.fill(pattern, *tokens).encode())

    def send(self, event: Event, pattern: str, *tokens: str) -> None:
        """Complete an advisory and publish it."""
        _publish(self._world, event, names.fill(pattern, *tokens))

    def send_if_heard(self, event: Event, pattern: str, *tokens: str) -> None:
        if self.heard(pattern, *tokens):
            self.send(event, pattern, *tokens)

    # -- streams ----------------------------------------------------------------------------------

    def stream_created(self, stream: str) -> None:
        self._stream_action(stream, AdvisoryAction.CREATE)

    def stream_updated(self, stream: str) -> None:
        self._stream_action(stream, AdvisoryAction.MODIFY)

    def stream_deleted(self, stream: str) -> None:
        self._stream_action(stream, AdvisoryAction.DELETE)

    def _stream_action(self, stream: str, action: AdvisoryAction) -> None:
        pattern = _STREAM_ACTIONS[action]
        if self.heard(pattern, stream):
            event = StreamActionAdvisory(stream=stream, action=action, domain=self._domain)
            self.send(event, pattern, stream)

    def batch_abandoned(self, stream: str, batch: str, reason: BatchAbandonReason) -> None:
        if self.heard(names.ADVISORY_STREAM_BATCH_ABANDONED, stream):
            event = BatchAbandoned(stream=stream, batch=batch, reason=reason, domain=self._domain)
            self.send(event, names.ADVISORY_STREAM_BATCH_ABANDONED, stream)

    def stream_damaged(self, stream: str, messages: int, size: int, sequences: list[int]) -> bool:
        """Report damage; return False without a subscriber, as at a start, when damage is mostly found."""
        if not self.heard(STREAM_DAMAGED, stream):
            return False
        event = StreamDamaged(
            stream=stream, messages=messages, bytes=size, sequences=sequences, domain=self._domain
        )
        self.send(event, STREAM_DAMAGED, stream)
        return True

    def of_consumer(self, stream: str, consumer: str) -> ConsumerAdvisories:
        """Return the advisories of one consumer."""
        return ConsumerAdvisories(
            self._world, account=self._account, domain=self._domain, stream=stream, consumer=consumer
        )

    # -- the server -------------------------------------------------------------------------------

    def out_of_storage(self, stream: str) -> None:
        """Report that a stream could not write because storage is full."""
        subject = names.ADVISORY_SERVER_OUT_OF_STORAGE
        if self._system is not None and self._system.has_interest(subject.encode()):
            event = ServerOutOfStorage(
                server=self._server_name, server_id=self._server_id, stream=stream, domain=self._domain
            )
            _publish(self._system, event, subject)

    def api_limit_reached(self, dropped: int) -> None:
        """Report that requests were dropped because too many were waiting."""
        subject = names.ADVISORY_API_LIMIT_REACHED
        if self._system is not None and self._system.has_interest(subject.encode()):
            event = ApiLimitReached(server=self._server_name, domain=self._domain, dropped=dropped)
            _publish(self._system, event, subject)

    def api_audit(self, subject: bytes, request: ClientRequest, response: bytes) -> None:
        """Report a request and its response."""
        if self._world.has_interest(_API):
            event = ApiAudit(
                server=self._server_name,
                client=request.requester.describe(),
                subject=subject.decode(errors="replace"),
                request=request.payload.decode(errors="replace"),
                response=response.decode(),
                domain=self._domain,
            )
            self.send(event, names.ADVISORY_API)


class ConsumerAdvisories:
    """The advisories of one consumer; keeps subjects that are checked for every message."""

    def __init__(self, world: World, *, account: str, domain: str, stream: str, consumer: str) -> None:
        self._world = world
        self._account = account
        self._domain = domain
        self._stream = stream
        self._consumer = consumer
        self._naked = self._subject(names.ADVISORY_CONSUMER_MSG_NAKED)
        self._terminated = self._subject(names.ADVISORY_CONSUMER_MSG_TERMINATED)
        self._acked = self._subject(names.METRIC_CONSUMER_ACK)

    def _subject(self, pattern: str) -> bytes:
        return f"{pattern.removesuffix('*.*')}{self._stream}.{self._consumer}".encode()

    def created(self) -> None:
        self._action(names.ADVISORY_CONSUMER_CREATED, AdvisoryAction.CREATE)

    def deleted(self) -> None:
        self._action(names.ADVISORY_CONSUMER_DELETED, AdvisoryAction.DELETE)

    def _action(self, pattern: str, action: AdvisoryAction) -> None:
        self._tell(
            self._subject(pattern),
            lambda: ConsumerActionAdvisory(
                stream=self._stream, consumer=self._consumer, action=action, domain=self._domain
            ),
        )

    def paused(self, until: Time | None, *, paused: bool) -> None:
        """Report that a pause began, changed or ended."""
        self._tell(
            self._subject(names.ADVISORY_CONSUMER_PAUSE),
            lambda: ConsumerPause(
                stream=self._stream,
                consumer=self._consumer,
                paused=paused,
                pause_until=ZERO_TIME if until is None else until,
                domain=self._domain,
            ),
        )

    def max_deliveries(self, stream_seq: int, deliveries: int, dead_letter: str = "") -> None:
        """Report that a message is given up; `dead_letter` is the subject under which it was stored."""
        self._tell(
            self._subject(names.ADVISORY_CONSUMER_MAX_DELIVERIES),
            lambda: MaxDeliveries(
                stream=self._stream,
                consumer=self._consumer,
                stream_seq=stream_seq,
                deliveries=deliveries,
                domain=self._domain,
                dead_letter=dead_letter,
            ),
        )

    def naked(self, consumer_seq: int, stream_seq: int, deliveries: int) -> None:
        self._tell(
            self._naked,
            lambda: MessageNaked(
                stream=self._stream,
                consumer=self._consumer,
                consumer_seq=consumer_seq,
                stream_seq=stream_seq,
                deliveries=deliveries,
                domain=self._domain,
            ),
        )

    def terminated(
        self, consumer_seq: int, stream_seq: int, deliveries: int, reason: str = "", dead_letter: str = ""
    ) -> None:
        self._tell(
            self._terminated,
            lambda: MessageTerminated(
                stream=self._stream,
                consumer=self._consumer,
                consumer_seq=consumer_seq,
                stream_seq=stream_seq,
                deliveries=deliveries,
                reason=reason,
                domain=self._domain,
                dead_letter=dead_letter,
            ),
        )

    def acked(self, consumer_seq: int, stream_seq: int, ack_time_ns: int, deliveries: int) -> None:
        """Report that a sampled message was acknowledged `ack_time_ns` after its delivery."""
        self._tell(
            self._acked,
            lambda: ConsumerAckMetric(
                stream=self._stream,
                consumer=self._consumer,
                consumer_seq=consumer_seq,
                stream_seq=stream_seq,
                ack_time=ack_time_ns,
                deliveries=deliveries,
                domain=self._domain,
            ),
        )

    def pinned(self, group: str, pin_id: str) -> None:
        self._tell(
            self._subject(names.ADVISORY_CONSUMER_PINNED),
            lambda: GroupPinned(
                account=self._account,
                stream=self._stream,
                consumer=self._consumer,
                domain=self._domain,
                group=group,
                pinned_id=pin_id,
            ),
        )

    def unpinned(self, group: str, reason: str) -> None:
        """Report that a group was unpinned; `reason` is ``admin`` or ``timeout``."""
        self._tell(
            self._subject(names.ADVISORY_CONSUMER_UNPINNED),
            lambda: GroupUnpinned(
                account=self._account,
                stream=self._stream,
                consumer=self._consumer,
                domain=self._domain,
                group=group,
                reason=reason,
            ),
        )

    def _tell(self, subject: bytes, make: Callable[[], Event]) -> None:
        if self._world.has_interest(subject):
            _publish(self._world, make(), subject.decode())


def _publish(world: World, event: Event, subject: str) -> None:
    event.id = nuid()
    event.timestamp = Time(world.now_ns())
    world.publish(subject.encode(), encode(event))
