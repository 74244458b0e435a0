"""Connections for the conformance tests, closed when the test ends; and transcripts, compared then."""

from collections.abc import Generator, Iterator

import pytest

from tests.kits.conformance.clients import PATIENCE_S, Dial
from tests.kits.conformance.papers import Papers
from tests.kits.recordings.book import Judge
from tests.kits.recordings.shapes import ShapeBook
from tests.kits.recordings.transcripts import compare
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient


@pytest.fixture
def dial() -> Iterator[Dial]:
    """`dial(server)` opens a connection and reads nothing; options as of WireClient.connect."""
    opened: list[WireClient] = []

    def connect(server: ServerProcess | int, **options: object) -> WireClient:
        port = server if isinstance(server, int) else server.port
        client = WireClient.connect(port, **{"timeout_s": PATIENCE_S, **options})  # type: ignore[arg-type]
        opened.append(client)
        return client

    yield connect
    for client in opened:
        client.close()


@pytest.fixture
def join(dial: Dial) -> Dial:
    """`join(server, **connect_options)` opens a connection and does the handshake of a library."""

    def connect(server: ServerProcess | int, **options: object) -> WireClient:
        client = dial(server)
        client.handshake(**options)
        return client

    return connect


@pytest.fixture
def shapes(request: pytest.FixtureRequest) -> ShapeBook:
    """`shapes.check(name, document)` compares keys and types with what nats-server gave."""
    return ShapeBook(Judge(request.node))


@pytest.fixture(scope="session")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers.issue(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def lines() -> list[str]:
    """The transcript of the test, if it keeps one (see `transcripts`)."""
    return []


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Comparing the transcript is the last step of the test."""
    result = yield
    if "lines" in pyfuncitem.funcargs:
        compare(pyfuncitem, pyfuncitem.funcargs["lines"])
    return result
