"""A diagnosis, its causes, and the evidence that no info of a server has."""

from enum import StrEnum
from typing import Any

import msgspec


class DeliveryVerdict(StrEnum):
    """What a consumer does now."""

    DELIVERING = "delivering"
    BLOCKED = "blocked"  # there are messages for it, and they cannot be delivered
    IDLE = "idle"  # there is nothing to deliver
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """How much a cause matters."""

    ERROR = "error"  # nothing is delivered because of it
    WARNING = "warning"  # less is delivered, or later
    INFO = "info"  # explains why there is nothing to deliver


class Cause(msgspec.Struct, frozen=True):
    """One reason why messages are not delivered, the facts that show it, and what to do about it."""

    kind: str
    severity: Severity
    text: str
    evidence: dict[str, Any]
    advice: str


class Diagnosis(msgspec.Struct, frozen=True):
    """The answer to "why does it not deliver?", the most serious cause first."""

    stream: str
    consumer: str
    verdict: DeliveryVerdict
    summary: str
    causes: list[Cause]
    facts: dict[str, Any]


class PendingMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that was delivered and is not acknowledged; times are RFC 3339, or empty if not known."""

    seq: int
    subject: str = ""
    deliveries: int = 0
    delivered: str = ""  # last
    redeliver: str = ""  # when it is delivered again, unless it is acknowledged before
    stored: str = ""


class DiagnosisFailure(StrEnum):
    """Why a server did not say anything about a stream or consumer."""

    NO_LEADER = "no_leader"
    OFFLINE = "offline"
    DAMAGED = "damaged"


class Extra(msgspec.Struct, frozen=True):
    """Facts beside the infos of stream and consumer; None is not known."""

    now_ns: int
    matches: bool | None = None  # whether the stream holds a message that the filters match
    oldest: PendingMessage | None = None  # the first message behind the ack floor
    pending: list[PendingMessage] | None = None  # the oldest unacknowledged ones; Millstream alone tells
    exhausted: list[int] | None = None  # sequences that were delivered as often as they may; Millstream alone
    failure: DiagnosisFailure | None = None
    failure_text: str = ""
