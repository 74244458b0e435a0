"""Events of the broker for others; the broker does not know who observes."""

from typing import TYPE_CHECKING

from millstream.broker.close_reason import CloseReason

if TYPE_CHECKING:
    from millstream.broker.accounts import Account
    from millstream.broker.connection import Connection
    from millstream.broker.leaf.connection import LeafConnection
    from millstream.broker.message_trace import MessageTrace


class Observer:
    """Ignores all events; override the methods of interest."""

    def client_connected(self, connection: "Connection") -> None:
        """A client was admitted to its account."""

    def client_moved(self, connection: "Connection", previous: "Account") -> None:
        """A second CONNECT is about to admit a client to another account than before."""

    def client_disconnected(self, connection: "Connection", reason: CloseReason) -> None:
        """A connection ended, admitted or not."""

    def authentication_failed(self, connection: "Connection") -> None:
        """Credentials were refused; the connection is about to be closed."""

    def publish_refused(self, connection: "Connection", subject: bytes) -> None:
        """A publish violated the client's permissions."""

    def link_ready(self, link: "LeafConnection") -> None:
        """A link to another server has joined its account."""

    def link_ended(self, link: "LeafConnection", reason: CloseReason) -> None:
        """A link that was ready has ended."""

    def message_traced(self, account: "Account", dest: bytes, trace: "MessageTrace") -> None:
        """A trace is to be sent to `dest`."""
