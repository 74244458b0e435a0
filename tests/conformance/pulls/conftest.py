"""Scenarios about pull requests: each on a stream of its own."""

import itertools

import pytest
from compat_kit import Dial, ServerFactory
from pull_scene import PullScene

_numbers = itertools.count(1)


@pytest.fixture
def scene(shared_server: ServerFactory, join: Dial) -> PullScene:
    """A client with a new, empty stream."""
    server = shared_server(jetstream=True)
    return PullScene(join(server), f"S{next(_numbers)}")
