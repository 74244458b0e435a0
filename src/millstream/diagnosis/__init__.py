"""The diagnosis of a consumer that does not deliver: causes, evidence and advice, on any NATS server.

    found = await diagnose(link, "ORDERS", "billing")
    print(found.verdict, found.summary)
    for cause in found.causes: …

`why` is the pure function behind it.  Its arguments are the infos of a stream and a consumer, and further
facts (`Extra`).
"""

from millstream.diagnosis.facts import diagnose
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
