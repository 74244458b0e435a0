"""Deliver long messages of the server itself without copying them.

Documents of monitoring and answers of JetStream may have tens of megabytes.  Copying one takes milliseconds,
in which nobody else is served, so a TCP transport gets their parts as they are.  Any other receiver gets a
message like all others (``Broker.publish``).
"""

from __future__ import annotations

from typing import Final

from millstream.broker.connection import Connection
from millstream.broker.router import SubjectSpace

LONG: Final = 256 * 1024  # bytes; shorter messages are copied


def deliver(
    space: SubjectSpace, subject: bytes, reply: bytes, block: bytes | None, parts: list[bytes], size: int
) -> int:
    """Deliver `parts` of `size` bytes; return the number of receivers, or -1 if one needs a copy."""
    route = space.route(subject)
    if route.queues or route.groups or route.special:
        return -1
    for target in route.plain:
        if not (isinstance(target.owner, Connection) and target.owner.takes_parts()):
            return -1
    taken = 0
    for target in route.plain:
        connection = target.owner
        assert isinstance(connection, Connection)
        taken += connection.deliver_parts(target, reply, block or b"", parts, size)
    return taken
