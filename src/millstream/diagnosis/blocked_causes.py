"""Causes that block the delivery of waiting messages.

Each finder returns its cause if it applies to a case, or None.  The most fundamental ones come first.
"""

from collections.abc import Callable
from typing import Any, Final

from millstream.base.words import counted
from millstream.diagnosis.case import Case, text_of
from millstream.diagnosis.types import Cause, Severity
from millstream.golang.time import format_time
from millstream.jsapi.enums import AckPolicy, PriorityPolicy, ReplayPolicy

Finder = Callable[[Case], Cause | None]

_SHOWN: Final = 10  # messages in the evidence
_SECOND: Final = 1_000_000_000


def leader_missing(case: Case) -> Cause | None:
    """Find a missing leader: without one, a cluster delivers nothing."""
    missing = [
        what
        for what, cluster in (("stream", case.stream.cluster), ("consumer", case.consumer.cluster))
        if cluster is not None and cluster.name and not cluster.leader
    ]
    if not missing:
        return None
    replicas = case.stream.cluster.replicas if case.stream.cluster is not None else []
    return Cause(
        "leader_missing",
        Severity.ERROR,
        f"no server leads the {' and the '.join(missing)} at the moment",
        {
            "without_leader": missing,
            "replicas": [
                {"name": each.name, "current": each.current, "offline": each.offline} for each in replicas
            ],
        },
        "Wait for the election, and bring back servers that are down: more than half of them are needed.",
    )


def paused(case: Case) -> Cause | None:
    """Find a pause, during which a consumer delivers nothing."""
    if not case.consumer.paused:
        return None
    until = text_of(case.config.pause_until)
    if not until:
        until = format_time(case.extra.now_ns + case.consumer.pause_remaining)
    return Cause(
        "paused",
        Severity.ERROR,
        f"it is paused until {until}",
        {"pause_until": until, "remaining_s": case.consumer.pause_remaining / _SECOND},
        "Resume the consumer, or wait until then.",
    )


def max_ack_pending(case: Case) -> Cause | None:
    """Find a consumer with `max_ack_pending` pending messages."""
    most, count = case.config.max_ack_pending, case.consumer.num_ack_pending
    if case.config.ack_policy is AckPolicy.NONE or most <= 0 or count < most or not case.has_work:
        return None
    since = text_of(case.consumer.delivered.last_active)
    evidence: dict[str, Any] = {
        "max_ack_pending": most,
        "num_ack_pending": count,
        "ack_floor": case.consumer.ack_floor.stream_seq,
        "since": since,
        "last_ack": text_of(case.consumer.ack_floor.last_active),
        "messages": _oldest(case),
    }
    first = f", the oldest is {evidence['messages'][0].seq}" if evidence["messages"] else ""
    return Cause(
        "max_ack_pending",
        Severity.ERROR,
        f"{counted(count, 'message waits', 'messages wait')} for acknowledgement, "
        f"and no more than {most:,} may{first}",
        evidence,
        "Find out why clients do not acknowledge these messages: they may be stuck, gone, or slower than "
        "`ack_wait`.  If they only need more messages at a time, raise `max_ack_pending`.",
    )


def _oldest(case: Case) -> list[Any]:
    if case.extra.pending is not None:
        return list(case.extra.pending[:_SHOWN])
    return [case.extra.oldest] if case.extra.oldest is not None else []


def no_interest(case: Case) -> Cause | None:
    """Find a push consumer without a subscriber on its deliver subject."""
    if not case.is_push or case.consumer.push_bound:
        return None
    where = case.config.deliver_subject
    group = case.config.deliver_group
    listener = f"in the queue group {group} " if group else ""
    return Cause(
        "no_interest",
        Severity.ERROR if case.has_work else Severity.WARNING,
        f"nobody listens {listener}on {where}",
        {"deliver_subject": where, "deliver_group": group, "push_bound": False},
        "Start the client that subscribes to the deliver subject, and compare its subject and group.",
    )


def no_pulls(case: Case) -> Cause | None:
    """Find a pull consumer without pull requests."""
    if case.is_push or case.consumer.num_waiting > 0 or not case.has_work:
        return None
    last = text_of(case.consumer.delivered.last_active)
    if case.is_recent:
        return Cause(
            "no_pulls",
            Severity.WARNING,
            "no client has a pull request waiting at this moment, but one had a moment ago",
            {"num_waiting": 0, "last_delivery": last},
            "Pull with larger batches, or again before a batch is worked off, if this is too slow.",
        )
    if last:
        ever = f"; the last delivery was at {last}"
    elif case.consumer.delivered.consumer_seq:
        ever = "; nothing was delivered since the server was started"
    else:
        ever = "; nothing was ever delivered"
    return Cause(
        "no_pulls",
        Severity.ERROR,
        f"no client asks for messages{ever}",
        {"num_waiting": 0, "num_pending": case.consumer.num_pending, "last_delivery": last},
        "Start a client that pulls from this consumer, or look why the running one does not pull.",
    )


def pinned(case: Case) -> Cause | None:
    """Find a pinned client, which gets all messages under the policy `pinned_client`."""
    if case.config.priority_policy is not PriorityPolicy.PINNED_CLIENT or not case.has_work:
        return None
    pins = [each for each in case.consumer.priority_groups if each.pinned_client_id]
    if not pins:
        return None
    stuck = case.consumer.num_waiting > 0 and not case.is_recent
    first = pins[0]
    return Cause(
        "pinned",
        Severity.ERROR if stuck else Severity.WARNING,
        f"it is pinned to the client {first.pinned_client_id} of the group {first.group}; other clients wait",
        {
            "pins": [
                {"group": each.group, "client": each.pinned_client_id, "since": text_of(each.pinned_ts)}
                for each in pins
            ],
            "num_waiting": case.consumer.num_waiting,
            "priority_timeout_s": case.config.priority_timeout / _SECOND,
        },
        "If that client is gone or stuck, unpin the group: the next client that asks is pinned.",
    )


