"""What every test may use: servers of either kind, and a watch on the event loop.

`--server` chooses the kinds a conformance test runs on; by default it runs on both.  Starting a server
costs far more than a test, so tests that do not alter their server share one for each configuration, and
all tests that need a Spark session share one, in one worker.
"""

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from millstream.base.build import pure_requested
from millstream.testing.nursery import Nursery
from millstream.testing.reference import ServerKind, ServerProcess, inherited_environment

_IDLE_SERVERS_KEPT = 12
_CONFORMANCE = Path(__file__).parent / "compat"  # where nothing but the server is under test

ServerFactory = Callable[..., ServerProcess]

# How long one example takes says more about what else the machine does than about the code.
hypothesis.settings.register_profile("millstream", deadline=None)
hypothesis.settings.load_profile("millstream")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=[*ServerKind, "both"],
        default="both",
        help="which server the conformance tests run on",
    )
    parser.addoption(
        "--record-shapes",
        action="store_true",
        help="record the shapes of nats-server's JSON documents instead of comparing with them",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server_kind" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--server")
        kinds = list(ServerKind) if chosen == "both" else [ServerKind(chosen)]
        # Session scope makes pytest group the tests by kind, so that shared servers are really shared.
        metafunc.parametrize("server_kind", kinds, ids=str, scope="session")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say what our marks mean, and begin with the longest chain: what needs the Spark session."""
    for item in items:
        if _wants_spark(item):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("patient") and _is_on_reference(item):
            item.add_marker(pytest.mark.soak)
        if _CONFORMANCE in item.path.parents and _is_on_reference(item):
            # nats-server has races of its own, which are not ours to mend.  Ours has to pass at once.
            item.add_marker(pytest.mark.flaky(reruns=2))
        if item.get_closest_marker("compiled") and pure_requested():
            item.add_marker(pytest.mark.skip("the interpreter would take too long"))
    items.sort(key=lambda item: not _wants_spark(item))


def pytest_collection_finish() -> None:
    """Thousands of tests and their modules are most of what the collector would look at, again and again."""
    gc.collect()
    gc.freeze()


def _wants_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def _is_on_reference(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and ServerKind.NATS_SERVER in call.params.values()


class ServerPool:
    """Running servers by what they were started with; the ones unused for longest are stopped."""

    def __init__(self) -> None:
        self._servers: dict[tuple[object, ...], ServerProcess] = {}

    def get(self, kind: ServerKind, *arguments: str, **options: Any) -> ServerProcess:
        key = (kind, arguments, *sorted(options.items()))
        server = self._servers.pop(key, None)
        if server is not None and not server.running:
            server.close()
            server = None
        if server is None:
            server = ServerProcess(kind, *arguments, **options).start()
        self._servers[key] = server
        return server

    def trim(self, keep: int) -> None:
        while len(self._servers) > keep:
            self._servers.pop(next(iter(self._servers))).close()


@pytest.fixture(scope="session", autouse=True)
def _nursery() -> Iterator[None]:
    """Servers of ours are forked from one that has imported everything: hundreds are started."""
    ServerProcess.nursery = Nursery(inherited_environment())
    yield
    ServerProcess.nursery.close()
    ServerProcess.nursery = None


@pytest.fixture(scope="session")
def _server_pool(_nursery: None) -> Iterator[ServerPool]:
    pool = ServerPool()
    yield pool
    pool.trim(keep=0)


@pytest.fixture
def shared_server(server_kind: ServerKind, _server_pool: ServerPool) -> Iterator[ServerFactory]:
    """Call it as ServerProcess, without the kind.  Others use the same server: leave it as it was."""
    used: dict[ServerProcess, int] = {}

    def get(*arguments: str, **options: Any) -> ServerProcess:
        server = _server_pool.get(server_kind, *arguments, **options)
        used.setdefault(server, server.log_position)
        return server

    yield get
    for server, position in used.items():
        _fail_if_broken(server, position, must_run=True)
    _server_pool.trim(_IDLE_SERVERS_KEPT)


@pytest.fixture
def own_server(server_kind: ServerKind) -> Iterator[ServerFactory]:
    """Call it as ServerProcess, without the kind.  The server is this test's to reload, stop or kill."""
    started: list[ServerProcess] = []

    def start(*arguments: str, **options: Any) -> ServerProcess:
        server = ServerProcess(server_kind, *arguments, **options)
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.close()
    for server in started:
        _fail_if_broken(server, 0, must_run=False)


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    """A shared server without any configuration, with monitoring."""
    return shared_server(monitor=True)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The Spark session of this process, with the settings of a pipeline; started when first asked for."""
    from pyspark.sql import SparkSession

    from millstream.spark.jobs.settings import Pipeline
    from millstream.spark.pipeline.session import session_settings

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers would use any python3
    settings = session_settings(Pipeline(job=[]), "local[2]", cores=2) | {
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    session = SparkSession.builder.config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def _fail_if_broken(server: ServerProcess, position: int, *, must_run: bool) -> None:
    """Fail the test during which a server crashed or met an error that it did not expect."""
    if must_run and not server.running:
        pytest.fail(f"{server.kind} ended during the test; its log:\n{server.log}")
    news = server.log.splitlines()[position:]
    if any(sign in line for line in news for sign in ("Traceback (most recent call last)", "panic:")):
        pytest.fail(f"{server.kind} met an unexpected error:\n" + "\n".join(news))


class _Recorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


@pytest.fixture(autouse=True)
def stray_loop_exceptions() -> Iterator[list[str]]:
    """Fail a test that left an exception to the event loop; a test that expects some clears the list.

    Both asyncio's and uvloop's default handlers log to `asyncio`, so this sees every loop.
    """
    recorder = _Recorder()
    logger = logging.getLogger("asyncio")
    logger.addHandler(recorder)
    try:
        yield recorder.texts
    finally:
        logger.removeHandler(recorder)
    if recorder.texts:
        pytest.fail("exceptions reached the event loop:\n" + "\n".join(recorder.texts))
