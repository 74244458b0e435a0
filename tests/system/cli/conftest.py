"""The command line on a shared server with JetStream, and names that no two tests share."""

import itertools

import pytest

from tests.conftest import ServerFactory
from tests.kits.cli import Cli

_numbers = itertools.count(1)


@pytest.fixture
def url(shared_server: ServerFactory) -> str:
    """The address of a server with JetStream."""
    return shared_server(jetstream=True).client_url


@pytest.fixture
def cli(url: str) -> Cli:
    return Cli(url)


@pytest.fixture
def name() -> str:
    """Return the name of a stream or bucket that does not exist yet; its subjects are `<name>.>`."""
    return f"CLI{next(_numbers)}"
