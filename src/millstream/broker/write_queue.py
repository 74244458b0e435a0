"""Write to thousands of connections in slices.

A write takes ten times as long as a delivery, because it is a call of the system.  So when one step has
written for a millisecond, ``Tick.flush`` puts off the output of all other connections and leaves them to a
queue.  Whatever else is sent to such a connection is written behind that output, and at once.

The client that sent the messages is not read from until the queue is empty.  So no connection has more output
that was put off than one step delivers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces

if TYPE_CHECKING:
    from millstream.broker.connection import Connection

_PIECE: Final = 16


class WriteQueue:
    """Connections whose output was put off, and the sender that waits for them."""

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections
        self._sender: Connection | None = None

    def hold(self, sender: Connection) -> None:
        """Read nothing from the sender until everything is written."""
        self._sender = sender
        sender.hold()

    def write(self) -> Pieces[None]:
        for start in range(0, len(self._connections), _PIECE):
            for connection in self._connections[start : start + _PIECE]:
                connection.catch_up()
            yield _PIECE
        if self._sender is not None:
            self._sender.let_go()
