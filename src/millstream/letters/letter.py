"""A dead letter, as its headers describe it."""

import msgspec

from millstream.golang.time import Time
from millstream.letters import names
from millstream.link.stored import Stored
from millstream.protocol.headers import Pairs

_MOST_DIGITS = 19


class LetterOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the message of a letter was first; what is not known is empty."""

    subject: str = ""
    stream: str = ""
    seq: int = 0
    time: str = ""
    row: str = ""


class Letter(msgspec.Struct, frozen=True):
    """One dead letter."""

    seq: int  # in the stream of letters
    subject: str  # of the letter itself
    time: Time
    reason: str
    origin: LetterOrigin
    consumer: str
    deliveries: int
    is_gone: bool  # the original was gone before it could be kept, or was too large: there is no payload
    headers: Pairs  # of the original
    payload: bytes

    @property
    def can_be_redriven(self) -> bool:
        """Return whether the letter has the message and says where it belongs."""
        return not self.is_gone and bool(self.origin.subject)


def letter_of(stored: Stored) -> Letter | None:
    """Return the letter that a message is; None if it is none."""
    reason = stored.header(names.DLQ_REASON) or stored.header(names.ROW_REASON)
    if not reason:
        return None
    return Letter(
        seq=stored.seq,
        subject=stored.subject,
        time=stored.time,
        reason=reason,
        origin=LetterOrigin(
            stored.header(names.ORIG_SUBJECT),
            stored.header(names.ORIG_STREAM),
            _number(stored.header(names.ORIG_SEQ)),
            stored.header(names.ORIG_TIME),
            stored.header(names.ORIG_ROW),
        ),
        consumer=stored.header(names.DLQ_CONSUMER),
        deliveries=_number(stored.header(names.DLQ_DELIVERIES)),
        is_gone=bool(stored.header(names.DLQ_GONE) or stored.header(names.ORIG_SIZE)),
        headers=[pair for pair in stored.pairs if names.is_own_header(pair[0])],
        payload=stored.payload,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0
