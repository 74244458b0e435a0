"""Ports that are kept for the servers of a test.

The system gives a port that nobody has bound to whoever connects or binds port 0: also the port of a server
that was killed, before it is started again.  So a test binds the ports of its servers itself and does not
listen on them: the system gives them to nobody else, connections to them are refused, and a server that sets
SO_REUSEADDR, as servers do, can listen on them.
"""

import socket
from typing import Final

_HOST: Final = "127.0.0.1"
_held: Final[list[socket.socket]] = []


def reserve_port() -> socket.socket:
    """Return a socket that keeps a port of loopback until it is closed."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((_HOST, 0))
    return holder


def free_ports(count: int) -> list[int]:
    """Return different ports of loopback that are kept until this process ends."""
    holders = [reserve_port() for _ in range(count)]
    _held.extend(holders)
    return [holder.getsockname()[1] for holder in holders]
