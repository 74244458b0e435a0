"""Sessions for the tests of the stream API: each test has an account of its own on a shared server."""

import re
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import pytest
from compat_kit import PATIENT_LOGIN, Dial, ServerFactory, login
from stream_session import JsWith, OpenSession, Prepare, Recordings, Session, Transcript

from millstream.testing.reference import ServerKind, ServerProcess

_COMPARE: Final = pytest.StashKey[Callable[[], None]]()

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
        f"{PATIENT_LOGIN}accounts: {{\n{accounts}\n}}\n"
    )


@pytest.fixture(scope="session")
def recordings(request: pytest.FixtureRequest) -> Iterator[Recordings]:
    found = Recordings(record=request.config.getoption("--record-shapes"))
    yield found
    found.save()


@pytest.fixture
def open_session(
    request: pytest.FixtureRequest, server_kind: ServerKind, join: Dial, recordings: Recordings
) -> OpenSession:
    """`open_session(server, user)` is a session whose transcript belongs to this test."""
    if request.config.getoption("--record-shapes") and server_kind is not ServerKind.NATS_SERVER:
        pytest.skip("recordings are taken from nats-server")
    case = re.sub(rf"\[{server_kind}-?|\]$", " ", request.node.name).strip()
    transcript: Transcript = []
    request.node.stash[_COMPARE] = lambda: recordings.compare(f"{request.path.stem}::{case}", transcript)

    def connect(server: ServerProcess, user: str = "a0", **options: object) -> Session:
        return Session(login(join, server, user, **options), transcript)

    return connect


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """A test that came to its end has a transcript; comparing it is the last step of every test."""
    outcome = yield
    if _COMPARE in pyfuncitem.stash:
        pyfuncitem.stash[_COMPARE]()
    return outcome


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
