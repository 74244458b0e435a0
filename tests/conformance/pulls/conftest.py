"""Scenarios about pull requests: each on a stream of its own."""

import itertools

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory
from tests.kits.conformance.pulls import PullScene

_numbers = itertools.count(1)


@pytest.fixture
def scene(shared_server: ServerFactory, join: Dial) -> PullScene:
    """A client with a new, empty stream."""
    server = shared_server(jetstream=True)
    return PullScene(join(server), f"S{next(_numbers)}")
