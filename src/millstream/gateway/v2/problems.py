"""Problem details (RFC 9457): application/problem+json, with JetStream's error code.

Handlers raise, and the gateway's front answers.  The status of JetStream's refusals is chosen here, because
JetStream uses 400 or 500 for nearly everything.

    400  the request cannot be read: JSON, query, names, subjects, headers
    422  the request can be read, but JetStream does not accept its values
    409  the request conflicts with the present state; 412: a condition in the request does not hold
    404  a resource does not exist; 413, 415, 429 as usual
    503  the NATS server cannot be reached or cannot do it now; 504: no answer came in time
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
_NOT_ACCEPTED: Final = (  # JetStream's code is 500, although the request is at fault
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
    """The body of every unsuccessful answer, and the last line of a stream that failed."""

    status: int
    title: str
    detail: str = ""
    type: str = "about:blank"
    instance: str = ""  # the path
    request_id: str = ""
    err_code: int = 0  # JetStream's error code, if JetStream refused


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome of `error`."""
    outcome = outcome_of_any(error)
    if isinstance(error, LinkApiError):
        outcome.status = status_of_refusal(error.code, error.err_code)
        outcome.title = HTTPStatus(outcome.status).phrase
    return outcome


def problem_of(error: BaseException) -> Problem:
    """Return the problem of `error`, for a line of a stream."""
    outcome = outcome_of(error)
    return Problem(outcome.status, outcome.title, outcome.detail, err_code=outcome.err_code)


def status_of_refusal(code: int, err_code: int) -> int:
    """Return the HTTP status for a refusal of JetStream, from its two codes."""
    known = _STATUS_OF.get(err_code)
    if known is not None:
        return known
    if code == 400:
        return 422
    if code in (404, 409, 412, 429):
        return code
    return 503
