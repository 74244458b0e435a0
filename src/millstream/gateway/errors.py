"""The errors of the gateway; `error_map` turns them into HTTP answers.

GatewayError
├── RequestError ── BadRequest, NotFound, Conflict, PreconditionFailed, BodyTooLarge, BodyTimeout, ...
├── Unauthorized, PermissionDenied
└── Overloaded ── TooManyRequests

Errors between the gateway and NATS are those of the link (`millstream.link.errors`).  Code that reports
failures to the caller catches both with ``except FAILURES``.
"""

from __future__ import annotations

from typing import ClassVar, Final

from millstream.base.errors import MillstreamError
from millstream.link.errors import LinkError


class GatewayError(MillstreamError):
    """The base of all errors of the gateway; `status` is the HTTP status."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal Server Error"


class RequestError(GatewayError):
    """The request cannot be served."""

    status = 400
    title = "Bad Request"


class BadRequest(RequestError):
    """The request cannot be read, or is inconsistent."""


class Forbidden(RequestError):
    """The request came from a page of another origin."""

    status = 403
    title = "Forbidden"


class NotFound(RequestError):
    status = 404
    title = "Not Found"


class MethodNotAllowed(RequestError):
    status = 405
    title = "Method Not Allowed"

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(f"allowed here: {', '.join(allowed)}")
        self.allowed = allowed


class NotAcceptable(RequestError):
    status = 406
    title = "Not Acceptable"


class BodyTimeout(RequestError):
    status = 408
    title = "Request Timeout"


class Conflict(RequestError):
    status = 409
    title = "Conflict"


class PreconditionFailed(RequestError):
    status = 412
    title = "Precondition Failed"


class BodyTooLarge(RequestError):
    status = 413
    title = "Content Too Large"


class UnsupportedMedia(RequestError):
    status = 415
    title = "Unsupported Media Type"


class RangeNotSatisfiable(RequestError):
    status = 416
    title = "Range Not Satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"there are {size} bytes")
        self.size = size


class Unprocessable(RequestError):
    """The request can be read, but cannot be done."""

    status = 422
    title = "Unprocessable Content"


class Unauthorized(GatewayError):
    """Credentials are missing or unknown."""

    status = 401
    title = "Unauthorized"


class PermissionDenied(GatewayError):
    """The caller may not do this."""

    status = 403
    title = "Permissions Violation"


class ReadOnly(PermissionDenied):
    """The gateway is read-only."""

    title = "Read Only"

    def __init__(self) -> None:
        super().__init__("this gateway is read-only: it refuses every request that changes something")


class Overloaded(GatewayError):
    """A limit of the gateway is reached."""

    status = 503
    title = "Overloaded"
    retry_after_s: float = 1.0


class TooManyRequests(Overloaded):
    status = 429
    title = "Too Many Requests"

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"try again in {retry_after_s:.1f} s")
        self.retry_after_s = retry_after_s


class NotInstalled(GatewayError):
    """A package that the request needs is not installed."""

    status = 501
    title = "Not Implemented"


class Unavailable(GatewayError):
    """The NATS server cannot be reached."""

    status = 503
    title = "No Connection To NATS"


class Disconnected(GatewayError):
    """The HTTP caller has disconnected, so no answer can be sent."""


class Stopping(GatewayError):
    """The gateway is stopping."""

    status = 503
    title = "Server Stopping"


FAILURES: Final = (GatewayError, LinkError)
