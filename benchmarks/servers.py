"""Starting the two servers of a comparison and saying exactly which they are."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.wire import Address
from benchmarks.workloads import Target
from tests.kits.reference import Checkout, Server, ServerKind, ServerProcess, inherited_environment


@contextmanager
def running(kind: Server) -> Iterator[Target]:
    """A fresh server with default settings on a port of its own."""
    with ServerProcess(kind) as server:
        yield Target(Address(server.host, server.port), server.pid)


@contextmanager
def streaming(kind: Server, setting: str = "") -> Iterator[Target]:
    """A fresh server with JetStream, its files in a folder of its own."""
    config = f"jetstream {{ {setting} }}\n" if setting else None
    with ServerProcess(kind, jetstream=True, config=config) as server:
        yield Target(Address(server.host, server.port), server.pid)


def named(text: str) -> Server:
    """Return the server of a command line: a kind, or a folder with another version of Millstream.

    Raises ValueError if `text` is neither, or if the modules of the folder are not compiled.
    """
    if text in list(ServerKind):
        return ServerKind(text)
    root = Path(text).resolve()
    if not (root / "src" / "millstream").is_dir():
        raise ValueError(f"{text} is not {' or '.join(ServerKind)}, and not a checkout of Millstream")
    if not any((root / "src" / "millstream" / "protocol").glob("*.so")):
        raise ValueError(f"{text} has no compiled modules; run `make build` there")
    return Checkout(root)


def identity(server: Server) -> str:
    """Return the name, version and build of a server."""
    if server is ServerKind.NATS_SERVER:
        with running(server) as target:
            return f"nats-server {_announced_version(target.address)}"
    program = "import millstream; print(f'millstream {millstream.__version__} ({millstream.BUILD})')"
    environment = server.environment if isinstance(server, Checkout) else {}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=inherited_environment() | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return f"{answer.stdout.strip()} of {server}" if environment else answer.stdout.strip()


def _announced_version(address: Address) -> str:
    place = (address.host, address.port)
    with socket.create_connection(place, timeout=10) as connection, connection.makefile("rb") as lines:
        info = lines.readline()
    return str(json.loads(info.removeprefix(b"INFO "))["version"])
