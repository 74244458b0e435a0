"""What can go wrong in the gateway, as it is raised; `error_map` says what the HTTP caller sees of it.

GatewayError
├── RequestError ── BadRequest, NotFound, Conflict, PreconditionFailed, BodyTooLarge, BodyTimeout, ...
├── Unauthorized, PermissionDenied
└── Overloaded ── TooManyRequests

What goes wrong between the gateway and NATS is raised as the link raises it (`millstream.link.errors`).
Whoever passes a failure on to the caller catches both: ``except FAILURES``.
"""

from __future__ import annotations

from typing import ClassVar, Final

from millstream.base.errors import MillstreamError
from millstream.link.errors import LinkError


class GatewayError(MillstreamError):
    """Any error of the gateway; `status` is what HTTP has for it."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal Server Error"


class RequestError(GatewayError):
    """The request is not one that can be served."""

    status = 400
    title = "Bad Request"


class BadRequest(RequestError):
    """Cannot be read or makes no sense."""


class Forbidden(RequestError):
    """Sent by a page that has no business here."""

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


class Unauthorized(GatewayError):
    """Credentials are missing, or nobody knows them."""

    status = 401
    title = "Unauthorized"


class PermissionDenied(GatewayError):
    """Callers may not do this."""

    status = 403
    title = "Permissions Violation"


class ReadOnly(PermissionDenied):
    """The gateway is set to change nothing."""

    title = "Read Only"

    def __init__(self) -> None:
        super().__init__("this gateway is read-only: it refuses every request that changes something")


class Overloaded(GatewayError):
    """More than the gateway is set to carry."""

    status = 503
    title = "Overloaded"
    retry_after_s: float = 1.0


class TooManyRequests(Overloaded):
    status = 429
    title = "Too Many Requests"

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"try again in {retry_after_s:.1f} s")
        self.retry_after_s = retry_after_s


class Disconnected(GatewayError):
    """The HTTP caller is gone; nobody is left to be answered."""


class Stopping(GatewayError):
    """The gateway is being stopped."""

    status = 503
    title = "Server Stopping"


FAILURES: Final = (GatewayError, LinkError)
