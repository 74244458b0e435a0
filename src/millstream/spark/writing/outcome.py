"""What a server's refusal means for a row: retry, give up the row, or fail the task."""

from enum import Enum
from typing import Final

from millstream.jsapi.errors import Err
from millstream.wire.errors import ApiRefused, NoResponders, NotConnected, RequestTimeout, WireError

# Refusals of a single message; any other concerns the stream, not the row.
_ROW_CODES: Final = frozenset(
    err.value[1]
    for err in (
        Err.MESSAGE_EXCEEDS_MAXIMUM,
        Err.HEADER_EXCEEDS_MAXIMUM,
        Err.MESSAGE_TTL_INVALID,
        Err.WRONG_LAST_SEQUENCE,
        Err.WRONG_LAST_SEQUENCE_UNKNOWN,
    )
)


class Verdict(Enum):
    """How to handle a message that was not stored."""

    AGAIN = "again"  # perhaps stored, or the server was busy; harmless with the same id
    BAD_ROW = "bad row"
    FAIL = "fail"


def verdict_on(error: WireError) -> Verdict:
    if isinstance(error, NotConnected | RequestTimeout | NoResponders):
        return Verdict.AGAIN
    if isinstance(error, ApiRefused):
        if error.err_code in _ROW_CODES:
            return Verdict.BAD_ROW
        if error.may_pass:
            return Verdict.AGAIN
    return Verdict.FAIL
