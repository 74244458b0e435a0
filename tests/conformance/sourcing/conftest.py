"""Scenarios about mirrors and sources: each in an account of its own, each compared with its recording."""

import itertools
from collections.abc import Callable

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, login
from tests.kits.conformance.sourcing import ACCOUNTS, Scene, config_text
from tests.kits.reference import ServerProcess

_next_account = itertools.count()


@pytest.fixture
def open_scene(join: Dial, lines: list[str]) -> Callable[..., Scene]:
    """`open_scene(server, user)` joins an account; all clients of a test share the transcript."""

    def open_one(server: ServerProcess, user: str = "") -> Scene:
        wire = login(join, server, user) if user else join(server)
        return Scene(wire, lines)

    return open_one


@pytest.fixture
def js(shared_server: ServerFactory, open_scene: Callable[..., Scene]) -> Scene:
    """A client in an account that no other test of this run has used."""
    server = shared_server(config=config_text(), jetstream=True)
    return open_scene(server, f"a{next(_next_account) % ACCOUNTS}")
