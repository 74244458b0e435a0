"""The headers of dead letters and of messages that came from elsewhere.

``Millstream-Orig-*`` identifies the original message; ``Millstream-Dlq-*`` has the reason of a letter.
Headers of the server (``Nats-…``) describe a message in *its* stream and are not copied.
"""

from typing import Final

ORIG_STREAM: Final = "Millstream-Orig-Stream"
ORIG_SEQ: Final = "Millstream-Orig-Seq"
ORIG_TIME: Final = "Millstream-Orig-Time"
ORIG_SUBJECT: Final = "Millstream-Orig-Subject"
ORIG_ROW: Final = "Millstream-Orig-Row"  # the row of a data frame that could not be written
ORIG_SIZE: Final = "Millstream-Orig-Size"  # set if the payload was too large to be kept
DLQ_CONSUMER: Final = "Millstream-Dlq-Consumer"
DLQ_DELIVERIES: Final = "Millstream-Dlq-Deliveries"
DLQ_REASON: Final = "Millstream-Dlq-Reason"
DLQ_GONE: Final = "Millstream-Dlq-Gone"  # set if the original no longer existed
ROW_REASON: Final = "Millstream-Reason"  # the reason why a row could not be written

OUR_PREFIX: Final = "millstream-"
SERVER_PREFIX: Final = "nats-"


def is_own_header(name: str) -> bool:
    """Return True if the publisher of a message may have set this header."""
    return not name.lower().startswith((SERVER_PREFIX, OUR_PREFIX))
