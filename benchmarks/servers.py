"""Starting the two servers of a comparison and saying exactly which they are."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import millstream
from benchmarks.wire import Address
from benchmarks.workloads import Target
from tests.kits.reference import ServerKind, ServerProcess


@contextmanager
def running(kind: ServerKind) -> Iterator[Target]:
    """A fresh server with default settings on a port of its own."""
    with ServerProcess(kind) as server:
        yield Target(Address(server.host, server.port), server.pid)


@contextmanager
def streaming(kind: ServerKind, setting: str = "") -> Iterator[Target]:
    """A fresh server with JetStream, its files in a folder of its own."""
    config = f"jetstream {{ {setting} }}\n" if setting else None
    with ServerProcess(kind, jetstream=True, config=config) as server:
        yield Target(Address(server.host, server.port), server.pid)


def identity(kind: ServerKind) -> str:
    """Name, version and build of what `kind` starts."""
    if kind is ServerKind.MILLSTREAM:
        return f"millstream {millstream.__version__} ({millstream.BUILD})"
    with running(kind) as target:
        return f"nats-server {_announced_version(target.address)}"


def _announced_version(address: Address) -> str:
    place = (address.host, address.port)
    with socket.create_connection(place, timeout=10) as connection, connection.makefile("rb") as lines:
        info = lines.readline()
    return str(json.loads(info.removeprefix(b"INFO "))["version"])
