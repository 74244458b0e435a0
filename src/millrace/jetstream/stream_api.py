"""The requests about streams: create, update, info, list, names, delete, purge, messages.

Each handler takes the name in the subject and the body, and returns the answer or raises ``ApiError``;
``api`` does the rest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from millrace.jetstream import stream_config
from millrace.jsapi.codec import JsonError, decode_lenient, decode_strict
from millrace.jsapi.errors import ApiError, Err
from millrace.jsapi.go_time import Time
from millrace.jsapi.go_types import Struct
from millrace.jsapi.limits import INFOS_PER_PAGE, NAMES_PER_PAGE, SUBJECTS_PER_PAGE
from millrace.jsapi.requests import (
    MsgDeleteRequest,
    MsgGetRequest,
    StreamConfigRequest,
    StreamInfoRequest,
    StreamListRequest,
    StreamNamesRequest,
    StreamPurgeRequest,
)
from millrace.jsapi.responses import (
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
from millrace.jsapi.stream_types import ClusterInfo, StoredMessage, StreamConfig, StreamInfo, StreamState
from millrace.store.record import Record
from millrace.subjects.match import collide

if TYPE_CHECKING:
    from millrace.jetstream.account import AccountJetStream
    from millrace.jetstream.stream import Stream


Body = TypeVar("Body", bound=Struct)

_EMPTY: Final = re.compile(rb"|[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*")


class StreamApi:
    """The handlers, for one account."""

    def __init__(
        self, account: AccountJetStream, server_name: str, server_version: str, *, strict: bool
    ) -> None:
        self._account = account
        self._server_name = server_name
        self._server_version = server_version
        self._strict = strict

    def _read(self, body: bytes, kind: type[Body]) -> Body:
        """What the body says; unless the server is strict, unknown names in it are ignored."""
        try:
            return decode_strict(body, kind)
        except JsonError:
            if self._strict:
                raise
            return decode_lenient(body, kind)

    def _read_optional(self, body: bytes, kind: type[Body]) -> Body:
        """As `_read`, but what does not even begin like JSON is ignored."""
        return self._read(body, kind) if body.lstrip()[:1] in (b"{", b"[") else kind()

    # -- configuration ----------------------------------------------------------------------------

    def create(self, name: str, body: bytes) -> StreamCreateResponse:
        request = self._read(body, StreamConfigRequest)
        config = stream_config.check_new(
            name,
            request.config,
            self._configs(),
            self._account.stream_limits(),
            pedantic=request.pedantic,
            storage_named=stream_config.names_storage(body),
        )
        stream = self._account.streams.get(name)
        if stream is None:
            stream = self._account.add(config)
            self._account.advisories.stream_created(name)
        return StreamCreateResponse(info=self._info(stream), did_create=True)

    def update(self, name: str, body: bytes) -> StreamUpdateResponse:
        request = self._read(body, StreamConfigRequest)
        config = stream_config.check_update(
            name,
            request.config,
            self._configs(),
            self._account.stream_limits(),
            pedantic=request.pedantic,
        )
        stream = self._account.stream(name)
        self._account.update(stream, config)
        self._account.advisories.stream_updated(name)
        return StreamUpdateResponse(info=self._info(stream, domain=True))

    def _configs(self) -> dict[str, StreamConfig]:
        return {name: stream.config for name, stream in self._account.streams.items()}

    def delete(self, name: str, body: bytes) -> StreamDeleteResponse:
        if not _EMPTY.fullmatch(body):
            raise ApiError(Err.REQUEST_NOT_EMPTY)
        self._account.delete(self._account.stream(name))
        self._account.advisories.stream_deleted(name)
        return StreamDeleteResponse(success=True)

    # -- looking ----------------------------------------------------------------------------------

    def info(self, name: str, body: bytes) -> StreamInfoResponse:
        request = self._read_optional(body, StreamInfoRequest)
        stream = self._account.stream(name)
        info = self._info(stream, domain=True)
        info.cluster = ClusterInfo(leader=self._server_name)
        response = StreamInfoResponse(info=info)
        if request.deleted_details:
            info.state.deleted = _deleted(stream)
        if request.subjects_filter:
            self._add_subjects(stream, request, info.state, response)
        return response

    def _add_subjects(
        self, stream: Stream, request: StreamInfoRequest, state: StreamState, response: StreamInfoResponse
    ) -> None:
        found = sorted(
            (subject.decode(errors="replace"), node.count)
            for subject, node in stream.log.index.match(request.subjects_filter.encode())
        )
        if not found:
            return
        offset = max(request.offset, 0)
        state.subjects = dict(found[offset : offset + SUBJECTS_PER_PAGE])
        response.total, response.offset, response.limit = len(found), offset, SUBJECTS_PER_PAGE

    def names(self, _: str, body: bytes) -> StreamNamesResponse:
        request = self._read_optional(body, StreamNamesRequest)
        found = self._matching(request.subject)
        offset = min(max(request.offset, 0), len(found))
        page = [stream.name for stream in found[offset : offset + NAMES_PER_PAGE]]
        return StreamNamesResponse(
            total=len(found), offset=offset, limit=NAMES_PER_PAGE, streams=page or None
        )

    def page(self, _: str, body: bytes) -> StreamListResponse:
        request = self._read_optional(body, StreamListRequest)
        found = self._matching(request.subject)
        offset = min(max(request.offset, 0), len(found))
        page = [self._info(stream, decorate=False) for stream in found[offset : offset + INFOS_PER_PAGE]]
        return StreamListResponse(total=len(found), offset=offset, limit=INFOS_PER_PAGE, streams=page)

    def _matching(self, subject: str) -> list[Stream]:
        streams = [self._account.streams[name] for name in sorted(self._account.streams)]
        if not subject:
            return streams
        wanted = subject.encode()
        return [
            stream
            for stream in streams
            if any(collide(own.encode(), wanted) for own in stream.config.subjects)
        ]

    def _info(self, stream: Stream, *, domain: bool = False, decorate: bool = True) -> StreamInfo:
        config = stream_config.decorated(stream.config, self._server_version) if decorate else stream.config
        return StreamInfo(
            config=config,
            created=Time(stream.created_ns),
            state=stream.state(),
            domain=self._account.domain if domain else "",
            ts=Time(self._account.world.now_ns()),
        )

    # -- messages ---------------------------------------------------------------------------------

    def purge(self, name: str, body: bytes) -> StreamPurgeResponse:
        request = self._read_optional(body, StreamPurgeRequest)
        stream = self._account.stream(name)
        if stream.config.sealed:
            raise ApiError(Err.STREAM_SEALED)
        if request.seq and request.keep:
            raise ApiError(Err.BAD_REQUEST)
        purged = stream.purge(request.filter.encode() or None, request.seq, request.keep)
        return StreamPurgeResponse(success=True, purged=purged)

    def get(self, name: str, body: bytes) -> MsgGetResponse:
        if _EMPTY.fullmatch(body):
            raise ApiError(Err.BAD_REQUEST)
        request = self._read(body, MsgGetRequest)
        stream = self._account.stream(name)
        record = find_message(stream, request)
        message = StoredMessage(
            subject=record.subject().decode(errors="replace"),
            seq=record.seq,
            hdrs=b"" if request.no_hdr else record.headers(),
            data=record.payload(),
            time=Time(record.timestamp),
        )
        return MsgGetResponse(message=message)

    def delete_message(self, name: str, body: bytes) -> MsgDeleteResponse:
        if _EMPTY.fullmatch(body):
            raise ApiError(Err.BAD_REQUEST)
        request = self._read(body, MsgDeleteRequest)
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


def find_message(stream: Stream, request: MsgGetRequest) -> Record:
    """The one message that a request asks for; ApiError if the request or the message is not there."""
    by_time = request.start_time is not None
    asked = (bool(request.seq) and not request.next_by_subj, bool(request.last_by_subj), by_time)
    if (sum(asked) != 1 and not (request.next_by_subj and not any(asked))) or request.batch:
        raise ApiError(Err.BAD_REQUEST)
    log = stream.log
    record = Record()
    if request.last_by_subj:
        seq = log.last_match(log.committed, request.last_by_subj.encode())
    else:
        start = request.seq
        if request.start_time is not None:
            start = log.seq_at_time(int(request.start_time)) or log.last_seq + 1
        pattern = request.next_by_subj.encode()
        seq = log.next_match(max(start, 1), pattern) if pattern else start
    if not seq or not log.get(seq, record):
        raise ApiError(Err.NO_MESSAGE_FOUND)
    return record


def _deleted(stream: Stream) -> list[int]:
    """Sequences between the first and the last that are not there."""
    log = stream.log
    missing: list[int] = []
    expected = log.first_seq
    for seq in log.sequences(log.first_seq, log.last_seq):
        missing.extend(range(expected, seq))
        expected = seq + 1
    if log.messages:
        missing.extend(range(expected, log.last_seq + 1))
    return missing


def _check_deletable(stream: Stream, seq: int) -> None:
    """Whether there is such a message; files and memory have different words for it if not."""
    if stream.log.has(seq):
        return
    if not stream.in_memory:
        if seq > stream.log.last_seq:
            raise ApiError(Err.STREAM_MESSAGE_DELETE_FAILED, err="stream store EOF")
        if seq < stream.log.first_seq:
            raise ApiError(Err.STREAM_MESSAGE_DELETE_FAILED, err="no message found")
    raise ApiError(Err.SEQUENCE_NOT_FOUND, seq=seq)
