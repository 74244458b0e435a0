"""Scenarios about publishing: each in an account of its own, each compared with its recording."""

import difflib
import itertools
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from compat_kit import Dial, ServerFactory, login
from publishing_kit import ACCOUNTS, Recording, Scenario, config_text

from millrace.testing.reference import ServerKind, ServerProcess

_next_account = itertools.count()


@pytest.fixture
def lines() -> list[str]:
    """The transcript."""
    return []


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


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Hold what a test has written down against the recording, as a part of the test."""
    result = yield
    written = pyfuncitem.funcargs.get("lines")
    if isinstance(written, list):
        _compare(pyfuncitem, written)
    return result


def _compare(item: pytest.Function, lines: list[str]) -> None:
    recording = Recording(item.path.stem)
    if item.config.getoption("--record-shapes"):
        if item.funcargs["server_kind"] is ServerKind.NATS_SERVER:
            recording.keep(item.originalname, lines)
        return
    expected = recording.of(item.originalname)
    assert expected is not None, f"{item.originalname} was never recorded"
    assert lines == expected, "\n" + "\n".join(_differences(expected, lines))


def _differences(expected: list[str], lines: list[str]) -> Iterator[str]:
    return difflib.unified_diff(expected, lines, "recorded", "now", lineterm="", n=2)
