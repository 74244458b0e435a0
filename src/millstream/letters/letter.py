"""A dead letter, read from its headers."""

import msgspec

from millstream.golang.time import Time
from millstream.jsapi import letter_headers as names
from millstream.link.stored import Stored
from millstream.protocol.headers import Pairs

_MOST_DIGITS = 19


class LetterOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The original place of a letter's message; unknown fields are empty."""

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
    is_gone: bool  # there is no payload: the original was removed before it could be kept, or was too large
    headers: Pairs  # of the original
    payload: bytes

    @property
    def can_be_redriven(self) -> bool:
        """Return whether the letter has the message and its original subject."""
        return not self.is_gone and bool(self.origin.subject)


def letter_of(stored: Stored) -> Letter | None:
    """Return the letter in a message; None if it is no letter."""
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
