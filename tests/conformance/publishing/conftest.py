"""Scenarios about publishing: each in an account of its own, each compared with its recording."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, login
from tests.kits.conformance.publishing import ACCOUNTS, Scenario, config_text
from tests.kits.reference import ServerProcess

_next_account = itertools.count()


@pytest.fixture
def open_scenario(join: Dial, lines: list[str]) -> Callable[..., Scenario]:
    """`open_scenario(server, user)` joins an account; all scenarios of a test share the transcript."""

    def open_one(server: ServerProcess, user: str, **options: Any) -> Scenario:
        return Scenario(login(join, server, user, **options), lines)

    return open_one


@pytest.fixture
def js(shared_server: ServerFactory, open_scenario: Callable[..., Scenario]) -> Scenario:
    """A client of a fresh account on a server with plenty of everything."""
    server = shared_server(config=config_text(), jetstream=True)
    return open_scenario(server, f"a{next(_next_account) % ACCOUNTS}")


@pytest.fixture
def account() -> str:
    """An account that no other test of this run has used."""
    return f"a{next(_next_account) % ACCOUNTS}"
