"""The API requests about streams: create, update, info, list, names, delete, purge, messages.

Each handler gets the name in the subject and the body, and returns the response or raises ``ApiError``;
``api`` does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from millstream.base.slices import MOST_ITEMS, Pieces, finish
from millstream.base.sorted_page import AT_ONCE, SortedPage
from millstream.golang.time import Time
from millstream.jetstream.api_requests import Bodies, is_empty
from millstream.jetstream.config import stream as stream_config
from millstream.jetstream.long_answers import (
    DELETED_MARK,
    SUBJECTS_MARK,
    Steps,
    listed,
    numbered,
    with_details,
)
from millstream.jetstream.read import lookup
from millstream.jetstream.read.lookup import Later
from millstream.jetstream.stream.details import page_of_subjects
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import DELETED_LISTED, INFOS_PER_PAGE, NAMES_PER_PAGE, SUBJECTS_PER_PAGE
from millstream.jsapi.requests import (
    MsgDeleteRequest,
    MsgGetRequest,
    StreamConfigRequest,
    StreamInfoRequest,
    StreamListRequest,
    StreamNamesRequest,
    StreamPurgeRequest,
)
from millstream.jsapi.responses import (
    MsgDeleteResponse,
    MsgGetResponse,
    StreamCreateResponse,
    StreamDeleteResponse,
    StreamInfoResponse,
    StreamListResponse,
    StreamNamesResponse,
    StreamPurgeResponse,
    StreamUpdateResponse,
)
from millstream.jsapi.stream_types import ClusterInfo, StoredMessage, StreamInfo
from millstream.store import lasts
from millstream.store.gaps import first_missing
from millstream.store.record import Record
from millstream.subjects.match import collide

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.stream.stream import Stream
    from millstream.store.log import Log


_FEW: Final = 32  # consumers and subjects that are deleted in the same step as their stream
_SHORT: Final = 4 * 1024  # bytes of a configuration that is read and applied in one step


class StreamApi:
    """The request handlers of one account."""

    def __init__(
        self, account: AccountJetStream, server_name: str, server_version: str, *, strict: bool
    ) -> None:
        self._account = account
        self._server_name = server_name
        self._server_version = server_version
        self._bodies = Bodies(strict=strict)

    # -- configuration ----------------------------------------------------------------------------

    def create(self, name: str, body: bytes) -> StreamCreateResponse | Later | Steps:
        creating = self._create(name, body)
        return creating if len(body) > _SHORT else finish(creating)

    def _create(self, name: str, body: bytes) -> Pieces[StreamCreateResponse | Later]:
        request = self._bodies.read(body, StreamConfigRequest)
        yield MOST_ITEMS
        self._account.finish_deletion(name)
        config = stream_config.check_new(
            name,
            request.config,
            self._account.configs(),
            self._account.usage.stream_limits(),
            pedantic=request.pedantic,
            storage_named=stream_config.names_storage(body),
        )
        stream = self._account.streams.get(name)
        announce = False
        if stream is None:
            stream = yield from self._account.begin_in_slices(config)
            announce = True
        awaited = self._account.awaited(stream)
        if awaited is not None:
            return Later(awaited, lambda: self._created(stream, announce=announce))
        return self._created(stream, announce=announce)

    def _created(self, stream: Stream, *, announce: bool) -> StreamCreateResponse:
        if stream.failure is not None and self._account.streams.get(stream.name) is not stream:
            raise stream.failure
        if announce:
            self._account.advisories.stream_created(stream.name)
        return StreamCreateResponse(info=self._info(stream), did_create=True)

    def update(self, name: str, body: bytes) -> StreamUpdateResponse | Later | Steps:
        updating = self._update(name, body)
        return updating if len(body) > _SHORT or self._has_many(name) else finish(updating)

    def _has_many(self, name: str) -> bool:
        """Return True if a stream has so many subjects or consumers that they are left in slices."""
        stream = self._account.streams.get(name)
        return stream is not None and len(stream.consumers) + len(stream.config.subjects) > _FEW

    def _update(self, name: str, body: bytes) -> Pieces[StreamUpdateResponse | Later]:
        request = self._bodies.read(body, StreamConfigRequest)
        yield MOST_ITEMS
        config = stream_config.check_update(
            name,
            request.config,
            self._account.configs(),
            self._account.usage.stream_limits(),
            pedantic=request.pedantic,
            consumers=self._consumers_of(name),
        )
        stream = self._account.stream(name)
        retention = stream.retention
        yield from self._account.update_in_slices(stream, config)
        self._account.advisories.stream_updated(name)
        return Later(retention, lambda: self._updated(stream))

    def _updated(self, stream: Stream) -> StreamUpdateResponse:
        if self._account.streams.get(stream.name) is not stream:
            raise ApiError(Err.STREAM_NOT_FOUND)
        return StreamUpdateResponse(info=self._info(stream, domain=True))

    def _consumers_of(self, name: str) -> dict[str, ConsumerConfig]:
        stream = self._account.streams.get(name)
        return {} if stream is None else {each.name: each.config for each in stream.consumers.values()}

    def delete(self, name: str, body: bytes) -> StreamDeleteResponse | Steps:
        if not is_empty(body):
            raise ApiError(Err.REQUEST_NOT_EMPTY)
        self._account.finish_deletion(name)
        stream = self._account.stream(name)
        deleting = self._deleted(stream)
        return deleting if self._has_many(name) else finish(deleting)

    def _deleted(self, stream: Stream) -> Pieces[StreamDeleteResponse]:
        yield from self._account.delete_in_slices(stream)
        self._account.advisories.stream_deleted(stream.name)
        return StreamDeleteResponse(success=True)

    # -- looking ----------------------------------------------------------------------------------

    def info(self, name: str, body: bytes) -> StreamInfoResponse | Steps:
        request = self._bodies.read_optional(body, StreamInfoRequest)
        stream = self._account.stream(name)
        if request.subjects_filter or request.deleted_details:
            return self._info_with_details(stream, request)
        return self._info_response(stream)

    def _info_response(self, stream: Stream) -> StreamInfoResponse:
        info = self._info(stream, domain=True)
        info.cluster = ClusterInfo(leader=self._server_name)
        return StreamInfoResponse(info=info)

    def _info_with_details(self, stream: Stream, request: StreamInfoRequest) -> Steps:
        offset, wanted = max(request.offset, 0), request.subjects_filter.encode()
        subjects, total = b"", 0
        if wanted:
            gathering = page_of_subjects(stream.log, wanted, offset)
            subjects, total = yield from stream.while_there(gathering)
        deleted = b""
        if request.deleted_details:
            missing = yield from stream.while_there(first_missing(stream.log, DELETED_LISTED))
            deleted = yield from numbered(missing)
        response = self._info_response(stream)
        assert response.info is not None
        if total:
            response.total, response.offset, response.limit = total, offset, SUBJECTS_PER_PAGE
        if subjects:
            response.info.state.subjects = SUBJECTS_MARK
        if deleted:
            response.info.state.deleted = DELETED_MARK
        return with_details(response, subjects, deleted)

    def names(self, _: str, body: bytes) -> Steps:
        request = self._bodies.read_optional(body, StreamNamesRequest)
        return self._names(request)

    def _names(self, request: StreamNamesRequest) -> Steps:
        offset = max(request.offset, 0)
        page, total = yield from self._matching(request.subject, offset, NAMES_PER_PAGE)
        return StreamNamesResponse(
            total=total, offset=min(offset, total), limit=NAMES_PER_PAGE, streams=page or None
        )

    def page(self, _: str, body: bytes) -> Steps:
        request = self._bodies.read_optional(body, StreamListRequest)
        return self._page(request)

    def _page(self, request: StreamListRequest) -> Steps:
        offset = max(request.offset, 0)
        page, total = yield from self._matching(request.subject, offset, INFOS_PER_PAGE)
        answer = StreamListResponse(total=total, offset=min(offset, total), limit=INFOS_PER_PAGE)
        return (yield from listed(answer, "streams", self._infos(page)))

    def _infos(self, names: list[str]) -> Iterator[StreamInfo | None]:
        """Yield the info of the streams with these names; None for those that were deleted."""
        for name in names:
            stream = self._account.streams.get(name)
            yield None if stream is None else self._info(stream, domain=True, decorate=False)

    def _matching(self, subject: str, offset: int, count: int) -> Pieces[tuple[list[str], int]]:
        """Return a page of the streams, or of those with a subject, by name, and their total."""
        wanted = subject.encode()
        found: SortedPage[str] = SortedPage(offset, count)
        batch: list[str] = []
        compared = 0
        known = self._account.configs().listening_to(subject) if wanted else None
        takes = True
        for name in list(self._account.streams) if known is None else known & self._account.streams.keys():
            if wanted and known is None:
                takes, looked_at = yield from self._takes(name, wanted)
                compared += looked_at
            if takes:
                batch.append(name)
            compared += 1
            if compared >= AT_ONCE:
                found.add(batch)
                yield compared
                batch, compared = [], 0
        found.add(batch)
        return [name for chunk in found.chunks() for name in chunk], found.total

    def _takes(self, name: str, wanted: bytes) -> Pieces[tuple[bool, int]]:
        """Return whether a stream has a subject, and how many subjects were compared since the last piece."""
        stream = self._account.streams.get(name)
        compared = 0
        for own in stream.config.subjects if stream is not None else ():
            if collide(own.encode(), wanted):
                return True, compared
            compared += 1
            if compared == AT_ONCE:
                yield compared
                compared = 0
        return False, compared

    def _info(self, stream: Stream, *, domain: bool = False, decorate: bool = True) -> StreamInfo:
        config = stream_config.decorated(stream.config, self._server_version) if decorate else stream.config
        return StreamInfo(
            config=config,
            created=Time(stream.created_ns),
            state=stream.state(),
            domain=self._account.domain if domain else "",
            mirror=stream.inflows.mirror(),
            sources=stream.inflows.sources(),
            ts=Time(self._account.world.now_ns()),
        )

    # -- messages ---------------------------------------------------------------------------------

    def purge(self, name: str, body: bytes) -> Steps:
        request = self._bodies.read_optional(body, StreamPurgeRequest)
        if request.seq and request.keep:
            raise ApiError(Err.BAD_REQUEST)
        stream = self._account.stream(name)
        if stream.config.sealed:
            raise ApiError(Err.STREAM_SEALED)
        return _purged(stream, request)

    def get(self, name: str, body: bytes) -> MsgGetResponse | Later:
        if is_empty(body):
            raise ApiError(Err.BAD_REQUEST)
        request = self._bodies.read(body, MsgGetRequest)
        if _contradicts_itself(request):
            raise ApiError(Err.BAD_REQUEST)
        stream = self._account.stream(name)
        seq = _find(stream.log, request)

        def finish() -> MsgGetResponse:
            if stream.failure is not None and lookup.is_refused(stream, seq):
                raise stream.failure
            return _stored_message(stream.log, seq, no_headers=request.no_hdr)

        return finish() if seq <= stream.log.committed else Later(stream, finish)

    def delete_message(self, name: str, body: bytes) -> MsgDeleteResponse:
        if is_empty(body):
            raise ApiError(Err.BAD_REQUEST)
        request = self._bodies.read(body, MsgDeleteRequest)
        stream = self._account.stream(name)
        if stream.config.sealed:
            raise ApiError(Err.STREAM_SEALED)
        if stream.config.deny_delete:
            raise ApiError(Err.STREAM_MESSAGE_DELETE_FAILED, err="message delete not permitted")
        _check_deletable(stream, request.seq)
        if request.no_erase:
            stream.log.remove(request.seq)
        else:
            stream.log.erase(request.seq)
        return MsgDeleteResponse(success=True)


def _purged(stream: Stream, request: StreamPurgeRequest) -> Steps:
    purged = yield from stream.purge_in_steps(request.filter.encode() or None, request.seq, request.keep)
    return StreamPurgeResponse(success=True, purged=purged)


def _contradicts_itself(request: MsgGetRequest) -> bool:
    by_seq, by_time = request.seq > 0, request.start_time is not None
    by_last, by_next = bool(request.last_by_subj), bool(request.next_by_subj)
    return (
        request.batch > 0  # only a direct get has batches
        or request.max_bytes > 0
        or not (by_seq or by_time or by_last or by_next)
        or (by_last and (by_seq or by_time or by_next))
        or (by_seq and by_time)
    )


def _find(log: Log, request: MsgGetRequest) -> int:
    """Return the requested sequence, durable or not; raise ApiError if there is no such message."""
    if request.last_by_subj:
        seq = lasts.last_of(log, request.last_by_subj.encode())
    else:
        seq = request.seq
        if request.start_time is not None:
            seq = lookup.first_at_or_after(log, int(request.start_time))
        if request.next_by_subj and seq <= log.last_seq:
            seq = log.next_match(max(seq, 1), request.next_by_subj.encode())
    if not 0 < seq <= log.last_seq or not log.has(seq):
        raise ApiError(Err.NO_MESSAGE_FOUND)
    return seq


def _stored_message(log: Log, seq: int, *, no_headers: bool) -> MsgGetResponse:
    record = Record()
    if not lookup.read(log, seq, record):
        raise ApiError(Err.NO_MESSAGE_FOUND)
    message = StoredMessage(
        subject=record.subject().decode(errors="replace"),
        seq=record.seq,
        hdrs=b"" if no_headers else record.headers(),
        data=record.payload(),
        time=Time(record.timestamp),
    )
    return MsgGetResponse(message=message)


def _check_deletable(stream: Stream, seq: int) -> None:
    """Raise ApiError if there is no such message; files and memory have different errors."""
    if stream.log.has(seq):
        return
    if not stream.in_memory:
        if seq > stream.log.last_seq:
            raise ApiError(Err.STREAM_MESSAGE_DELETE_FAILED, err="stream store EOF")
        if seq < stream.log.first_seq:
            raise ApiError(Err.STREAM_MESSAGE_DELETE_FAILED, err="no message found")
    raise ApiError(Err.SEQUENCE_NOT_FOUND, seq=seq)
