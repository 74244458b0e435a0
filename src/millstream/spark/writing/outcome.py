"""What a refusal of the server means to a row: try again, give the row up, or give the task up."""

from enum import Enum
from typing import Final

from millstream.jsapi.errors import Err
from millstream.link.errors import ApiError, LinkError, NoResponders, NotConnected, RequestTimeout

# Refusals that are about the message alone; any other is about the stream, and no row is to blame.
_OF_A_ROW: Final = (
    Err.MESSAGE_EXCEEDS_MAXIMUM,
    Err.HEADER_EXCEEDS_MAXIMUM,
    Err.MESSAGE_TTL_INVALID,
    Err.WRONG_LAST_SEQUENCE,
    Err.WRONG_LAST_SEQUENCE_UNKNOWN,
)


class Verdict(Enum):
    """What to do about a message that was not stored."""

    AGAIN = "again"  # it may be stored, or the server was busy: under the same id it does no harm
    BAD_ROW = "bad row"
    FAIL = "fail"


def verdict_on(error: LinkError) -> Verdict:
    if isinstance(error, NotConnected | RequestTimeout | NoResponders):
        return Verdict.AGAIN
    if isinstance(error, ApiError):
        if error.err in _OF_A_ROW:
            return Verdict.BAD_ROW
        if error.may_pass:
            return Verdict.AGAIN
    return Verdict.FAIL
