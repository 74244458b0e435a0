"""The driver killed in every phase of a micro-batch: each message once in the table and in the stream.

The control, a sink that promises less, shows that doubles would be seen.
"""

from collections.abc import Iterator

import pytest

from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.spark.deaths import MakeDriver, Streams, exactly_once

PHASES = ("before-log", "planned", "read", "write", "before-commit", "after-commit")
OF_FILES = ("before-log", "planned", "read", "after-commit")  # Spark's own sink has no places to die in

pytestmark = [pytest.mark.timeout(1800), pytest.mark.soak]


@pytest.fixture(params=[ServerKind.MILLSTREAM, ServerKind.NATS_SERVER], ids=str)
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with ServerProcess(request.param, jetstream=True) as server:
        yield server


@pytest.fixture
def streams(server: ServerProcess) -> Iterator[Streams]:
    streams = Streams(server.client_url)
    yield streams
    streams.close()


@pytest.mark.parametrize(
    ("target", "phases"),
    [
        ("table", (*PHASES, "moved")),
        ("iceberg", (*PHASES, "metadata", "landed")),
        ("files", OF_FILES),
        ("dedupe", PHASES),
        ("fenced", PHASES),
    ],
)
def test_a_driver_killed_in_any_phase_leaves_each_message_once(
    server: ServerProcess, streams: Streams, driver: MakeDriver, target: str, phases: tuple[str, ...]
) -> None:
    query = driver(server.client_url, target)
    for phase in phases:
        streams.fill(600)  # three batches: one to be committed, one to die in, one to be left
        query.dies(phase)
    query.finish()
    assert query.results(streams) == exactly_once(streams.count)


def test_a_driver_killed_around_a_purge_leaves_each_message_once_in_the_table(
    server: ServerProcess, streams: Streams, driver: MakeDriver
) -> None:
    query = driver(server.client_url, "tiered")
    for phase in ("before-commit", "landed", "before-purge", "purged"):
        streams.fill(600)
        query.dies(phase)
    query.finish()
    assert query.results(streams) == exactly_once(streams.count)
    assert streams.api("STREAM.INFO.IN")["state"]["messages"] == 0


def test_without_the_promise_doubles_are_seen(
    server: ServerProcess, streams: Streams, driver: MakeDriver
) -> None:
    query = driver(server.client_url, "at-least-once")
    streams.fill(600)
    query.dies("before-commit")
    query.finish()
    found = query.results(streams)
    assert set(found) == set(range(1, 601))
    assert found.total() == 800  # all of the batch that Spark did not know of came again


@pytest.mark.parametrize("server", [ServerKind.MILLSTREAM], indirect=True, ids=str)
def test_a_driver_killed_while_it_writes_leaves_each_message_once(
    server: ServerProcess, streams: Streams, driver: MakeDriver
) -> None:
    query = driver(server.client_url, "dedupe")
    streams.fill(500)
    query.dies("write")
    seen = streams.copies().total()
    assert 200 <= seen < 500  # the first batch, and as much of the second as was sent by then
    query.finish()
    assert query.results(streams) == exactly_once(500)
