"""Servers of both kinds for the whole session, and names that no two tests share."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.testing.reference import ServerKind, ServerProcess

sys.path.append(str(Path(__file__).parent.parent / "client"))  # cluster_kit

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """Of a stream that nobody has used; its subjects are `<name>.>`."""
    return f"MOVED{next(_numbers)}"


@pytest.fixture(scope="session")
def both_servers() -> Iterator[dict[ServerKind, ServerProcess]]:
    servers = {kind: ServerProcess(kind, jetstream=True) for kind in ServerKind}
    for server in servers.values():
        server.start()
    yield servers
    for server in servers.values():
        server.close()
