"""What went wrong, as RFC 9457 writes it: application/problem+json, with JetStream's error code.

Handlers raise; the gateway's front answers, as it does for every part of it.  Of JetStream's refusals, the
status is chosen here: JetStream says 400 or 500 to nearly everything.

    400  the request can not be read: JSON, query, names, subjects, headers
    422  it can be read, but JetStream does not accept what it says
    409  it does not go with what is there; 412: a condition in the request does not hold
    404  what it names is not there; 413, 415, 429 as usual
    503  the NATS server can not be reached or can not do it now; 504: nobody answered in time
"""

from http import HTTPStatus
from typing import Final

import msgspec

from millstream.gateway.error_map import Outcome
from millstream.gateway.error_map import outcome_of as outcome_of_any
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError

_CONFLICTS: Final = (
    Err.CONSUMER_NAME_IN_USE,
    Err.STREAM_NAME_IN_USE,
    Err.STREAM_SUBJECT_OVERLAP,
    Err.CONSUMER_EXISTING_ACTIVE,
    Err.CONSUMER_REPLACEMENT_DIFFERENT_CONFIG,
    Err.CONSUMER_ALREADY_EXISTS,
    Err.STREAM_SEALED,
    Err.STREAM_MOVE_IN_PROGRESS,
    Err.STREAM_RECONFIGURE_IN_PROGRESS,
    Err.WORKQUEUE_CONSUMER_NOT_UNIQUE,
    Err.WORKQUEUE_MULTIPLE_UNFILTERED,
    Err.MAXIMUM_CONSUMERS_REACHED,
    Err.MAXIMUM_STREAMS_REACHED,
)
_CONDITIONS: Final = (
    Err.EXPECTED_STREAM_MISMATCH,
    Err.STREAM_SEQUENCE_MISMATCH,
    Err.WRONG_LAST_MSG_ID,
    Err.WRONG_LAST_SEQUENCE,
    Err.WRONG_LAST_SEQUENCE_UNKNOWN,
    Err.MIN_LAST_SEQUENCE,
    Err.REQUIRED_API_LEVEL,
)
_NOT_ACCEPTED: Final = (  # told with 500 by JetStream, although it is the request that is at fault
    Err.CONSUMER_CREATE_FAILED,
    Err.STREAM_CREATE_FAILED,
    Err.STREAM_CONFIG_INVALID,
    Err.STREAM_UPDATE_FAILED,
    Err.STREAM_LIMITS_EXCEEDED,
    Err.REPLICAS_NOT_SUPPORTED,
    Err.STREAM_ROLLUP_FAILED,
    Err.STREAM_MESSAGE_DELETE_FAILED,
    Err.STREAM_PURGE_FAILED,
    Err.STREAM_DELETE_FAILED,
    Err.STREAM_INFO_TOO_MANY_SUBJECTS,
)
_STATUS_OF: Final[dict[int, int]] = {
    **{err.value[1]: 409 for err in _CONFLICTS},
    **{err.value[1]: 412 for err in _CONDITIONS},
    **{err.value[1]: 422 for err in _NOT_ACCEPTED},
    Err.MESSAGE_EXCEEDS_MAXIMUM.value[1]: 413,
    Err.HEADER_EXCEEDS_MAXIMUM.value[1]: 413,
    Err.SEQUENCE_NOT_FOUND.value[1]: 404,
    Err.CONSUMER_DOES_NOT_EXIST.value[1]: 404,
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of every answer that is not a success, and the last line of a stream that ended badly."""

    status: int
    title: str
    detail: str = ""
    type: str = "about:blank"
    instance: str = ""  # the path
    request_id: str = ""
    err_code: int = 0  # of JetStream, if it was JetStream that refused


def outcome_of(error: BaseException) -> Outcome:
    """What the caller is told of `error`."""
    outcome = outcome_of_any(error)
    if isinstance(error, LinkApiError):
        outcome.status = status_of_refusal(error.code, error.err_code)
        outcome.title = HTTPStatus(outcome.status).phrase
    return outcome


def problem_of(error: BaseException) -> Problem:
    """The same, for the inside of a stream."""
    outcome = outcome_of(error)
    return Problem(outcome.status, outcome.title, outcome.detail, err_code=outcome.err_code)


def status_of_refusal(code: int, err_code: int) -> int:
    """The HTTP status of a refusal of JetStream, which has its own idea of HTTP's codes."""
    known = _STATUS_OF.get(err_code)
    if known is not None:
        return known
    if code == 400:
        return 422
    if code in (404, 409, 412, 429):
        return code
    return 503
