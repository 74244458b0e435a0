"""The pure function that makes a diagnosis from infos."""

from typing import Any, Final

from millstream.base.words import counted
from millstream.diagnosis import blocked_causes, idle_causes
from millstream.diagnosis.case import Case, text_of
from millstream.diagnosis.types import Cause, DeliveryVerdict, Diagnosis, DiagnosisFailure, Extra, Severity
from millstream.jsapi.consumer_types import ConsumerInfo
from millstream.jsapi.stream_types import StreamInfo

_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_FAILURES: Final = {
    DiagnosisFailure.NO_LEADER: (
        "leader_missing",
        "no server of the cluster leads the stream or the consumer, so nobody can deliver",
        "Bring back the servers that hold the replicas; more than half of them are needed.",
    ),
    DiagnosisFailure.DAMAGED: (
        "stream_damaged",
        "the server could not open the stream, so its consumers do not run",
        "Look into the server's log; mend or restore the stream's folder, and start the server again.",
    ),
    DiagnosisFailure.OFFLINE: (
        "offline",
        "the server has taken the stream or the consumer out of service",
        "Look into the server's log for the reason; a newer server may be needed to read what is stored.",
    ),
}


def why(stream: StreamInfo | None, consumer: ConsumerInfo | None, extra: Extra) -> Diagnosis:
    """Return the diagnosis of a consumer; the infos may be None if `extra` has the failure."""
    if stream is None or consumer is None:
        return _without_infos(stream, consumer, extra)
    case = Case(stream, consumer, extra)
    found = [cause for find in (*blocked_causes.FINDERS, *idle_causes.FINDERS) if (cause := find(case))]
    # stable: finders are in the order of their importance
    found.sort(key=lambda cause: _ORDER[cause.severity])
    verdict = _verdict(case, found)
    return Diagnosis(
        stream.config.name, consumer.name, verdict, _summary(case, verdict, found), found, _facts(case)
    )


def _without_infos(stream: StreamInfo | None, consumer: ConsumerInfo | None, extra: Extra) -> Diagnosis:
    names = (stream.config.name if stream else "", consumer.name if consumer else "")
    if extra.failure is None:
        text = extra.failure_text or "the server says nothing about the consumer"
        return Diagnosis(*names, DeliveryVerdict.UNKNOWN, f"It is not known: {text}.", [], {})
    kind, text, advice = _FAILURES[extra.failure]
    cause = Cause(kind, Severity.ERROR, text, {"error": extra.failure_text}, advice)
    return Diagnosis(*names, DeliveryVerdict.BLOCKED, _sentence(text), [cause], {})


def _verdict(case: Case, found: list[Cause]) -> DeliveryVerdict:
    if any(cause.severity is Severity.ERROR for cause in found):
        return DeliveryVerdict.BLOCKED
    if not case.has_work:
        return DeliveryVerdict.IDLE
    if case.is_recent or any(cause.kind in ("rate_limit", "replay_original") for cause in found):
        return DeliveryVerdict.DELIVERING
    return DeliveryVerdict.UNKNOWN


def _summary(case: Case, verdict: DeliveryVerdict, found: list[Cause]) -> str:
    first = found[0].text if found else ""
    left = counted(case.consumer.num_pending, "message is", "messages are")
    match verdict:
        case DeliveryVerdict.BLOCKED:
            return _sentence(f"it does not deliver: {first}")
        case DeliveryVerdict.IDLE:
            return _sentence(first or "there is nothing to deliver")
        case DeliveryVerdict.DELIVERING:
            return _sentence(f"it delivers; {left} left")
    return _sentence(f"{left} left, clients wait for more, and nothing shows why they do not get it")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _facts(case: Case) -> dict[str, Any]:
    """Return the numbers behind the diagnosis."""
    consumer, state = case.consumer, case.stream.state
    return {
        "kind": "push" if case.is_push else "pull",
        "ack_policy": case.config.ack_policy,
        "pending": consumer.num_pending,
        "ack_pending": consumer.num_ack_pending,
        "max_ack_pending": case.config.max_ack_pending,
        "redelivered": consumer.num_redelivered,
        "waiting": consumer.num_waiting,
        "push_bound": consumer.push_bound,
        "paused": consumer.paused,
        "delivered": consumer.delivered.stream_seq,
        "ack_floor": consumer.ack_floor.stream_seq,
        "last_delivery": text_of(consumer.delivered.last_active),
        "last_ack": text_of(consumer.ack_floor.last_active),
        "filter_subjects": case.filters,
        "messages": state.messages,
        "first_seq": state.first_seq,
        "last_seq": state.last_seq,
        "oldest_unacknowledged": case.extra.oldest,
        "from_server": case.extra.pending is not None,
    }
