"""Millstream: JetStream for Python and Spark.

``Server`` runs a NATS-compatible server inside an asyncio program, ``BlockingServer`` inside any
other; ``millstream serve`` is the same as a process.  ``client`` reads streams of any NATS server.
"""

import importlib
from typing import TYPE_CHECKING, Any

from millstream.base import build as _build

BUILD = _build.select()  # before any compiled module is imported

__version__ = "0.1.0"

__all__ = ["BUILD", "BlockingServer", "Server", "__version__", "client"]

if TYPE_CHECKING:
    from millstream import client
    from millstream.server.blocking_server import BlockingServer
    from millstream.server.server import Server

_PLACES = {"BlockingServer": "millstream.server.blocking_server", "Server": "millstream.server.server"}


def __getattr__(name: str) -> Any:
    """Import the server and the client only where they are wanted."""
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name == "client":
        return importlib.import_module("millstream.client")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
