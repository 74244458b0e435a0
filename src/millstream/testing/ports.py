"""Ports for servers that must be told theirs before they start.

The system gives ports of its ephemeral range to whoever connects or binds port 0, at any time: one that was
found there may be taken before a server comes to it, or while the server is down.  These lie below.
"""

import random
import socket
from contextlib import ExitStack
from typing import Final

_LOWEST: Final = 20_000
_HIGHEST: Final = 32_000  # Linux gives away 32768 and above by itself
# Tests set the seed of the common generator, and two processes with one seed would want the same ports.
_choice: Final = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Different ports on loopback that nobody listens on."""
    ports: list[int] = []
    with ExitStack() as held:  # all of them until the last is found, so that none comes twice
        while len(ports) < count:
            candidate = held.enter_context(socket.socket())
            port = _choice.randint(_LOWEST, _HIGHEST)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:  # somebody has it
                continue
            ports.append(port)
    return ports
