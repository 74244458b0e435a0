"""What can go wrong between us and a NATS server.

    LinkError
    ├── NotConnected                  no server could be reached, or the connection broke
    │   ├── ConnectionLost            it broke after the request was sent: whether it was done is unknown
    │   ├── AuthorizationViolation    a server was reached and did not let us in
    │   └── TlsFailure                a server was reached, and there is no agreement on TLS
    ├── ProtocolViolation             the other side does not speak NATS as it should
    ├── RequestTimeout                no answer in time: whether it was done is unknown
    ├── NoResponders                  nobody listens: it was certainly not done
    │   └── JetStreamOff              nobody listens to requests of the JetStream API
    ├── LinkApiError                  JetStream answered with an error
    ├── PermissionViolation           the server does not let us publish or subscribe there: it was not done
    ├── BadMessage                    a message that no server takes: it was not sent
    │   └── MessageTooLarge           more bytes than this server takes
    ├── SlowConsumer                  messages came faster than they were taken, and some are lost
    └── BadLinkOptions                options that contradict each other: nothing was tried

Texts name the server and the cause, and never a secret.
"""

from functools import cache

from millstream.base.errors import MillstreamError
from millstream.jsapi.errors import Err


class LinkError(MillstreamError):
    """The root of what this package raises."""


class BadLinkOptions(LinkError):
    """Options that contradict each other, or a file that is not what it should be."""


class BadMessage(LinkError):
    """A subject or a header that no server takes."""


class MessageTooLarge(BadMessage):
    """More bytes than the server takes in one message."""


class NotConnected(LinkError):
    """There is no connection, or no longer one."""


class ConnectionLost(NotConnected):
    """The connection broke before the answer came."""


class AuthorizationViolation(NotConnected):
    """The server was reached and refused the credentials; `said` is the server's text."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said


class TlsFailure(NotConnected):
    """The TLS handshake failed, or one side wants TLS and the other does not: trying again does not help."""


class ProtocolViolation(LinkError):
    """The other side sent what no NATS server sends, or more than we take."""


class RequestTimeout(LinkError):
    """Nobody answered in time."""


class NoResponders(LinkError):
    """Nobody listens on that subject."""


class JetStreamOff(NoResponders):
    """Nobody answers requests of the JetStream API; the text says what to do."""


class PermissionViolation(LinkError):
    """These credentials may not use that subject."""


class SlowConsumer(LinkError):
    """A subscription was ended because its reader did not keep up."""


class LinkApiError(LinkError):
    """JetStream refused a request.

    `code` is like a status of HTTP, `err_code` is JetStream's own number, and `err` is its entry in
    `millstream.jsapi.errors.Err`, or None for a number that the table does not have.
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
        """Return whether the same request may succeed later: the server, not the request, has a problem."""
        return self.code >= 500 or self.code == 429


@cache
def _by_number() -> dict[int, Err]:
    return {err.value[1]: err for err in Err}


def summary(failures: list[LinkError]) -> LinkError:
    """One error that tells what each server said; refused credentials are the kind that matters most."""
    text = "; ".join(dict.fromkeys(map(str, failures))) or "no server is known"
    for error in failures:
        if isinstance(error, AuthorizationViolation):
            return AuthorizationViolation(text, error.said)
    for kind in (BadLinkOptions, TlsFailure):
        if failures and all(isinstance(error, kind) for error in failures):
            return kind(text)
    return NotConnected(text)