def consumer_ahead(case: Case) -> Cause | None:
    """Find a consumer that has delivered sequences which the stream does not have yet."""
    delivered, last = case.consumer.delivered.stream_seq, case.stream.state.last_seq
    # a consumer that starts later is not ahead
    if delivered <= last or not case.consumer.delivered.consumer_seq:
        return None
    return Cause(
        "consumer_ahead",
        Severity.ERROR,
        f"it has delivered up to {delivered}, but the stream ends at {last}: it was replaced or restored",
        {"delivered": delivered, "last_seq": last},
        "Reset the consumer to the sequence at which it shall go on.",
    )


def stream_damaged(case: Case) -> Cause | None:
    """Find lost messages that the server reports."""
    lost = case.stream.state.lost
    if lost is None or not (lost.msgs or lost.bytes):
        return None
    return Cause(
        "stream_damaged",
        Severity.WARNING,
        f"the stream has lost {counted(len(lost.msgs or []), 'message')}, which can not be delivered",
        {"lost": (lost.msgs or [])[:_SHOWN], "bytes": lost.bytes},
        "Restore the stream from a backup or a mirror if these messages are needed; see the server's log.",
    )


def backoff(case: Case) -> Cause | None:
    """Find unacknowledged messages that wait for the time of their redelivery."""
    if case.consumer.num_ack_pending == 0 or case.config.ack_policy is AckPolicy.NONE:
        return None
    told = [each for each in case.extra.pending or [] if each.redeliver and each.deliveries > 1]
    if told:
        first = min(told, key=lambda each: each.redeliver)
        return _backoff(
            f"{counted(len(told), 'message that was', 'messages that were')} delivered before "
            f"{'waits' if len(told) == 1 else 'wait'} for another attempt, the first until {first.redeliver}",
            {"until": first.redeliver, "messages": told[:_SHOWN], "estimated": False},
        )
    last = case.consumer.delivered.last_active
    if case.extra.pending is not None or not case.config.backoff or last is None:
        return None
    until = last + max(case.config.backoff)
    if not case.consumer.num_redelivered or until <= case.extra.now_ns:
        return None
    return _backoff(
        f"messages that were delivered before wait for another attempt, until {format_time(until)} at most",
        {
            "until": format_time(until),
            "backoff_s": [each / _SECOND for each in case.config.backoff],
            "estimated": True,
        },
    )


def _backoff(text: str, evidence: dict[str, Any]) -> Cause:
    return Cause(
        "backoff",
        Severity.INFO,
        text,
        evidence,
        "Wait, or look why these messages fail; a shorter `backoff` tries them again sooner.",
    )


def max_deliver(case: Case) -> Cause | None:
    """Find messages that were delivered `max_deliver` times, and are not redelivered."""
    most = case.config.max_deliver
    if most <= 0:
        return None
    if case.extra.exhausted is not None:
        count, which = len(case.extra.exhausted), case.extra.exhausted[:_SHOWN]
    else:
        # A message that reached max_deliver keeps its count and is no longer pending.
        count, which = case.consumer.num_redelivered - case.consumer.num_ack_pending, []
        if most == 1 or count <= 0:
            return None
    if not count:
        return None
    return Cause(
        "max_deliver",
        Severity.WARNING,
        f"{'at least ' if not which else ''}{counted(count, 'message was', 'messages were')} delivered "
        f"{counted(most, 'time')} without an acknowledgement; no further attempt is made",
        {"max_deliver": most, "count": count, "sequences": which},
        "Read these messages from the stream, mend what fails, and publish them again; the job "
        "`dead-letters` keeps such messages.",
    )


def rate_limit(case: Case) -> Cause | None:
    """Find a rate limit of a push consumer."""
    rate = case.config.rate_limit_bps
    if not rate or not case.is_push or not case.consumer.push_bound or not case.consumer.num_pending:
        return None
    seconds = None
    if case.stream.state.messages:
        average = case.stream.state.bytes / case.stream.state.messages
        seconds = round(case.consumer.num_pending * average * 8 / rate, 1)
    return Cause(
        "rate_limit",
        Severity.WARNING,
        f"it sends at most {rate} bits a second",
        {"rate_limit_bps": rate, "num_pending": case.consumer.num_pending, "estimated_s": seconds},
        "Raise or remove `rate_limit_bps` if messages shall come faster.",
    )


def replay_original(case: Case) -> Cause | None:
    """Find a replay at the original pace of the messages."""
    if case.config.replay_policy is not ReplayPolicy.ORIGINAL or not case.consumer.num_pending:
        return None
    return Cause(
        "replay_original",
        Severity.WARNING,
        "it delivers messages at the pace at which they were stored",
        {"replay_policy": "original", "num_pending": case.consumer.num_pending},
        "Create the consumer with `replay_policy` `instant` if messages shall come at once.",
    )


FINDERS: Final[tuple[Finder, ...]] = (
    leader_missing,
    paused,
    consumer_ahead,
    max_ack_pending,
    no_interest,
    no_pulls,
    pinned,
    stream_damaged,
    max_deliver,
    rate_limit,
    replay_original,
    backoff,
)
