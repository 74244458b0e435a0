"""The exact texts of ``-ERR`` lines.  They are a contract: clients match on them."""

from typing import Final

UNKNOWN_OPERATION: Final = b"Unknown Protocol Operation"
LINE_TOO_LONG: Final = b"maximum control line exceeded"
PAYLOAD_TOO_BIG: Final = b"Maximum Payload Violation"
AUTHORIZATION_VIOLATION: Final = b"Authorization Violation"
AUTHENTICATION_TIMEOUT: Final = b"Authentication Timeout"
USER_EXPIRED: Final = b"User Authentication Expired"
USER_REVOKED: Final = b"User Authentication Revoked"
ACCOUNT_EXPIRED: Final = b"Account Authentication Expired"
MAX_CONNECTIONS: Final = b"maximum connections exceeded"
MAX_ACCOUNT_CONNECTIONS: Final = b"maximum account active connections exceeded"
BAD_CLIENT_PROTOCOL: Final = b"invalid client protocol"
NO_RESPONDERS_NEEDS_HEADERS: Final = b"no responders requires headers support"
STALE_CONNECTION: Final = b"Stale Connection"
TLS_REQUIRED: Final = b"Secure Connection - TLS Required"
TLS_THROTTLED: Final = b"Connection throttling is active. Please try again later."
MAX_SUBSCRIPTIONS: Final = b"maximum subscriptions exceeded"
INVALID_SUBJECT: Final = b"Invalid Subject"
INVALID_PUBLISH_SUBJECT: Final = b"Invalid Publish Subject"


def publish_violation(subject: bytes) -> bytes:
    return b'Permissions Violation for Publish to "%b"' % subject


def reply_violation(reply: bytes) -> bytes:
    return b'Permissions Violation for Publish with Reply of "%b"' % reply


def subscription_violation(subject: bytes, queue: bytes | None) -> bytes:
    if queue is None:
        return b'Permissions Violation for Subscription to "%b"' % subject
    return b'Permissions Violation for Subscription to "%b" using queue "%b"' % (subject, queue)


def too_many_tokens(subject: bytes) -> bytes:
    return b'Permissions Violation for Subscription to "%b", too many tokens' % subject


def subscription_revoked(subject: bytes, queue: bytes | None, sid: bytes) -> bytes:
    """Return the error for an active subscription that a reloaded configuration no longer permits."""
    return b'%b (sid "%b")' % (subscription_violation(subject, queue), sid)
