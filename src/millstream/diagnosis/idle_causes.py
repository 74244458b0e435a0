"""Causes for which a consumer has nothing to deliver; each finder returns its cause, or None."""

from collections.abc import Callable
from typing import Final

from millstream.base.words import counted
from millstream.diagnosis.case import Case, text_of
from millstream.diagnosis.types import Cause, Severity
from millstream.jsapi.enums import DeliverPolicy
from millstream.subjects.match import collide

_SECOND: Final = 1_000_000_000

Finder = Callable[[Case], Cause | None]


def filter_never_matches(case: Case) -> Cause | None:
    """Find a filter that no subject of the stream can match."""
    config = case.stream.config
    if not case.filters or not config.subjects or config.mirror or config.sources or config.subject_transform:
        return None
    vain = [
        wanted
        for wanted in case.filters
        if not any(collide(wanted.encode(), subject.encode()) for subject in config.subjects)
    ]
    if not vain or len(vain) < len(case.filters) or case.extra.matches:
        return None
    return Cause(
        "filter_never_matches",
        Severity.WARNING,
        f"no subject of the stream can match {', '.join(vain)}",
        {"filter_subjects": vain, "subjects": config.subjects},
        "Correct the filter of the consumer, or add the subject to the stream.",
    )


def filter_matches_nothing(case: Case) -> Cause | None:
    """Find filters without a matching message in the stream."""
    if not case.filters or case.extra.matches is not False or case.consumer.num_pending:
        return None
    return Cause(
        "filter_matches_nothing",
        Severity.INFO,
        f"the stream holds no message whose subject matches {', '.join(case.filters)}",
        {"filter_subjects": case.filters, "messages": case.stream.state.messages},
        "Check the filter against the subjects of the stream, or wait for such a message.",
    )


def starts_later(case: Case) -> Cause | None:
    """Find a consumer that starts after the last stored message."""
    config, last = case.config, case.stream.state.last_seq
    if case.consumer.num_pending or case.consumer.delivered.consumer_seq:
        return None
    if config.deliver_policy is DeliverPolicy.BY_START_SEQUENCE and config.opt_start_seq > last:
        where = f"sequence {config.opt_start_seq}, and the stream ends at {last}"
    elif (
        config.deliver_policy is DeliverPolicy.BY_START_TIME
        and config.opt_start_time is not None
        and config.opt_start_time > case.extra.now_ns
    ):
        where = text_of(config.opt_start_time)
    else:
        return None
    return Cause(
        "starts_later",
        Severity.INFO,
        f"it begins at {where}",
        {
            "opt_start_seq": config.opt_start_seq,
            "opt_start_time": text_of(config.opt_start_time),
            "last_seq": last,
        },
        "Wait, or create the consumer with another start.",
    )


def waiting_for_acks(case: Case) -> Cause | None:
    """Find a consumer that has delivered everything and waits for acknowledgements."""
    if case.consumer.num_pending or not case.consumer.num_ack_pending:
        return None
    messages = list(case.extra.pending[:10]) if case.extra.pending else []
    if not messages and case.extra.oldest is not None:
        messages = [case.extra.oldest]
    return Cause(
        "waiting_for_acks",
        Severity.INFO,
        f"everything is delivered; "
        f"{counted(case.consumer.num_ack_pending, 'message waits', 'messages wait')} for acknowledgement",
        {
            "num_ack_pending": case.consumer.num_ack_pending,
            "ack_wait_s": case.config.ack_wait / _SECOND,
            "ack_floor": case.consumer.ack_floor.stream_seq,
            "messages": messages,
        },
        "Wait for the clients; what is not acknowledged within `ack_wait` is delivered again.",
    )


def stream_sealed(case: Case) -> Cause | None:
    """Find a sealed stream, which gets no new messages."""
    if not case.stream.config.sealed or case.consumer.num_pending:
        return None
    return Cause(
        "stream_sealed",
        Severity.INFO,
        "the stream is sealed, so nothing new comes",
        {"sealed": True, "last_seq": case.stream.state.last_seq},
        "Nothing more will come from this stream: read from another one.",
    )


def origin_lost(case: Case) -> Cause | None:
    """Find a mirror or sourced stream that does not reach its origin."""
    sources = [each for each in (case.stream.mirror, *case.stream.sources) if each is not None]
    broken = [each for each in sources if each.error is not None]
    if not broken or case.consumer.num_pending:
        return None
    return Cause(
        "origin_lost",
        Severity.WARNING,
        f"the stream copies {', '.join(each.name for each in broken)}, and can not reach it",
        {
            "origins": [
                {"name": each.name, "lag": each.lag, "error": each.error.description if each.error else ""}
                for each in broken
            ]
        },
        "Look whether the stream that is copied is there, and whether this server may read it.",
    )


def caught_up(case: Case) -> Cause | None:
    """Find a consumer whose messages are all delivered and acknowledged."""
    if case.has_work or case.consumer.num_ack_pending:
        return None
    delivered = case.consumer.delivered
    return Cause(
        "caught_up",
        Severity.INFO,
        "it has delivered everything that there is for it"
        if delivered.consumer_seq
        else "there is nothing for it yet",
        {
            "delivered": delivered.stream_seq,
            "last_seq": case.stream.state.last_seq,
            "messages": case.stream.state.messages,
            "last_stored": text_of(case.stream.state.last_ts),
        },
        "If a message was published for it, compare the subject with the consumer's filter and the stream.",
    )


FINDERS: Final[tuple[Finder, ...]] = (
    filter_never_matches,
    origin_lost,
    filter_matches_nothing,
    starts_later,
    waiting_for_acks,
    stream_sealed,
    caught_up,
)
