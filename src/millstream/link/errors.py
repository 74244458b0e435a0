"""What can go wrong on the wire.

    WireError
    ├── NotConnected              no server could be reached, or the connection broke
    │   └── AuthorizationViolation    a server was reached and did not let us in
    ├── ProtocolViolation         the other side does not speak NATS as it should
    ├── RequestTimeout            no answer in time: whether it was done is unknown
    ├── NoResponders              nobody listens: it was certainly not done
    ├── ApiRefused                JetStream answered with an error
    ├── PermissionViolation       the server does not let us publish there: it was not done
    ├── BadMessage                a message that no server takes: it was not sent
    └── BadOptions                what was asked for can not be: nothing was tried

Texts name the server and the cause, and never a secret.
"""

from millstream.base.errors import MillstreamError


class WireError(MillstreamError):
    """The root of what this package raises."""


class BadOptions(WireError):
    """Options that contradict each other, or a file that is not what it should be."""


class BadMessage(WireError):
    """A subject that is none, or more bytes than the server takes."""


class NotConnected(WireError):
    """There is no connection, or no longer one."""


class AuthorizationViolation(NotConnected):
    """The server was reached, but the credentials did not please it; `said` is what it said."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said


class ProtocolViolation(WireError):
    """The other side sent what no NATS server sends, or more than we take."""


class RequestTimeout(WireError):
    """Nobody answered in time."""


class NoResponders(WireError):
    """Nobody listens on that subject."""


class PermissionViolation(WireError):
    """These credentials may not publish to that subject."""


class ApiRefused(WireError):
    """JetStream refused; `err_code` is one of `millstream.jsapi.errors.Err`."""

    def __init__(self, code: int, err_code: int, description: str, context: str = "") -> None:
        self.code = code
        self.err_code = err_code
        self.description = description
        self.context = context
        what = f"{context}: " if context else ""
        super().__init__(f"{what}{description} ({err_code or code})")

    def __reduce__(self) -> tuple[type["ApiRefused"], tuple[int, int, str, str]]:
        return type(self), (self.code, self.err_code, self.description, self.context)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later: the server, not the request, has a problem."""
        return self.code >= 500 or self.code == 429
