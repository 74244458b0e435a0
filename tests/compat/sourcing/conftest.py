"""Scenarios about mirrors and sources: each in an account of its own, each compared with its recording."""

import difflib
import itertools
from collections.abc import Callable, Generator

import pytest
from compat_kit import Dial, ServerFactory, login
from sourcing_kit import ACCOUNTS, Recording, Scene, config_text

from millrace.testing.reference import ServerKind, ServerProcess

_next_account = itertools.count()


@pytest.fixture
def lines() -> list[str]:
    """The transcript."""
    return []


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
    kind: ServerKind = item.funcargs["server_kind"]
    name = item.name.replace(f"{kind}-", "").replace(f"-{kind}", "").replace(f"[{kind}]", "")
    if item.config.getoption("--record-shapes"):
        if kind is ServerKind.NATS_SERVER:
            recording.keep(name, lines)
        return
    expected = recording.of(name)
    assert expected is not None, f"{name} was never recorded"
    differences = difflib.unified_diff(expected, lines, "recorded", "now", lineterm="", n=3)
    assert lines == expected, "\n" + "\n".join(differences)
