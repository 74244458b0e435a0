"""Fixtures for every test: servers of either kind, and a watch on the event loop.

Tests run on Millstream, and no nats-server is started.  What needs one is marked `oracle`: a conformance test
whose parameters name it, and a test that says so itself.  `--server nats-server` runs these and no others,
`--record` keeps what nats-server said.

Starting a server costs far more than a test, so tests that do not alter their server share one for each
configuration, and all tests that need a Spark session share one, in one worker.
"""

import gc
import logging
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest

from millstream.base.budget import BUDGET
from millstream.base.build import pure_requested
from tests.kits import reference
from tests.kits.nursery import Nursery
from tests.kits.patience import let_nats_py_wait
from tests.kits.reference import (
    ServerKind,
    ServerProcess,
    ServerProcessError,
    inherited_environment,
)
from tests.kits.spark import short_jvm

_IDLE_SERVERS_KEPT = 12
RERUNS_OF_REFERENCE = 2

ServerFactory = Callable[..., ServerProcess]

_SERVERS = pytest.StashKey[
    dict[ServerProcess, int]
]()  # those a test shares, and where their log was before it
_LINES_SHOWN = 40

# The NATS context that whoever runs the tests has selected is none of theirs.
os.environ["XDG_CONFIG_HOME"] = str(Path(__file__).parent / "no_contexts")

# How long examples take says more about what else the machine does than about the code.
_UNHURRIED = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# The same examples every time: `make soak` looks for new ones.
hypothesis.settings.register_profile("millstream", _UNHURRIED, derandomize=True)
hypothesis.settings.register_profile("explore", _UNHURRIED)
# The same code is tried with all examples where it is compiled.
hypothesis.settings.register_profile("interpreted", _UNHURRIED, derandomize=True, max_examples=20)
hypothesis.settings.load_profile("interpreted" if pure_requested() else "millstream")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=[*ServerKind, "both"],
        default=ServerKind.MILLSTREAM,
        help="run the tests of our software, those that need nats-server, or both",
    )
    parser.addoption(
        "--record",
        action="store_true",
        help="keep what nats-server answers as the recordings that Millstream is compared with",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record") and config.getoption("--server") != ServerKind.NATS_SERVER:
        raise pytest.UsageError("--record goes with --server nats-server")


def pytest_sessionstart() -> None:
    let_nats_py_wait()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server_kind" in metafunc.fixturenames:
        # Session scope makes pytest group the tests by kind, so that shared servers are really shared.
        metafunc.parametrize("server_kind", _chosen_kinds(metafunc.config), ids=str, scope="session")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at marks, and xdist at groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say what our marks mean, leave out what was not asked for, and begin with the longest chain: Spark."""
    kinds = _chosen_kinds(config)
    left_out: list[pytest.Item] = []
    for item in items:
        if _names_reference(item):
            item.add_marker(pytest.mark.oracle)
        if item.get_closest_marker("oracle"):
            # nats-server has races of its own, which are not ours to mend.  Ours has to pass at once.
            item.add_marker(pytest.mark.flaky(reruns=RERUNS_OF_REFERENCE))
        if _kind_of(item) not in kinds:
            left_out.append(item)
        if _wants_spark(item):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("compiled") and pure_requested():
            item.add_marker(pytest.mark.skip("the interpreter would take too long"))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    items[:] = sorted(
        (item for item in items if _kind_of(item) in kinds), key=lambda item: not _wants_spark(item)
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from looking at thousands of tests and their modules again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the shared servers of the test have logged meanwhile."""
    report = yield
    if report.when == "call" and report.failed:
        for server, position in item.stash.get(_SERVERS, {}).items():
            report.sections.append(
                (f"log of {server}", "\n".join(server.log.splitlines()[position:][-_LINES_SHOWN:]))
            )
    return report


def _wants_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def _chosen_kinds(config: pytest.Config) -> list[ServerKind]:
    chosen = config.getoption("--server")
    return list(ServerKind) if chosen == "both" else [ServerKind(chosen)]


def _kind_of(item: pytest.Item) -> ServerKind:
    """The kind of run that an item belongs to."""
    return ServerKind.NATS_SERVER if item.get_closest_marker("oracle") else ServerKind.MILLSTREAM


def _names_reference(item: pytest.Item) -> bool:
    """Return whether the parameters of a test say that it runs on nats-server, or beside it."""
    call = getattr(item, "callspec", None)
    values = call.params.values() if call is not None else ()
    return any(
        value is ServerKind.NATS_SERVER or (isinstance(value, tuple) and ServerKind.NATS_SERVER in value)
        for value in values
    )


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


@pytest.fixture(scope="session", autouse=True)
def _only_the_oracle_starts_nats_server(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that starts nats-server though it is not marked `oracle`."""

    def refuse() -> NoReturn:
        raise ServerProcessError("a test that needs nats-server is marked `oracle`, and run by `make oracle`")

    with pytest.MonkeyPatch.context() as patch:
        if ServerKind.NATS_SERVER not in _chosen_kinds(request.config):
            patch.setattr(reference, "find_nats_server", refuse)
        yield


@pytest.fixture(scope="session")
def _server_pool(_nursery: None) -> Iterator[ServerPool]:
    pool = ServerPool()
    yield pool
    pool.trim(keep=0)


@pytest.fixture
def shared_server(
    request: pytest.FixtureRequest, server_kind: ServerKind, _server_pool: ServerPool
) -> Iterator[ServerFactory]:
    """Call it as ServerProcess, without the kind.  Others use the same server: leave it as it was."""
    used: dict[ServerProcess, int] = {}
    request.node.stash[_SERVERS] = used

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


class ServersByKind(dict[ServerKind, ServerProcess]):
    """A server with JetStream for each kind, started when it is first asked for."""

    def __missing__(self, kind: ServerKind) -> ServerProcess:
        server = self[kind] = ServerProcess(kind, jetstream=True).start()
        return server


def _servers_by_kind() -> Iterator[ServersByKind]:
    servers = ServersByKind()
    yield servers
    for server in servers.values():
        server.close()


# For tests that bring something from one server to another, of the same or of the other kind.  They share
# them: a test uses names of its own.
origins = pytest.fixture(_servers_by_kind, scope="session", name="origins")
targets = pytest.fixture(_servers_by_kind, scope="session", name="targets")


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    """A shared server without any configuration, with monitoring."""
    return shared_server(monitor=True)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The Spark session of this process, with the settings of a pipeline; started when first asked for."""
    from pyspark.sql import SparkSession

    from millstream.spark.jobs.settings import Pipeline
    from millstream.spark.pipeline.session import session_settings, use_this_python

    folder = tmp_path_factory.mktemp("spark")
    use_this_python("local[2]")
    settings: dict[str, Any] = session_settings(Pipeline(job=[]), "local[2]", cores=2) | {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": short_jvm.OPTIONS,
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


@pytest.fixture(autouse=True)
def _own_logger_levels() -> Iterator[None]:
    """Undo what a server that a test starts in its own process sets for all loggers of ours."""
    loggers = [logging.getLogger(name) for name in ("millstream", "millstream.trace")]
    before = [(each.level, each.propagate, list(each.handlers)) for each in loggers]
    yield
    for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.propagate, logger.handlers = propagate, handlers


@pytest.fixture(autouse=True)
def _room_for_tables() -> None:
    """Let logs that other tests of this process did not close take no memory from those of this one."""
    BUDGET.tables.limit = 1 << 40
