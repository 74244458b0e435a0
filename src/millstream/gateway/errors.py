"""What can go wrong in the gateway, as it is raised; `error_map` says what the HTTP caller sees of it.

GatewayError
├── LinkError ── LinkDown, LinkTimeout, NoResponders ── JetStreamOff, PermissionDenied, PayloadTooLarge
├── JetStreamRefused
├── RequestError ── BadRequest, NotFound, Conflict, PreconditionFailed, BodyTooLarge, BodyTimeout, ...
├── Unauthorized
└── Overloaded ── TooManyRequests
"""

from __future__ import annotations

from typing import ClassVar

from millstream.base.errors import MillstreamError


class GatewayError(MillstreamError):
    """Any error of the gateway; `status` is what HTTP has for it."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal Server Error"


class LinkError(GatewayError):
    """Between the gateway and NATS."""


class LinkDown(LinkError):
    """There is no connection to NATS at the moment."""

    status = 503
    title = "No Connection To NATS"


class LinkTimeout(LinkError):
    """NATS did not answer in time; whether it did what was asked is not known."""

    status = 504
    title = "NATS Did Not Answer"


class NoResponders(LinkError):
    """Nobody listens on the subject: no stream stores it, or JetStream is not enabled."""

    status = 404
    title = "No Responders"

    def __init__(self, text: str = "nats: no responders available for request") -> None:
        super().__init__(text)


class JetStreamOff(NoResponders):
    """Nobody answers requests of the JetStream API; `advice` says what to do, the text is httpmq's."""

    status = 503
    title = "JetStream Is Off"

    def __init__(self, advice: str) -> None:
        super().__init__("nats: jetstream not enabled")
        self.advice = advice


class PermissionDenied(LinkError):
    """The broker does not let these credentials do this."""

    status = 403
    title = "Permissions Violation"


class PayloadTooLarge(LinkError):
    """More than the broker takes in one message."""

    status = 413
    title = "Payload Too Large"

    def __init__(self, text: str = "nats: maximum payload exceeded") -> None:
        super().__init__(text)


class JetStreamRefused(GatewayError):
    """JetStream's own refusal: an HTTP-like `code`, its `err_code` and a description."""

    title = "Refused By JetStream"

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description


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


class Unauthorized(GatewayError):
    """Credentials are missing, or nobody knows them."""

    status = 401
    title = "Unauthorized"


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
