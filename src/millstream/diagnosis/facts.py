"""Requests for the facts of a diagnosis.

Three or four requests are sent, for any size of the stream.  Facts that these credentials may not read are
left out.
"""

import asyncio
import time
from typing import Final

import msgspec

from millstream.base.errors import UNREADABLE_JSON
from millstream.diagnosis.types import Diagnosis, DiagnosisFailure, Extra, PendingMessage
from millstream.diagnosis.why import why
from millstream.golang.time import format_time
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerInfo
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError, LinkError, RequestTimeout
from millstream.link.link import Link
from millstream.link.stored import Stored, next_message
from millstream.link.verbs import CONSUMER_INFO, STREAM_INFO

INSIGHT: Final = "$MILLSTREAM.INSIGHT.CONSUMER"  # followed by stream and consumer; only Millstream answers
_DETAILS_S: Final = 2.0
_MOST_FILTERS: Final = 16
_NO_LEADER: Final = (Err.CLUSTER_NOT_AVAILABLE, Err.CLUSTER_NO_PEERS)


class Details(msgspec.Struct):
    """Millstream's answer about a consumer, beside its info."""

    pending: list[PendingMessage] | None = None
    exhausted: list[int] | None = None
    damaged: str = ""  # the reason why the server could not open the stream


async def diagnose(link: Link, stream: str, consumer: str) -> Diagnosis:
    """Return the diagnosis of a consumer; raises LinkApiError if it does not exist."""
    try:
        about_stream, about_consumer = await asyncio.gather(
            link.ask(STREAM_INFO, stream), link.ask(CONSUMER_INFO, stream, consumer)
        )
    except (LinkApiError, RequestTimeout) as error:
        failure, text = _failure(error), str(error)
        details = await _details(link, stream, consumer) if failure is None else None
        if details is not None and details.damaged:
            failure, text = DiagnosisFailure.DAMAGED, details.damaged
        if failure is None:
            raise
        found = why(None, None, Extra(time.time_ns(), failure=failure, failure_text=text))
        return msgspec.structs.replace(found, stream=stream, consumer=consumer)
    info = about_consumer.info
    assert about_stream.info is not None
    assert info is not None
    config = info.config or ConsumerConfig()
    filters = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [">"])
    oldest, matches, details = await asyncio.gather(
        _oldest(link, stream, info, filters),
        _matches(link, stream, info, filters),
        _details(link, stream, consumer),
    )
    extra = Extra(
        now_ns=info.ts if info.ts > 0 else time.time_ns(),  # the server's clock, to compare with its times
        matches=matches,
        oldest=oldest,
        pending=_named(details.pending, oldest) if details is not None else None,
        exhausted=details.exhausted if details is not None else None,
    )
    return why(about_stream.info, info, extra)


def _named(
    pending: list[PendingMessage] | None, oldest: PendingMessage | None
) -> list[PendingMessage] | None:
    """Return the pending messages, with the subject of the first one filled in."""
    if not pending or oldest is None or pending[0].seq != oldest.seq:
        return pending
    first = msgspec.structs.replace(pending[0], subject=oldest.subject, stored=oldest.stored)
    return [first, *pending[1:]]


def _failure(error: LinkError) -> DiagnosisFailure | None:
    """Return the failure of the cluster behind a refusal; None if the request itself was refused."""
    if isinstance(error, RequestTimeout):
        return DiagnosisFailure.NO_LEADER  # without a leader, no server answers for the stream
    if isinstance(error, LinkApiError):
        if error.err in _NO_LEADER:
            return DiagnosisFailure.NO_LEADER
        if "offline" in error.description:
            return DiagnosisFailure.OFFLINE
    return None


async def _oldest(link: Link, stream: str, info: ConsumerInfo, filters: list[str]) -> PendingMessage | None:
    """Return the first message after the ack floor, if a message is pending."""
    if not info.num_ack_pending or len(filters) > _MOST_FILTERS:
        return None
    found = await asyncio.gather(
        *(_next(link, stream, info.ack_floor.stream_seq + 1, subject) for subject in filters)
    )
    first = min((each for each in found if each is not None), key=lambda each: each.seq, default=None)
    if first is None or first.seq > info.delivered.stream_seq:
        return None
    return PendingMessage(first.seq, first.subject, stored=format_time(first.time))


async def _matches(link: Link, stream: str, info: ConsumerInfo, filters: list[str]) -> bool | None:
    """Return whether the stream has a message that matches the filters; None if it is not known."""
    if info.num_pending or filters == [">"] or len(filters) > _MOST_FILTERS:
        return None
    try:
        found = await asyncio.gather(*(next_message(link, stream, 1, subject) for subject in filters))
    except LinkError:
        return None
    return any(each is not None for each in found)


async def _next(link: Link, stream: str, seq: int, subject: str) -> Stored | None:
    try:
        return await next_message(link, stream, seq, subject)
    except LinkError:
        return None


async def _details(link: Link, stream: str, consumer: str) -> Details | None:
    if not link.dialogue.info.is_millstream:
        return None
    try:
        answer = await link.request(f"{INSIGHT}.{stream}.{consumer}", timeout_s=_DETAILS_S)
        return msgspec.json.decode(answer.payload, type=Details)
    except (LinkError, *UNREADABLE_JSON):
        return None
