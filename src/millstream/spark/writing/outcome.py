"""Decide what a server's refusal means for a row: retry, give up the row, or fail the task."""

from enum import Enum
from typing import Final

from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError, LinkError, NoResponders, NotConnected, RequestTimeout

# Refusals that are about the message alone; any other is about the stream, and no row is to blame.
_OF_A_ROW: Final = (
    Err.MESSAGE_EXCEEDS_MAXIMUM,
    Err.HEADER_EXCEEDS_MAXIMUM,
    Err.MESSAGE_TTL_INVALID,
    Err.WRONG_LAST_SEQUENCE,
    Err.WRONG_LAST_SEQUENCE_UNKNOWN,
)


class Verdict(Enum):
    """The ways to handle a message that was not stored."""

    AGAIN = "again"  # perhaps stored, or the server was busy; harmless with the same id
    BAD_ROW = "bad row"
    FAIL = "fail"


def verdict_on(error: LinkError) -> Verdict:
    if isinstance(error, NotConnected | RequestTimeout | NoResponders):
        return Verdict.AGAIN
    if isinstance(error, LinkApiError):
        if error.err in _OF_A_ROW:
            return Verdict.BAD_ROW
        if error.may_pass:
            return Verdict.AGAIN
    return Verdict.FAIL
