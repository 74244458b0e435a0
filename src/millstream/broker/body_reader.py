"""Read large bodies from a socket straight into the parser's memory.

By default the event loop reads into its own memory and copies each piece, and the parser copies the pieces of
a body again to join them.  For bodies of many KiB this is most of the cost of a connection.  A buffered
protocol is asked first where to read to: into the parser's memory for the rest of the body.  What follows a
body is read in a small piece.  If that begins another large body, this continues; if not, the connection
itself gets its input again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from millstream.broker.connection import Connection

_SMALL: Final = 16 * 1024  # of a body that is missing less, the loop's own reads bring more at a time
_HEAD: Final = 4096  # bytes read behind a body: the next line, and little of its body


class BodyReader(asyncio.BufferedProtocol):
    """The protocol of a connection's transport while large bodies arrive."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._head = bytearray(_HEAD)
        self._in_body = False  # the last buffer was the parser's

    def get_buffer(self, sizehint: int) -> bytearray | memoryview:
        """Return the memory for the next bytes."""
        room = self._connection.room()
        self._in_body = room is not None
        return self._head if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        connection = self._connection
        if self._in_body:
            connection.body_received(nbytes)
            return
        connection.data_received(bytes(memoryview(self._head)[:nbytes]))
        if not (connection.closed or connection.waiting) and connection.parser.wants() < _SMALL:
            connection.reads_bodies = False
            connection.transport.set_protocol(connection)

    def eof_received(self) -> bool:
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()


def read_bodies(connection: Connection) -> None:
    """Read large bodies of a connection straight into the parser from now on."""
    connection.reads_bodies = True
    connection.transport.set_protocol(BodyReader(connection))
