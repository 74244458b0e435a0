"""The errors of the client.

    ClientError
    ├── BadOptions                the arguments of `connect` are invalid: nothing was tried
    ├── CredentialsRefused        a server was reached and refused the credentials
    ├── OrderedConfigError        an ordered consumer cannot have this configuration
    ├── RequestRefused            the server answered with an error
    │   └── StreamNotFound
    ├── NoStream                  no stream captures the subject of a message
    ├── StreamChanged             the stream is not the one that was read, or lost what was read
    ├── GroupError                consumer groups
    │   ├── BadGroup              a name or configuration is invalid
    │   ├── GroupNotFound
    │   ├── GroupExists           with another configuration
    │   ├── GroupChanged          while its configuration was edited, or in a way that ends its members
    │   ├── NotAMember
    │   └── AckLost               the message was given to somebody else
    ├── ServerUnavailable         no answer; a later try may succeed
    └── ClientClosed              the connection or the consumer is closed

Calls that a program makes on its own nats-py connection raise nats-py's errors.
"""

from enum import Enum
from typing import Self

from millstream.base.errors import MillstreamError
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError


class ClientError(MillstreamError):
    """The base of all errors of the client."""


class BadOptions(ClientError):
    """Raised for an address or a credentials file that cannot be used."""


class CredentialsRefused(ClientError):
    """Raised when the server refuses the credentials, or requires some and got none."""


class Check(Enum):
    """The checks of an ordered consumer's configuration; the value is the message for people."""

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
    """Raised when the configuration fails a check; `field` is the field at fault."""

    def __init__(self, check: Check, field: str, detail: str = "") -> None:
        self.check = check
        self.field = field
        super().__init__(f"{field}: {detail or check.value}")


class RequestRefused(ClientError):
    """Raised when the server returns an error; the numbers are those of `millstream.jsapi.errors.Err`."""

    def __init__(self, status: int, code: int, description: str, text: str = "") -> None:
        self.status = status
        self.code = code
        self.description = description  # the server's description
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
        """Return whether the same request may succeed later: the fault is the server's, not the request's."""
        return self.status >= 500 or self.err is Err.MAXIMUM_CONSUMERS_REACHED


class StreamNotFound(RequestRefused):
    """Raised when the stream does not exist, or no longer exists."""


class NoStream(ClientError):
    """Raised when no stream captures a subject."""


class StreamChanged(ClientError):
    """Raised when the stream was recreated or lost its newest messages, so it differs from what was read."""

    @classmethod
    def replaced(cls, stream: str) -> Self:
        return cls(f"stream {stream} was deleted and made anew while it was read")

    @classmethod
    def went_back(cls, stream: str, last: int, seen: int) -> Self:
        return cls(f"stream {stream} ends at {last}, but message {seen} was already read: it lost messages")


class GroupError(ClientError):
    """The base of the errors of consumer groups."""


class BadGroup(GroupError):
    """Raised when the name or the configuration of a group is invalid."""


class GroupNotFound(GroupError):
    """Raised when the group does not exist."""


class GroupExists(GroupError):
    """Raised when a group of this name has another configuration."""


class GroupChanged(GroupError):
    """Raised when another program changed the configuration, and this call or member cannot continue."""


class NotAMember(GroupError):
    """Raised when the member does not belong to a static group."""


class AckLost(GroupError):
    """Raised when an ack reaches no consumer: the partition has moved, so the message is delivered again."""


class ServerUnavailable(ClientError):
    """Raised when no answer comes, or the server has no JetStream."""


class ClientClosed(ClientError):
    """Raised when the connection or the consumer is closed."""
