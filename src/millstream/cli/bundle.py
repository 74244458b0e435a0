"""Makes the file that `millstream serve` imports from: ``python -m millstream.cli.bundle``.

The file has all modules that a server imports, with and without JetStream.
"""

from importlib import import_module
from typing import Final

from millstream.base import bundle
from millstream.cli.main import BUNDLE
from millstream.config.options import ServerOptions
from millstream.jetstream.options import JetStreamOptions
from millstream.server import later

# Modules that `serve` imports late, in the order of a start.
_AT_THE_START: Final = (
    "millstream.cli.endings",
    "millstream.cli.serve",
    "millstream.server.app",
    "uvloop",
    "millstream.jetstream.engine",
    "millstream.server.workers",
    "millstream.server.jetstream_world",
    "millstream.server.arrow",
    "millstream.server.monitor.endpoint",
    "millstream.server.monitor.routes",
)


def make() -> None:
    """Import all modules of a server with JetStream, and write the file."""
    options = ServerOptions(jetstream=JetStreamOptions(enabled=True))
    for name in (*_AT_THE_START, *later.needed_at_once(options), *later.needed_later(options)):
        import_module(name)
    bundle.write(bundle.path_of(BUNDLE))


if __name__ == "__main__":
    make()
