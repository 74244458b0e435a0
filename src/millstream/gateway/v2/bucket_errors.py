"""The mapping of errors of buckets to the gateway's errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from millstream.buckets.errors import (
    BadBucket,
    BadKey,
    BucketError,
    DigestMismatch,
    KeyChanged,
    NoSuchBucket,
    NoSuchObject,
)
from millstream.client import ClientClosed, ClientError, ServerUnavailable, StreamChanged
from millstream.gateway.errors import BadRequest, Conflict, GatewayError, NotFound, PreconditionFailed
from millstream.link.errors import LinkError, NotConnected


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Return a context that turns errors of buckets and watches into the gateway's errors."""
    try:
        yield
    except BucketError as error:
        raise _error_of(error) from error
    except ClientError as error:
        raise error_of_client(error) from error


def _error_of(error: BucketError) -> GatewayError:
    text = str(error)
    match error:
        case NoSuchBucket() | NoSuchObject():
            return NotFound(text)
        case BadBucket() | BadKey():
            return BadRequest(text)
        case KeyChanged():
            return PreconditionFailed(text)
        case DigestMismatch():
            return BadRequest(text)
    return Conflict(text)


def error_of_client(error: ClientError) -> Exception:
    """Return the link error behind an error of the client, or else a gateway error with its text."""
    if isinstance(error.__cause__, LinkError):
        return error.__cause__
    if isinstance(error, StreamChanged):
        return Conflict(str(error))
    if isinstance(error, ClientClosed | ServerUnavailable):
        return NotConnected(str(error))
    return BadRequest(str(error))
