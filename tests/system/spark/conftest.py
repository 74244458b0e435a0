"""A server with streams for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.spark.connections import close_idle_links
from millstream.testing.reference import ServerKind, ServerProcess
from tests.kits.spark.source import Lab


@pytest.fixture(autouse=True)
def _no_links_left() -> Iterator[None]:
    """What a worker of Spark keeps for its next task must not outlive a test."""
    yield
    close_idle_links()


@pytest.fixture
def lab(shared_server: Callable[..., ServerProcess]) -> Iterator[Lab]:
    """Streams on a server that others use too."""
    lab = Lab(shared_server(jetstream=True))
    yield lab
    lab.close()


@pytest.fixture
def millstream_lab(_server_pool: Any) -> Iterator[Lab]:
    """The same on Millstream alone, for what does not depend on the server."""
    lab = Lab(_server_pool.get(ServerKind.MILLSTREAM, jetstream=True))
    yield lab
    lab.close()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
