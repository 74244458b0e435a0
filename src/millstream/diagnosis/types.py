"""A diagnosis, its causes, and the facts that are not in the infos of a server."""

from enum import StrEnum
from typing import Any

import msgspec


class DeliveryVerdict(StrEnum):
    """The present state of a consumer."""

    DELIVERING = "delivering"
    BLOCKED = "blocked"  # messages wait and cannot be delivered
    IDLE = "idle"  # there is nothing to deliver
    UNKNOWN = "unknown"


class Severity(StrEnum):
    """The severity of a cause."""

    ERROR = "error"  # stops all deliveries
    WARNING = "warning"  # reduces or delays deliveries
    INFO = "info"  # explains an idle consumer


class Cause(msgspec.Struct, frozen=True):
    """A reason why messages are not delivered, its evidence, and advice."""

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
    """A pending message; times are RFC 3339, or empty if not known."""

    seq: int
    subject: str = ""
    deliveries: int = 0
    delivered: str = ""  # last
    redeliver: str = ""  # time of its redelivery
    stored: str = ""


class DiagnosisFailure(StrEnum):
    """The reason why a server did not report a stream or consumer."""

    NO_LEADER = "no_leader"
    OFFLINE = "offline"
    DAMAGED = "damaged"


class Extra(msgspec.Struct, frozen=True):
    """Facts beside the infos of stream and consumer; None means not known."""

    now_ns: int
    matches: bool | None = None  # whether the stream has a message that matches the filters
    oldest: PendingMessage | None = None  # the first message after the ack floor
    pending: list[PendingMessage] | None = None  # the oldest pending messages; only Millstream reports them
    exhausted: list[int] | None = None  # sequences that reached max_deliver; only Millstream reports them
    failure: DiagnosisFailure | None = None
    failure_text: str = ""
