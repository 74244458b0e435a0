"""An elastic group on a cluster of three nats-servers: members and servers die while messages flow."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import nats.errors
import pytest
import pytest_asyncio

from millstream.client import ClientError
from tests.conformance.groups.test_elastic import QUICK_S, Worker
from tests.kits.client import KINDS, Lab, close_quickly, connect_quickly, eventually
from tests.kits.cluster import Cluster


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Cluster]:
    with contextlib.ExitStack() as stack:
        yield await asyncio.to_thread(stack.enter_context, Cluster())


async def surely_publish(lab: Lab, number: int, token: str) -> None:
    """Store a message once, whatever happens to the servers."""

    async def stored() -> bool:
        try:
            await lab.js.publish(
                lab.subject(token), str(number).encode(), headers={"Nats-Msg-Id": str(number)}
            )
        except (nats.errors.Error, ClientError, TimeoutError):
            return False
        return True

    await eventually(stored, f"message {number} was not stored")


@pytest.mark.oracle
async def test_members_and_servers_die(cluster: Cluster, kind: str) -> None:
    clients = [await connect_quickly(kind, cluster.urls[at:] + cluster.urls[:at]) for at in range(3)]
    try:
        lab = Lab(cluster.servers[0], clients[0], num_replicas=3)
        lab.timeout_s = 3.0

        async def created() -> bool:  # when the cluster has a leader
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await lab.create()
                return True
            return False

        await eventually(created, "the cluster takes no stream")
        group = await clients[0].groups.create_elastic(lab.stream, "g", 6, filters=[(f"{lab.stream}.*", [1])])
        await group.add("m1", "m2", "m3")
        assert (await lab.js.stream_info(f"{lab.stream}-g")).config.num_replicas == 3
        seen: list[tuple[str, str, int]] = []
        workers = [
            await Worker(
                client.groups.elastic(lab.stream, "g").consume(name, ack_wait_s=QUICK_S), seen
            ).start()
            for client, name in zip(clients, ("m1", "m2", "m3"), strict=True)
        ]
        await flow(lab, range(20))
        await all_came(seen, 20)
        doomed = await connect_quickly(kind, cluster.urls)
        stand_in = doomed.groups.elastic(lab.stream, "g").consume("m2", ack_wait_s=QUICK_S)
        await stand_in.open()
        await close_quickly(doomed)  # a member dies
        cluster.servers[1].kill()  # and the server that another one is connected to
        await flow(lab, range(20, 60))
        await all_came(seen, 60)
        await asyncio.to_thread(cluster.start_the_dead)
        await flow(lab, range(60, 80))
        await all_came(seen, 80)
        for worker in workers:
            await worker.stop()
            assert worker.failure is None
        assert in_order(seen)
        await stand_in.close()
    finally:
        for client in clients:
            await close_quickly(client)


async def flow(lab: Lab, numbers: range) -> None:
    for number in numbers:
        await surely_publish(lab, number, f"k{number % 8}")


async def all_came(seen: list[tuple[str, str, int]], count: int) -> None:
    async def came() -> bool:
        return {number for _, _, number in seen} == set(range(count))

    await eventually(came, "a message is missing")


def in_order(seen: list[tuple[str, str, int]]) -> bool:
    """Return True if the first deliveries of each key are in order; after a death some come again."""
    latest: dict[str, int] = {}
    known: set[int] = set()
    for _, key, number in seen:
        if number not in known and number < latest.get(key, -1):
            return False
        known.add(number)
        latest[key] = max(number, latest.get(key, -1))
    return True
