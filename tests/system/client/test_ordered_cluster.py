"""The ordered consumer on a real cluster: Millstream has none, its users may."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from nats.errors import Error as NatsError

from millstream.client import Client
from tests.kits.client import BEAT_S, Connect, Lab, eventually, read_numbers
from tests.kits.cluster import Cluster

pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def running_cluster() -> Iterator[Cluster]:
    with Cluster() as running:  # it takes seconds until its members have agreed on who decides
        yield running


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    yield running_cluster
    running_cluster.start_the_dead()


async def make_lab(cluster: Cluster, connect: Connect, **config: Any) -> Lab:
    """A stream on the cluster, once it has agreed on who decides."""
    lab = Lab(cluster.servers[0], await connect_to(cluster, connect, *range(3)), **config)
    lab.timeout_s = 2.0  # what is asked of a cluster without a leader is not answered

    async def created() -> bool:
        try:
            await lab.create()
        except NatsError:
            return False
        return True

    await eventually(created, "the cluster makes no stream")
    return lab


async def connect_to(cluster: Cluster, connect: Connect, *order: int) -> Client:
    """Connect to the first of `order`, and in turn to the others when it is lost."""
    urls = [cluster.urls[number] for number in order]
    return await connect(urls, request_timeout_s=5.0)


async def publish_in_the_end(lab: Lab, *numbers: int) -> None:
    """Publish each once, however often it takes: the ids of messages make the repeats harmless."""
    for number in numbers:

        async def stored(number: int = number) -> bool:
            try:
                await lab.js.publish(
                    lab.subject(), str(number).encode(), headers={"Nats-Msg-Id": str(number)}, timeout=1
                )
            except NatsError:
                return False
            return True

        await eventually(stored, f"message {number} was not stored")


async def leader_of(lab: Lab) -> str:
    leaders: list[str] = []

    async def told() -> bool:
        try:
            cluster = (await lab.js.stream_info(lab.stream)).cluster
        except NatsError:
            return False
        if cluster is not None and cluster.leader:
            leaders.append(cluster.leader)
        return bool(leaders)

    await eventually(told, "the stream has no leader")
    return leaders[0]


@pytest.mark.parametrize("replicas", [1, 3])
async def test_a_reconnect_to_another_server_loses_no_message(
    cluster: Cluster, connect: Connect, replicas: int
) -> None:
    lab = await make_lab(cluster, connect, num_replicas=replicas)
    leader = int((await leader_of(lab)).removeprefix("n"))
    others = [number for number in range(3) if number != leader]
    # The reader is on a server that has no part in the stream if there is one, and loses it.
    reader = await connect_to(cluster, connect, others[0], others[1], leader)
    watcher = Lab(cluster.servers[leader], await connect_to(cluster, connect, leader))
    watcher.stream = lab.stream
    await publish_in_the_end(watcher, *range(20))
    async with reader.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        assert await read_numbers(messages, 20) == list(range(20))
        assert reader.connection.connected_url is not None
        lost_port = reader.connection.connected_url.port
        cluster.servers[others[0]].kill()
        await publish_in_the_end(watcher, *range(20, 40))
        assert await read_numbers(messages, 20) == list(range(20, 40))
        assert reader.connection.connected_url.port != lost_port
        assert messages.state.resets >= 1


async def test_the_death_of_the_server_that_leads_the_stream_loses_no_message(
    cluster: Cluster, connect: Connect
) -> None:
    lab = await make_lab(cluster, connect, num_replicas=3)
    leader = int((await leader_of(lab)).removeprefix("n"))
    others = [number for number in range(3) if number != leader]
    reader = await connect_to(cluster, connect, leader, *others)
    lab.client = await connect_to(cluster, connect, *others)
    await publish_in_the_end(lab, *range(20))
    async with reader.ordered(lab.stream, heartbeat_s=BEAT_S) as messages:
        assert await read_numbers(messages, 20) == list(range(20))
        cluster.servers[leader].kill()
        await publish_in_the_end(lab, *range(20, 40))
        assert await read_numbers(messages, 20) == list(range(20, 40))
        await asyncio.to_thread(cluster.servers[leader].start)
        await publish_in_the_end(lab, *range(40, 50))
        assert await read_numbers(messages, 10) == list(range(40, 50))
