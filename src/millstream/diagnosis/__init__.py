"""Why a consumer does not deliver: causes, evidence and advice, on any NATS server.

    found = await diagnose(link, "ORDERS", "billing")
    print(found.verdict, found.summary)
    for cause in found.causes: …

`why` is the pure function under it: what a server says about a stream and a consumer, and what else is known
(`Extra`).
"""

from millstream.diagnosis.gathering import diagnose
from millstream.diagnosis.types import (
    Cause,
    DeliveryVerdict,
    Diagnosis,
    DiagnosisFailure,
    Extra,
    PendingMessage,
    Severity,
)
from millstream.diagnosis.why import why

__all__ = [
    "Cause",
    "DeliveryVerdict",
    "Diagnosis",
    "DiagnosisFailure",
    "Extra",
    "PendingMessage",
    "Severity",
    "diagnose",
    "why",
]
