"""Millstream: JetStream for Python and Spark.

``Server`` runs a NATS-compatible server inside an asyncio program, ``BlockingServer`` inside any
other; ``millstream serve`` is the same as a process.
"""

from typing import TYPE_CHECKING, Any

from millstream.base import build as _build

BUILD = _build.select()  # before any compiled module is imported

__version__ = "0.1.0"

__all__ = ["BUILD", "BlockingServer", "Server", "__version__"]

if TYPE_CHECKING:
    from millstream.server.blocking import BlockingServer
    from millstream.server.server import Server


def __getattr__(name: str) -> Any:
    """Import the server only where one is wanted: clients and tools need just the rest."""
    if name == "Server":
        from millstream.server.server import Server

        return Server
    if name == "BlockingServer":
        from millstream.server.blocking import BlockingServer

        return BlockingServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
