"""The API requests for snapshots and restores, and their advisories.

Checks are in nats-server's order.  Everything that takes time happens after the response (``sender``,
``receiver``), which names the subject for it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.base.complaints import Complaints
from millstream.base.ids import nuid
from millstream.golang.time import Time
from millstream.jetstream.api_requests import Bodies, beyond_ours, is_empty
from millstream.jetstream.config import stream as stream_config
from millstream.jetstream.read.lookup import Later
from millstream.jetstream.snapshots.contents import Contents
from millstream.jetstream.snapshots.loader import EntryLoading, Loading, OldLoading
from millstream.jetstream.snapshots.messages import LoadLimits
from millstream.jetstream.snapshots.quota import Room
from millstream.jetstream.snapshots.receiver import Receiving
from millstream.jetstream.snapshots.sender import Sending
from millstream.jetstream.snapshots.switch import check_room, prepare, switch_in
from millstream.jsapi import names
from millstream.jsapi.advisory_types import RestoreComplete, RestoreCreate, SnapshotComplete, SnapshotCreate
from millstream.jsapi.codec import encode
from millstream.jsapi.enums import DiscardPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.requests import StreamRestoreRequest, StreamSnapshotRequest
from millstream.jsapi.responses import StreamCreateResponse, StreamRestoreResponse, StreamSnapshotResponse
from millstream.jsapi.stream_types import StreamConfig, StreamInfo
from millstream.subjects.tokens import valid_publish_subject

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.ports import ClientRequest
    from millstream.jetstream.stream.stream import Stream
    from millstream.jsapi.advisory_types import ClientInfo
    from millstream.jsapi.responses import Response

_log = logging.getLogger("millstream.jetstream")

_MOST_RESTORES: Final = 16  # of an account at once; each may have 16 MB of chunks waiting
_MOST_SNAPSHOTS: Final = 64


class ArchiveApi:
    """The request handlers of one account."""

    def __init__(self, account: AccountJetStream, server_version: str, *, strict: bool) -> None:
        self._account = account
        self._server_version = server_version
        self._bodies = Bodies(strict=strict)
        self._under_way: list[Sending | Receiving] = []
        self._full = Complaints(_log)
        self.handlers: dict[str, Callable[[str, ClientRequest], Response | Later]] = {
            "STREAM.SNAPSHOT.*": self.snapshot,
            "STREAM.RESTORE.*": self.restore,
        }

    def stop(self) -> None:
        """Cancel everything that is under way."""
        under_way, self._under_way = self._under_way, []
        for each in under_way:
            each.give_up()

    def _check_place(self, kind: type[Sending | Receiving], most: int) -> None:
        """Raise ApiError if too many are under way."""
        self._under_way = [each for each in self._under_way if not each.over]
        if sum(isinstance(each, kind) for each in self._under_way) >= most:
            self._full.warn(
                "account %s: %d %ss are under way, one is refused", self._account.name, most, kind.what
            )
            raise ApiError(Err.INSUFFICIENT_RESOURCES)

    def _start(self, transfer: Sending | Receiving) -> None:
        self._under_way.append(transfer)
        transfer.start()

    # -- snapshots --------------------------------------------------------------------------------

    def snapshot(self, name: str, request: ClientRequest) -> Response | Later:
        _check_level(request)
        if is_empty(request.payload):
            raise ApiError(Err.BAD_REQUEST)
        stream = self._account.stream(name)
        asked = self._bodies.read(request.payload, StreamSnapshotRequest)
        if not valid_publish_subject(asked.deliver_subject.encode()):
            raise ApiError(Err.DELIVER_SUBJECT_INVALID)
        self._check_place(Sending, _MOST_SNAPSHOTS)
        client = request.requester.describe()
        contents = Contents(stream, consumers=not asked.no_consumers)

        def finish() -> Response:
            if not contents.is_durable():
                contents.close()
                raise ApiError(Err.STREAM_SNAPSHOT_FAILED, err=str(stream.failure))
            self._account.world.call_soon(lambda: self._send(stream, contents, asked, client))
            return StreamSnapshotResponse(config=stream.config, state=contents.state)

        return finish() if contents.is_durable() else Later(stream, finish)

    def _send(
        self, stream: Stream, contents: Contents, asked: StreamSnapshotRequest, client: ClientInfo | None
    ) -> None:
        start = Time(self._account.world.now_ns())
        advisories = self._account.advisories
        title = f"{self._account.name} > {stream.name}"
        _log.info("Starting snapshot for stream '%s'", title)
        created = SnapshotCreate(
            stream=stream.name, state=contents.state, client=client, domain=self._account.domain
        )
        advisories.send_if_heard(created, names.ADVISORY_STREAM_SNAPSHOT_CREATE, stream.name)

        def ended(problem: str) -> None:
            complete = SnapshotComplete(
                stream=stream.name,
                start=start,
                end=Time(self._account.world.now_ns()),
                client=client,
                domain=self._account.domain,
                error=problem,
            )
            advisories.send_if_heard(complete, names.ADVISORY_STREAM_SNAPSHOT_COMPLETE, stream.name)
            if problem:
                _log.warning("Snapshot for stream '%s' failed: %s", title, problem)
            else:
                _log.info("Completed snapshot of %d bytes for stream '%s'", contents.state.bytes, title)

        self._start(Sending(stream, contents, asked, ended))

    # -- restores ---------------------------------------------------------------------------------

    def restore(self, name: str, request: ClientRequest) -> Response:
        _check_level(request)
        if is_empty(request.payload):
            raise ApiError(Err.BAD_REQUEST)
        asked = self._bodies.read(request.payload, StreamRestoreRequest)
        if not asked.config.name:
            asked.config.name = name
        config = stream_config.check_restored(
            name, asked.config, self._account.configs(), self._account.usage.stream_limits()
        )
        if name in self._account.streams:
            raise ApiError(Err.STREAM_NAME_IN_USE_RESTORE)
        self._check_place(Receiving, _MOST_RESTORES)
        client = request.requester.describe()
        return StreamRestoreResponse(deliver_subject=self._receive(config, client))

    def _receive(self, config: StreamConfig, client: ClientInfo | None) -> str:
        account, world, name = self._account, self._account.world, config.name
        start = Time(world.now_ns())
        title = f"{account.name} > {name}"
        _log.info("Starting restore for stream '%s'", title)
        begun = RestoreCreate(stream=name, client=client, domain=account.domain)
        account.advisories.send_if_heard(begun, names.ADVISORY_STREAM_RESTORE_CREATE, name)
        staging = account.stage(config, nuid())
        room = Room(account, config.storage)
        drops = config.max_bytes > 0 and config.discard is DiscardPolicy.OLD
        limits = LoadLimits(
            world.limits.payload,
            config.max_msg_size,
            world.limits.subject,
            hold=room.hold,
            refusal=room.refusal,
            extra=-10 if staging.in_memory else 4,  # see `Stream.bytes`
            most=config.max_bytes if drops else 0,
        )
        entries = EntryLoading(staging.begin_log, limits, world.now_ns())

        def ended(reply: bytes, received: int, error: ApiError | None) -> None:
            complete = RestoreComplete(
                stream=name,
                start=start,
                end=Time(world.now_ns()),
                bytes=received,
                client=client,
                domain=account.domain,
            )
            account.advisories.send_if_heard(complete, names.ADVISORY_STREAM_RESTORE_COMPLETE, name)
            if error is not None:
                _log.warning("Restore failed for %d bytes for stream '%s': %s", received, title, error)
            else:
                _log.info("Completed restore of %d bytes for stream '%s'", received, title)
            if reply:
                world.publish(reply, encode(self._outcome(name, error)))

        receiving = Receiving(
            world,
            title,
            name,
            Loading(entries, lambda: OldLoading(staging, account.name, config, limits, world.now_ns())),
            staging,
            room,
            check=lambda size: check_room(account, config, size),
            prepare=lambda loaded: prepare(staging, config, loaded, world.now_ns()),
            switch=lambda loaded: switch_in(account, staging, config, loaded),
            ended=ended,
        )
        self._start(receiving)
        return receiving.subject

    def _outcome(self, name: str, error: ApiError | None) -> StreamCreateResponse:
        stream = self._account.streams.get(name)
        if error is None and stream is None:
            error = ApiError(Err.STREAM_NOT_FOUND)  # deleted before the end of its restore could be reported
        if error is not None or stream is None:
            return StreamCreateResponse(error=error.body if error is not None else None)
        return StreamCreateResponse(
            info=StreamInfo(
                config=stream_config.decorated(stream.config, self._server_version),
                created=Time(stream.created_ns),
                state=stream.state(),
                ts=Time(self._account.world.now_ns()),
            )
        )


def _check_level(request: ClientRequest) -> None:
    if beyond_ours(request.headers):
        raise ApiError(Err.REQUIRED_API_LEVEL)
