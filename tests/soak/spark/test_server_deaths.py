"""Tasks and servers killed while a query reads and writes: each message once, and the query goes on."""

import time
from collections.abc import Iterator

import pytest

from tests.kits.cluster import Cluster
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.spark.deaths import ClusterStreams, Driver, MakeDriver, Streams, exactly_once

OUTAGE_S = 2.0  # long enough for several attempts to connect
BATCHES = 14  # of 200 messages

pytestmark = [pytest.mark.timeout(1800), pytest.mark.soak, pytest.mark.xdist_group("cluster")]


def places_of(target: str) -> tuple[str, ...]:
    """Return the phases in which tasks need the server; the driver moves the archive's files without it."""
    return {"table": ("read",), "iceberg": ("read", "rows")}.get(target, ("read", "write"))


@pytest.mark.parametrize("kind", [ServerKind.MILLSTREAM, ServerKind.NATS_SERVER], ids=str)
@pytest.mark.parametrize("target", ["table", "iceberg", "dedupe", "fenced"])
def test_a_killed_task_and_a_killed_server_cost_and_double_nothing(
    driver: MakeDriver, kind: ServerKind, target: str
) -> None:
    with ServerProcess(kind, jetstream=True) as server:
        streams = Streams(server.client_url)
        streams.fill(200 * BATCHES)
        query: Driver = driver(server.client_url, target)
        for place in places_of(target):
            query.arm(place, "worker", after=1)
        query.start()
        for place in places_of(target):
            query.wait_until(lambda at=place: query.fired(at), f"no task was killed at {place}")
        for place in (*places_of(target), "planned"):
            query.meanwhile(place, server.kill, after=2)
            time.sleep(OUTAGE_S)
            server.start()
        query.finish()
        assert query.results(streams) == exactly_once(streams.count)
        streams.close()


@pytest.fixture(scope="module")
def running_cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def cluster_streams(running_cluster: Cluster) -> Iterator[ClusterStreams]:
    streams = ClusterStreams(running_cluster)
    yield streams
    streams.heal()
    for name in ("IN", "OUT"):
        streams.api(f"STREAM.DELETE.{name}")
    streams.close()


@pytest.mark.parametrize("target", ["table", "dedupe", "fenced"])
def test_a_leader_that_dies_while_a_query_reads_and_writes_costs_and_doubles_nothing(
    running_cluster: Cluster, cluster_streams: ClusterStreams, driver: MakeDriver, target: str
) -> None:
    cluster_streams.fill(200 * BATCHES)
    query: Driver = driver(",".join(running_cluster.urls), target)
    query.start()
    for place in places_of(target):
        stream = "IN" if place == "read" else "OUT"
        query.meanwhile(place, lambda of=stream: cluster_streams.kill_leader(of), after=1)
        cluster_streams.heal()
    query.finish()
    assert query.results(cluster_streams) == exactly_once(cluster_streams.count)
