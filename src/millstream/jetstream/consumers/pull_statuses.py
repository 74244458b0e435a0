"""Status headers sent to a pull request's inbox instead of a message, as complete blocks.

Clients match codes and texts, so each is written here once.  A status has no payload.  Those that end an
accepted request contain what it did not get: `left` messages and, if it set a bound, `bytes_left`.

Not here: when each is sent (`pull_queue`, `groups`, `pull_request`).
"""

from typing import Final

from millstream.golang.duration import format_duration
from millstream.jsapi import headers
from millstream.protocol.headers import make_status

NO_MESSAGES: Final = make_status(b"404 No Messages")
REQUESTS_PENDING: Final = make_status(b"408 Requests Pending")
MAX_WAITING: Final = make_status(b"409 Exceeded MaxWaiting")
CONSUMER_DELETED: Final = make_status(b"409 Consumer Deleted")
PUSH_BASED: Final = make_status(b"409 Consumer is push based")  # for whoever answers for a push consumer
REQUIRED_API_LEVEL: Final = make_status(b"412 Required Api Level")
PIN_ID_MISMATCH: Final = make_status(b"423 Nats-Pin-Id mismatch")

GROUP_MISSING: Final = "Priority Group missing"
GROUP_INVALID: Final = "Invalid Priority Group"
NOT_OVERFLOW: Final = "Not a Overflow Priority consumer"
NOT_PINNED_CLIENT: Final = "Not a Pinned Client Priority consumer"
PRIORITY_RANGE: Final = "Priority must be between 0 and 9"
HEARTBEAT_TOO_LARGE: Final = "heartbeat value too large"

_PENDING: Final = ((headers.PENDING_MESSAGES.encode(), b"%d"), (headers.PENDING_BYTES.encode(), b"%d"))
_REQUEST_TIMEOUT: Final = make_status(b"408 Request Timeout", *_PENDING)
_INTEREST_EXPIRED: Final = make_status(b"408 Interest Expired", *_PENDING)
_TOO_BIG: Final = make_status(b"409 Message Size Exceeds MaxBytes", *_PENDING)
_BATCH_COMPLETED: Final = make_status(b"409 Batch Completed", *_PENDING)
_SERVER_SHUTDOWN: Final = make_status(b"409 Server Shutdown", *_PENDING)
_WRONG_PIN_ID: Final = make_status(b"423 Nats-Wrong-Pin-Id", *_PENDING)
_POSITION: Final = ((headers.LAST_CONSUMER.encode(), b"%d"), (headers.LAST_STREAM.encode(), b"%d"))
_IDLE_HEARTBEAT: Final = make_status(b"100 Idle Heartbeat", *_POSITION)


def bad_request(why: str) -> bytes:
    return make_status(b"400 Bad Request - %b" % why.encode())


def max_request_batch(limit: int) -> bytes:
    return make_status(b"409 Exceeded MaxRequestBatch of %d" % limit)


def max_request_expires(limit_ns: int) -> bytes:
    return make_status(b"409 Exceeded MaxRequestExpires of %b" % format_duration(limit_ns).encode())


def max_request_bytes(limit: int) -> bytes:
    return make_status(b"409 Exceeded MaxRequestMaxBytes of %d" % limit)


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
