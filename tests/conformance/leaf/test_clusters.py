"""A spoke of a real cluster of three: it moves to another server when the one it is linked to dies."""

import asyncio
import contextlib
import json
from functools import partial
from itertools import count

import nats
import pytest

from tests.kits.cluster import Cluster
from tests.kits.fault_proxy import FaultProxy
from tests.kits.leaf import OURS, THEIRS, leafz
from tests.kits.leaf_streams import carry, publish
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.monitor import eventually

_MIRROR = {"name": "UP", "mirror": {"name": "UP", "external": {"api": "$JS.hub.API", "deliver": ""}}}


def is_linked_elsewhere(spoke: ServerProcess, port: int) -> bool:
    return any(each["port"] != port for each in leafz(spoke)["leafs"])


@pytest.mark.oracle
async def test_a_mirror_goes_on_while_servers_of_the_hub_die() -> None:
    with Cluster(domain="hub") as cluster:
        urls = ", ".join(f'"nats-leaf://127.0.0.1:{port}"' for port in cluster.leaf_ports)
        config = (
            "server_name: spoke, jetstream { domain: spoke, max_mem: 64M, max_file: 256M }\n"
            f"leafnodes {{ reconnect: 100ms, remotes [ {{ urls: [{urls}] }} ] }}"
        )
        with ServerProcess(OURS, config=config, jetstream=True, monitor=True) as spoke:
            await asyncio.to_thread(eventually, lambda: leafz(spoke)["leafs"])
            hub = await nats.connect(cluster.urls)
            there = hub.jetstream(timeout=PATIENCE_S)
            await there.add_stream(name="UP", subjects=["up.>"], num_replicas=3)
            here = await nats.connect(spoke.client_url)
            await here.request("$JS.API.STREAM.CREATE.UP", json.dumps(_MIRROR).encode())
            numbers = count()
            for _ in range(2):
                for _ in range(50):
                    await publish(there, "up.x", next(numbers))
                [leaf] = leafz(spoke)["leafs"]
                await asyncio.to_thread(cluster.named(leaf["name"]).kill)
                await asyncio.to_thread(eventually, partial(is_linked_elsewhere, spoke, leaf["port"]))
                await asyncio.to_thread(cluster.start_the_dead)
                for _ in range(50):
                    await publish(there, "up.x", next(numbers))
            sent = next(numbers)
            async with asyncio.timeout(PATIENCE_S):
                while (await here.jetstream().stream_info("UP")).state.messages < sent:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            state = (await here.jetstream().stream_info("UP")).state
            assert (state.messages, state.last_seq) == (sent, sent)
            await hub.close()
            await here.close()


async def live(kind: ServerKind, cuts: int, patience_s: float = 240.0) -> None:
    """Cut the links of a spoke to three servers of a hub; it moves from one to another."""
    async with contextlib.AsyncExitStack() as stack:
        cluster = await asyncio.to_thread(stack.enter_context, Cluster(domain="hub"))
        proxies = [await stack.enter_async_context(FaultProxy(port)) for port in cluster.leaf_ports]
        urls = ", ".join(f'"nats-leaf://127.0.0.1:{proxy.port}"' for proxy in proxies)
        config = (
            "server_name: spoke, jetstream { domain: spoke, max_mem: 64M, max_file: 256M }\n"
            "leafnodes { reconnect: 100ms, remotes [ "
            f"{{ urls: [{urls}], ignore_discovered_servers: true }} ] }}"
        )
        server = ServerProcess(kind, config=config, jetstream=True, monitor=True)
        await asyncio.to_thread(stack.enter_context, server)
        hub, spoke = await nats.connect(cluster.urls), await nats.connect(server.client_url)

        def cut() -> None:
            for proxy in proxies:
                proxy.cut_all()

        await carry(hub, spoke, cut, cuts=cuts, seed=4, patience_s=patience_s, replicas=3)
        assert all(proxy.accepted for proxy in proxies)
        await hub.close()
        await spoke.close()


@pytest.mark.oracle
async def test_the_links_to_a_cluster_are_cut() -> None:
    await live(OURS, cuts=8)


@pytest.mark.oracle
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [OURS, THEIRS], ids=str)
async def test_the_links_to_a_cluster_are_cut_a_thousand_times(kind: ServerKind) -> None:
    await live(kind, cuts=1000, patience_s=600.0)
