"""Millstream: JetStream for Python and Spark.

``Server`` runs a NATS-compatible server inside an asyncio program, ``BlockingServer`` inside any
other; ``millstream serve`` is the same as a process.  ``client`` reads streams of any NATS server,
``table`` gives one to pandas, Polars or pyarrow, and ``sql`` queries them with DuckDB.
"""

import importlib
from typing import TYPE_CHECKING, Any

from millstream.base import build as _build
from millstream.base.version import VERSION

BUILD = _build.select()  # before any compiled module is imported

__version__ = VERSION

__all__ = ["BUILD", "BlockingServer", "Server", "__version__", "client", "sql", "table"]

if TYPE_CHECKING:
    from millstream import client
    from millstream.queries.local import sql
    from millstream.server.blocking_server import BlockingServer
    from millstream.server.server import Server
    from millstream.tables.table import table

_PLACES = {
    "BlockingServer": "millstream.server.blocking_server",
    "Server": "millstream.server.server",
    "sql": "millstream.queries.local",
    "table": "millstream.tables.table",
}


def __getattr__(name: str) -> Any:
    """Import each part only where it is wanted."""
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name == "client":
        return importlib.import_module("millstream.client")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
