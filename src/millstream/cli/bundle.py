"""Makes the file that `millstream serve` imports from: ``python -m millstream.cli.bundle``.

It is made of what a process has imported that knows all that a server needs, with and without JetStream.
"""

from importlib import import_module
from typing import Final

from millstream.base import bundle
from millstream.cli.main import BUNDLE
from millstream.config.options import ServerOptions
from millstream.jetstream.options import JetStreamOptions
from millstream.server import later

# What `serve` imports where it is used, in the order in which a start comes to it.
_AT_THE_START: Final = (
    "millstream.cli.endings",
    "millstream.cli.serve",
    "millstream.server.app",
    "uvloop",
    "millstream.jetstream.engine",
    "millstream.server.workers",
    "millstream.server.jetstream_world",
    "millstream.server.arrow",
)


def make() -> None:
    """Import all that a server with JetStream imports, and write it down."""
    options = ServerOptions(jetstream=JetStreamOptions(enabled=True))
    for name in (*_AT_THE_START, *later.needed_at_once(options), *later.needed_later(options)):
        import_module(name)
    bundle.write(bundle.path_of(BUNDLE))


if __name__ == "__main__":
    make()
