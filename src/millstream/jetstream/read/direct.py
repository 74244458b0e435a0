"""Direct get: messages of a stream sent straight to the requester, without an envelope.

    $JS.API.DIRECT.GET.<stream>             the body says what to get
    $JS.API.DIRECT.GET.<stream>.<subject>   the last message of a subject

The response is one message, a batch that ends with `204 EOB`, or a status with the reason why there is none.
Served while the stream allows it; otherwise there is no subscriber, and the client gets "no responders".

This module handles all forms of requests; ``single_gets``, the fast path, handles the common ones and is
asked first.  ``answers`` formats responses, and ``direct_batches`` schedules batches.
"""

from __future__ import annotations

import bisect
import functools
import logging
from typing import TYPE_CHECKING, Any, Final

from millstream.base import slices
from millstream.base.slices import Pieces
from millstream.jetstream.api_requests import beyond_ours
from millstream.jetstream.read import lookup
from millstream.jetstream.read.answers import DirectBatch, DirectSending
from millstream.jetstream.read.direct_batches import NOT_FOUND, DirectBatches
from millstream.jetstream.read.single_gets import DirectGets
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.errors import ApiError
from millstream.jsapi.requests import MsgGetRequest
from millstream.store import lasts
from millstream.store.errors import StoreError
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.ports import ClientRequest
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_PREFIX: Final = b"$JS.API.DIRECT.GET."
_QUEUE: Final = b"_sys_"  # shared by all that can answer for a stream, so that one does
_MAX_SUBJECTS: Final = 1024  # of a request for the last message of each

_NO_RESULTS: Final = b"404 No Results"
_EMPTY: Final = b"408 Empty Request"
_MALFORMED: Final = b"408 Malformed Request"
_BAD: Final = b"408 Bad Request"
_LEVEL: Final = b"412 Required Api Level"
_TOO_MANY: Final = b"413 Too Many Results"
_TOO_MANY_REQUESTS: Final = b"413 Too Many Requests"
_STORE_FAILED: Final = b"500 Stream Store Failed"  # 503 would tell that nobody answers


class _Refused(Exception):
    """The response is a status."""

    def __init__(self, status: bytes) -> None:
        super().__init__(status)
        self.status = status


