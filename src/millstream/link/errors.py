"""The errors of a link.

    LinkError
    ├── NotConnected                  no server could be reached, or the connection broke
    │   ├── ConnectionLost            lost after the request was sent: it may or may not have been executed
    │   ├── AuthorizationViolation    a server was reached and refused the credentials
    │   └── TlsFailure                a server was reached, and the TLS handshake failed
    ├── ProtocolViolation             the server violates the NATS protocol
    ├── RequestTimeout                no answer in time: the request may or may not have been executed
    ├── NoResponders                  no subscriber: the request was not executed
    │   └── JetStreamOff              the server has no JetStream
    ├── LinkApiError                  JetStream answered with an error
    ├── PermissionViolation           publishing or subscribing is not permitted: it was not done
    ├── BadMessage                    a message that no server accepts: it was not sent
    │   └── MessageTooLarge           more bytes than this server accepts
    ├── SlowConsumer                  messages came faster than they were read, and some are lost
    └── BadLinkOptions                options that contradict each other: nothing was tried

Texts name the server and the cause, and never a secret.
"""

from functools import cache

from millstream.base.errors import MillstreamError
from millstream.jsapi.errors import Err


class LinkError(MillstreamError):
    """The base of all errors of this package."""


class BadLinkOptions(LinkError):
    """Raised for options that contradict each other, or a file that cannot be used."""


class BadMessage(LinkError):
    """Raised for a subject or header that no server accepts."""


class MessageTooLarge(BadMessage):
    """Raised for a message that is larger than the server accepts."""


class NotConnected(LinkError):
    """Raised without a connection."""


class ConnectionLost(NotConnected):
    """Raised when the connection is lost before the answer comes."""


class AuthorizationViolation(NotConnected):
    """Raised when a server refuses the credentials; `said` is the server's text."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said


class TlsFailure(NotConnected):
    """Raised when the TLS handshake fails or only one side wants TLS; another try does not help."""


class ProtocolViolation(LinkError):
    """Raised for input that violates the NATS protocol or our limits."""


class RequestTimeout(LinkError):
    """Raised when no answer comes in time."""


class NoResponders(LinkError):
    """Raised when a subject has no subscriber."""


class JetStreamOff(NoResponders):
    """Raised when the server has no JetStream; the text says what to do."""


class PermissionViolation(LinkError):
    """Raised when the credentials do not permit a subject."""


class SlowConsumer(LinkError):
    """Raised when a subscription was ended because its reader was too slow."""


class LinkApiError(LinkError):
    """Raised when JetStream answers a request with an error.

    `code` resembles an HTTP status, `err_code` is JetStream's own number, and `err` is its entry in
    `millstream.jsapi.errors.Err`, or None for a number that is not in that table.
    """

    def __init__(self, code: int, err_code: int, description: str, context: str = "") -> None:
        self.code = code
        self.err_code = err_code
        self.description = description
        self.context = context
        what = f"{context}: " if context else ""
        super().__init__(f"{what}{description} ({err_code or code})")

    def __reduce__(self) -> tuple[type["LinkApiError"], tuple[int, int, str, str]]:
        return type(self), (self.code, self.err_code, self.description, self.context)

    @property
    def err(self) -> Err | None:
        return _by_number().get(self.err_code)

    @property
    def may_pass(self) -> bool:
        """Return whether the same request may succeed later: the fault is the server's, not the request's."""
        return self.code >= 500 or self.code == 429


@cache
def _by_number() -> dict[int, Err]:
    return {err.value[1]: err for err in Err}


def summary(failures: list[LinkError]) -> LinkError:
    """Return one error for the failures of all servers; refused credentials take precedence."""
    text = "; ".join(dict.fromkeys(map(str, failures))) or "no server is known"
    for error in failures:
        if isinstance(error, AuthorizationViolation):
            return AuthorizationViolation(text, error.said)
    for kind in (BadLinkOptions, TlsFailure):
        if failures and all(isinstance(error, kind) for error in failures):
            return kind(text)
    return NotConnected(text)
