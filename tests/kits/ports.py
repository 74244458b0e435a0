"""Reserve ports for the servers of a test.

The system may give an unbound port to any process that connects or binds port 0, including the port of a
server that was killed and will be restarted.  So a test binds the ports of its servers itself without
listening on them: the system gives them to nobody else, connections to them are refused, and a server that
sets SO_REUSEADDR, as servers do, can listen on them.
"""

import socket
from typing import Final

_HOST: Final = "127.0.0.1"
_held: Final[list[socket.socket]] = []


def reserve_port() -> socket.socket:
    """Return a socket that reserves a loopback port until it is closed."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((_HOST, 0))
    return holder


def free_ports(count: int) -> list[int]:
    """Return different loopback ports that are reserved until this process ends."""
    holders = [reserve_port() for _ in range(count)]
    _held.extend(holders)
    return [holder.getsockname()[1] for holder in holders]
