"""Status headers sent to a pull request's inbox instead of a message, as complete blocks.

Clients match codes and texts, so each is written here once.  A status has no payload.  Those that end an
accepted request contain what it did not get: `left` messages and, if it set a bound, `bytes_left`.

Not here: when each is sent (`pull_queue`, `groups`, `pull_request`).
"""

from typing import Final

from millstream.golang.duration import format_duration
from millstream.jsapi import headers

NO_MESSAGES: Final = b"NATS/1.0 404 No Messages\r\n\r\n"
REQUESTS_PENDING: Final = b"NATS/1.0 408 Requests Pending\r\n\r\n"
MAX_WAITING: Final = b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"
CONSUMER_DELETED: Final = b"NATS/1.0 409 Consumer Deleted\r\n\r\n"
PUSH_BASED: Final = b"NATS/1.0 409 Consumer is push based\r\n\r\n"  # for whoever answers for a push consumer
REQUIRED_API_LEVEL: Final = b"NATS/1.0 412 Required Api Level\r\n\r\n"
PIN_ID_MISMATCH: Final = b"NATS/1.0 423 Nats-Pin-Id mismatch\r\n\r\n"

GROUP_MISSING: Final = "Priority Group missing"
GROUP_INVALID: Final = "Invalid Priority Group"
NOT_OVERFLOW: Final = "Not a Overflow Priority consumer"
NOT_PINNED_CLIENT: Final = "Not a Pinned Client Priority consumer"
PRIORITY_RANGE: Final = "Priority must be between 0 and 9"
HEARTBEAT_TOO_LARGE: Final = "heartbeat value too large"

_PENDING: Final = f"{headers.PENDING_MESSAGES}: %d\r\n{headers.PENDING_BYTES}: %d\r\n\r\n".encode()
_REQUEST_TIMEOUT: Final = b"NATS/1.0 408 Request Timeout\r\n" + _PENDING
_INTEREST_EXPIRED: Final = b"NATS/1.0 408 Interest Expired\r\n" + _PENDING
_TOO_BIG: Final = b"NATS/1.0 409 Message Size Exceeds MaxBytes\r\n" + _PENDING
_BATCH_COMPLETED: Final = b"NATS/1.0 409 Batch Completed\r\n" + _PENDING
_SERVER_SHUTDOWN: Final = b"NATS/1.0 409 Server Shutdown\r\n" + _PENDING
_WRONG_PIN_ID: Final = b"NATS/1.0 423 Nats-Wrong-Pin-Id\r\n" + _PENDING
_POSITION: Final = f"{headers.LAST_CONSUMER}: %d\r\n{headers.LAST_STREAM}: %d\r\n\r\n".encode()
_IDLE_HEARTBEAT: Final = b"NATS/1.0 100 Idle Heartbeat\r\n" + _POSITION


def bad_request(why: str) -> bytes:
    return b"NATS/1.0 400 Bad Request - %b\r\n\r\n" % why.encode()


def max_request_batch(limit: int) -> bytes:
    return b"NATS/1.0 409 Exceeded MaxRequestBatch of %d\r\n\r\n" % limit


def max_request_expires(limit_ns: int) -> bytes:
    return b"NATS/1.0 409 Exceeded MaxRequestExpires of %b\r\n\r\n" % format_duration(limit_ns).encode()


def max_request_bytes(limit: int) -> bytes:
    return b"NATS/1.0 409 Exceeded MaxRequestMaxBytes of %d\r\n\r\n" % limit


def idle_heartbeat(last_dseq: int, last_sseq: int) -> bytes:
    return _IDLE_HEARTBEAT % (last_dseq, last_sseq)


def request_timeout(left: int, bytes_left: int) -> bytes:
    return _REQUEST_TIMEOUT % (left, bytes_left)


def interest_expired(left: int, bytes_left: int) -> bytes:
    """Return the status for an inbox in another account, where the requester may still be subscribed."""
    return _INTEREST_EXPIRED % (left, bytes_left)


def too_big(left: int, bytes_left: int) -> bytes:
    return _TOO_BIG % (left, bytes_left)


def batch_completed(left: int, bytes_left: int) -> bytes:
    return _BATCH_COMPLETED % (left, bytes_left)


def server_shutdown(left: int, bytes_left: int) -> bytes:
    return _SERVER_SHUTDOWN % (left, bytes_left)


def wrong_pin_id(left: int, bytes_left: int) -> bytes:
    return _WRONG_PIN_ID % (left, bytes_left)
