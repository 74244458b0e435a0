"""Sessions for the tests of the stream API: each test has an account of its own on a shared server."""

from typing import Final

import pytest

from tests.kits.conformance.clients import PATIENT_SERVER, Dial, ServerFactory, login
from tests.kits.conformance.streams import JsWith, OpenSession, Prepare, Session
from tests.kits.reference import ServerKind, ServerProcess

_ACCOUNTS: Final = 150  # of a shared server; a test that comes when all are used gets a new server
_READ_ONLY: Final = 10  # accounts that many tests share, since they only look
_GENERATIONS = dict.fromkeys(ServerKind, 0)
_USED: dict[str, int] = {}
_PREPARED: dict[ServerProcess, dict[Prepare, int]] = {}


def plain_config(generation: int) -> str:
    """A server with much room and an account for each of many tests."""
    names = [f"a{number}" for number in range(_ACCOUNTS)] + [f"r{number}" for number in range(_READ_ONLY)]
    accounts = "\n".join(
        f"{name}: {{jetstream: enabled, users: [{{user: {name}, password: p}}]}}" for name in names
    )
    return (
        f"# {generation}\nserver_name: probe\njetstream: {{max_mem: 1GB, max_file: 4GB}}\n"
        f"{PATIENT_SERVER}accounts: {{\n{accounts}\n}}\n"
    )


@pytest.fixture
def open_session(join: Dial, lines: list[str]) -> OpenSession:
    """`open_session(server, user)` is a session whose transcript belongs to this test."""

    def connect(server: ServerProcess, user: str = "a0", **options: object) -> Session:
        return Session(login(join, server, user, **options), lines)

    return connect


@pytest.fixture
def js(open_session: OpenSession, shared_server: ServerFactory, server_kind: ServerKind) -> Session:
    """A session in an account that nobody has used."""
    generation = _GENERATIONS[server_kind]
    number = _USED.get(f"{server_kind} {generation}", 0)
    if number == _ACCOUNTS:
        generation = _GENERATIONS[server_kind] = generation + 1
        number = 0
    _USED[f"{server_kind} {generation}"] = number + 1
    server = shared_server(config=plain_config(generation), jetstream=True)
    return open_session(server, f"a{number}")


@pytest.fixture
def js_with(open_session: OpenSession, shared_server: ServerFactory) -> JsWith:
    """`js_with(prepare)` is a session in an account that all tests share that have it prepared so."""
    server = shared_server(config=plain_config(0), jetstream=True)

    def connect(prepare: Prepare) -> Session:
        prepared = _PREPARED.setdefault(server, {})
        js = open_session(server, f"r{prepared.setdefault(prepare, len(prepared))}")
        if js.do("STREAM.NAMES")["total"] == 0:
            prepare(js)
        return js

    return connect
