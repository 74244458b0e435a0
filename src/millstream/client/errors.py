"""What can go wrong for a user of the client.

    ClientError
    ├── BadOptions                what `connect` was given can not be used: nothing was tried
    ├── CredentialsRefused        a server was reached, and did not let us in
    ├── OrderedConfigError        the configuration asks for what an ordered consumer can not be
    ├── RequestRefused            the server answered with an error
    │   └── StreamNotFound
    ├── NoStream                  no stream takes the subject of a message
    ├── StreamChanged             the stream is not the one that was read, or lost what was read
    ├── ServerUnavailable         no answer; trying again may help
    └── ClientClosed              the connection or the consumer is closed

Not here: errors of nats-py on calls that users make on its connection themselves.
"""

from enum import Enum
from typing import Self

from millstream.base.errors import MillstreamError
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError


class ClientError(MillstreamError):
    """The root of what the client raises."""


class BadOptions(ClientError):
    """An address or a file of credentials that can not be used."""


class CredentialsRefused(ClientError):
    """The server does not take who we say we are, or wants to know and was not told."""


class Check(Enum):
    """What is asked of the configuration of an ordered consumer; the value says it to people."""

    DURABLE_NAME = "an ordered consumer can not be durable"
    DELIVER_SUBJECT = "the deliver subject of an ordered consumer is picked by the client"
    ACK_POLICY = "the ack policy of an ordered consumer is none"
    MAX_DELIVER = "an ordered consumer delivers once: max_deliver is 1"
    FLOW_CONTROL = "an ordered consumer needs flow control"
    MEM_STORAGE = "the state of an ordered consumer is kept in memory"
    NUM_REPLICAS = "an ordered consumer has one replica, which can not be set"
    DELIVER_GROUP = "an ordered consumer can not share its messages with a queue or deliver group"
    BIND = "an ordered consumer can not bind to a consumer by its name; name_prefix is for names"
    DIRECT = "an ordered consumer can not be direct"
    PULL = "an ordered consumer can not be a pull consumer"
    GIVEN_TWICE = "given both as an argument and in the configuration"
    SUBJECT = "this is no subject that messages of a stream can have"
    UNREADABLE = "the configuration can not be read"


class OrderedConfigError(ClientError):
    """The configuration does not pass a check; `field` is what it is about."""

    def __init__(self, check: Check, field: str, detail: str = "") -> None:
        self.check = check
        self.field = field
        super().__init__(f"{field}: {detail or check.value}")


class RequestRefused(ClientError):
    """The server refused; numbers are those of `millstream.jsapi.errors.Err`."""

    def __init__(self, status: int, code: int, description: str, text: str = "") -> None:
        self.status = status
        self.code = code
        self.description = description  # the server's words
        self.err: Err | None = None  # its entry in the table of errors
        super().__init__(f"{text or description} ({code})")

    @classmethod
    def told_by(cls, error: LinkApiError, stream: str, server: str) -> "RequestRefused":
        if error.err is Err.STREAM_NOT_FOUND:
            text = f"there is no stream {stream} on {server}; create it, or check the name"
            kind: type[RequestRefused] = StreamNotFound
        else:
            text = f"stream {stream} on {server}: {error.description}"
            kind = cls
        made = kind(error.code, error.err_code, error.description, text)
        made.err = error.err
        return made

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later: the server, not the request, has a problem."""
        return self.status >= 500 or self.err is Err.MAXIMUM_CONSUMERS_REACHED


class StreamNotFound(RequestRefused):
    """There is no such stream, or none any more."""


class NoStream(ClientError):
    """Nobody stores messages of this subject."""


class StreamChanged(ClientError):
    """What was read is no longer what the stream has: it was made anew, or lost its newest messages."""

    @classmethod
    def replaced(cls, stream: str) -> Self:
        return cls(f"stream {stream} was deleted and made anew while it was read")

    @classmethod
    def went_back(cls, stream: str, last: int, seen: int) -> Self:
        return cls(f"stream {stream} ends at {last}, but message {seen} was already read: it lost messages")


class ServerUnavailable(ClientError):
    """Nobody answered, or JetStream does not run there."""


class ClientClosed(ClientError):
    """The connection, or what it was used for, is closed."""