class DirectGet:
    """The direct get service of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._handles: list[Any] = []
        self._mirrored = ""  # what a mirror answers for
        self._record = Record()
        self._sending = DirectSending(stream.name.encode())
        self._batches_begun: DirectBatches | None = None
        self._finding = 0  # requests whose messages are being looked for

    def start(self) -> None:
        """Start serving, if the stream allows it."""
        self._release()
        config = self._stream.config
        served = [config.name] if config.allow_direct else []
        if config.mirror_direct and self._mirrored:
            served.append(self._mirrored)
        serve = self._stream.world.serve
        for name in served:
            subject = _PREFIX + name.encode()
            by_subject = functools.partial(self._take_by_subject, len(subject) + 1)
            by_body = DirectGets(self._stream, self._sending, 0)
            by_key = DirectGets(self._stream, self._sending, len(subject) + 1)
            self._handles += [
                serve(subject, self._take, _QUEUE, responder=by_body),
                serve(subject + b".>", by_subject, _QUEUE, responder=by_key),
            ]

    def answer_for(self, origin: str) -> None:
        """Serve requests for the origin of a mirror that has caught up."""
        if self._mirrored != origin:
            self._mirrored = origin
            self.start()

    def stop(self) -> None:
        """Stop serving: the log is about to be closed."""
        self._release()
        if self._batches_begun is not None:
            self._batches_begun.stop()

    @property
    def _batches(self) -> DirectBatches:
        """Return the batches of the stream, which are made for the first request that needs them."""
        if self._batches_begun is None:
            self._batches_begun = DirectBatches(self._stream, self._sending)
        return self._batches_begun

    def _release(self) -> None:
        for handle in self._handles:
            self._stream.world.release(handle)
        self._handles.clear()

    # -- requests ---------------------------------------------------------------------------------

    def _take(self, request: ClientRequest) -> None:
        if not request.reply:
            return
        try:
            self._get(request)
        except (_Refused, StoreError) as error:
            self._refuse(request, error)

    def _take_by_subject(self, start: int, request: ClientRequest) -> None:
        """Serve a request by subject; the common one, without a body, reads a key and is fast."""
        if not request.reply:
            return
        try:
            bare = False
            if request.payload or request.headers:
                bare = _checked_by_subject(request).no_hdr
            seq = lasts.last_of(self._stream.log, request.subject[start:])
            self._send_one(seq, request, bare)
        except (_Refused, StoreError) as error:
            self._refuse(request, error)

    def _refuse(self, request: ClientRequest, error: Exception) -> None:
        status = NOT_FOUND  # nats-server's word for whatever goes wrong
        if isinstance(error, _Refused):
            status = error.status
        else:
            _log.error("%s", error)
        self._batches.send_status(request, status)

    def _get(self, request: ClientRequest) -> None:
        wanted = _checked(request)
        if (wanted.multi_last or wanted.batch) and self._batches.full(self._finding):
            raise _Refused(_TOO_MANY_REQUESTS)
        if wanted.multi_last:
            slices.begin(self._stream.world, "direct get", self._find_last_of_each(wanted, request))
        elif wanted.batch:
            self._get_batch(wanted, request)
        else:
            self._get_one(wanted, request)

    # -- one message ------------------------------------------------------------------------------

    def _get_one(self, wanted: MsgGetRequest, request: ClientRequest) -> None:
        log = self._stream.log
        if wanted.last_by_subj:
            seq = lasts.last_of(log, _subject(wanted.last_by_subj))
        else:
            seq = self._start(wanted)
            if wanted.next_by_subj:
                seq = log.next_match(max(seq, 1), _subject(wanted.next_by_subj))
        self._send_one(seq, request, wanted.no_hdr)

    def _send_one(self, seq: int, request: ClientRequest, bare: bool) -> None:
        log, world = self._stream.log, self._stream.world
        if seq and self._sending.one(log, seq, request.reply, request.outlet(), bare):
            world.flush()
        elif seq and log.has(seq):
            lookup.when_durable(self._stream, seq, lambda: self._send_late(seq, request, bare))
        else:
            raise _Refused(NOT_FOUND)

    def _send_late(self, seq: int, request: ClientRequest, bare: bool) -> None:
        world = self._stream.world
        if lookup.read(self._stream.log, seq, self._record):
            self._sending.lone(self._record, request.reply, request.outlet(), bare)
            world.flush()
        else:
            refused = lookup.is_refused(self._stream, seq)
            self._batches.send_status(request, _STORE_FAILED if refused else NOT_FOUND)

    def _start(self, wanted: MsgGetRequest) -> int:
        if wanted.start_time is None:
            return wanted.seq
        return lookup.first_at_or_after(self._stream.log, int(wanted.start_time))

    # -- many -------------------------------------------------------------------------------------

    def _get_batch(self, wanted: MsgGetRequest, request: ClientRequest) -> None:
        batch = self._batch(wanted, request, wanted.batch)
        batch.bare = wanted.no_hdr
        self._batches.walk(batch, self._start(wanted), _subject(wanted.next_by_subj))

    def _find_last_of_each(self, wanted: MsgGetRequest, request: ClientRequest) -> Pieces[None]:
        self._finding += 1
        try:
            yield from self._get_last_of_each(wanted, request)
        except (_Refused, StoreError) as error:
            self._refuse(request, error)
        except ApiError:  # the stream was deleted
            self._refuse(request, _Refused(NOT_FOUND))
        finally:
            self._finding -= 1

    def _get_last_of_each(self, wanted: MsgGetRequest, request: ClientRequest) -> Pieces[None]:
        log = self._stream.log
        up_to = wanted.up_to_seq
        if wanted.up_to_time is not None:
            up_to = lookup.first_at_or_after(log, int(wanted.up_to_time))
            if up_to <= log.first_seq:
                raise _Refused(_NO_RESULTS)
            up_to -= 1
        up_to = up_to or log.last_seq
        if up_to > log.last_seq and not self._stream.in_memory:
            raise _Refused(_NO_RESULTS)  # as nats-server has it, with file storage only
        finding = lasts.last_of_each(log, map(_subject, wanted.multi_last), up_to, _MAX_SUBJECTS)
        found = yield from self._stream.while_there(finding)
        if found is None:
            raise _Refused(_TOO_MANY)
        if not found:
            raise _Refused(_NO_RESULTS)

        def send() -> None:
            chosen = found[bisect.bisect_left(found, wanted.seq) :]
            batch = self._batch(wanted, request, wanted.batch if wanted.batch > 0 else _MAX_SUBJECTS)
            batch.pending = len(chosen)
            self._batches.pick(batch, chosen, up_to)

        lookup.when_durable(self._stream, found[-1], send)

    def _batch(self, wanted: MsgGetRequest, request: ClientRequest, most: int) -> DirectBatch:
        room = wanted.max_bytes or self._stream.account.resources.max_pending
        batch = DirectBatch(request.reply, request.outlet(), most, max(room, 1), 0)
        batch.request = request
        return batch


def _subject(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _decoded(request: ClientRequest) -> MsgGetRequest:
    if beyond_ours(request.headers):
        raise _Refused(_LEVEL)
    if not request.payload:
        return MsgGetRequest()
    try:
        return decode_lenient(request.payload, MsgGetRequest)  # it may name many subjects
    except JsonError:
        raise _Refused(_MALFORMED) from None


def _checked(request: ClientRequest) -> MsgGetRequest:
    wanted = _decoded(request)
    by_seq, by_time = wanted.seq > 0, wanted.start_time is not None
    by_last, by_next, each = bool(wanted.last_by_subj), bool(wanted.next_by_subj), bool(wanted.multi_last)
    if not (by_seq or by_time or by_last or by_next or each):
        raise _Refused(_EMPTY)
    if (
        (by_seq and (by_last or by_time))
        or (by_last and (by_time or by_next or each or wanted.batch > 0))
        or (by_next and each)
        or (wanted.up_to_seq > 0 and wanted.up_to_time is not None)
    ):
        raise _Refused(_BAD)
    return wanted


def _checked_by_subject(request: ClientRequest) -> MsgGetRequest:
    wanted = _decoded(request)
    if (
        wanted.last_by_subj
        or wanted.next_by_subj
        or wanted.multi_last
        or wanted.seq
        or wanted.batch
        or wanted.up_to_seq
        or wanted.start_time is not None
        or wanted.up_to_time is not None
    ):
        raise _Refused(_BAD)
    return wanted
