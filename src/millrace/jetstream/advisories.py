"""What an account's JetStream tells those who listen: advisories on `$JS.EVENT.ADVISORY.…`.

Nothing is put together that nobody would hear.  Damage to a store has no advisory in nats-server, so its
type is ours; it goes where the others go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millrace.base.ids import nuid
from millrace.jsapi import names
from millrace.jsapi.advisory_types import (
    ApiAudit,
    ApiLimitReached,
    BatchAbandoned,
    Event,
    ServerOutOfStorage,
    StreamActionAdvisory,
)
from millrace.jsapi.codec import encode
from millrace.jsapi.enums import AdvisoryAction, BatchAbandonReason
from millrace.jsapi.go_time import Time
from millrace.jsapi.go_types import Int64, UInt64, always, no_items

if TYPE_CHECKING:
    from millrace.jetstream.ports import Request, World

_API: Final = names.ADVISORY_API.encode()
_STREAM_ACTIONS: Final = {
    AdvisoryAction.CREATE: names.ADVISORY_STREAM_CREATED,
    AdvisoryAction.MODIFY: names.ADVISORY_STREAM_UPDATED,
    AdvisoryAction.DELETE: names.ADVISORY_STREAM_DELETED,
}
STREAM_DAMAGED: Final = "$JS.EVENT.ADVISORY.STREAM.DAMAGED.*"


class StreamDamaged(Event):
    """Stored messages can not be read any more."""

    type: str = always("io.millrace.jetstream.advisory.v1.stream_damaged")
    stream: str = always("")
    messages: Int64 = always(0)  # all that were lost since the server started
    bytes: Int64 = always(0)
    sequences: list[UInt64] = no_items()  # where they are known
    domain: str = ""


class Advisories:
    """Of one account."""

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
        self._system = system  # the system account, which hears what concerns the whole server

    def heard(self, pattern: str, *tokens: str) -> bool:
        """Whether anybody listens."""
        return self._world.has_interest(names.fill(pattern, *tokens).encode())

    def send(self, event: Event, pattern: str, *tokens: str) -> None:
        """Complete an advisory and publish it."""
        _publish(self._world, event, names.fill(pattern, *tokens))

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

    def stream_damaged(self, stream: str, messages: int, size: int, sequences: list[int]) -> None:
        if self.heard(STREAM_DAMAGED, stream):
            event = StreamDamaged(
                stream=stream, messages=messages, bytes=size, sequences=sequences, domain=self._domain
            )
            self.send(event, STREAM_DAMAGED, stream)

    # -- the server -------------------------------------------------------------------------------

    def out_of_storage(self, stream: str) -> None:
        """A disk does not take what a stream has to write."""
        subject = names.ADVISORY_SERVER_OUT_OF_STORAGE
        if self._system is not None and self._system.has_interest(subject.encode()):
            event = ServerOutOfStorage(
                server=self._server_name, server_id=self._server_id, stream=stream, domain=self._domain
            )
            _publish(self._system, event, subject)

    def api_limit_reached(self, dropped: int) -> None:
        """So many requests wait that some were dropped."""
        subject = names.ADVISORY_API_LIMIT_REACHED
        if self._system is not None and self._system.has_interest(subject.encode()):
            event = ApiLimitReached(server=self._server_name, domain=self._domain, dropped=dropped)
            _publish(self._system, event, subject)

    def api_audit(self, subject: bytes, request: Request, response: bytes) -> None:
        """Who asked what, and what the answer was."""
        if self._world.has_interest(_API):
            event = ApiAudit(
                server=self._server_name,
                client=self._world.describe_client(request.client),
                subject=subject.decode(errors="replace"),
                request=request.payload.decode(errors="replace"),
                response=response.decode(),
                domain=self._domain,
            )
            self.send(event, names.ADVISORY_API)


def _publish(world: World, event: Event, subject: str) -> None:
    event.id = nuid()
    event.timestamp = Time(world.now_ns())
    world.publish(subject.encode(), encode(event))
