"""Mirrors and sources through JetStream domains across a link that is cut, at random, under load."""

import asyncio
import contextlib
from typing import Any

import nats
import pytest

from tests.kits.fault_proxy import FaultProxy
from tests.kits.leaf import PAIR_NAMES, PAIRS, Linked, linked
from tests.kits.leaf_streams import carry, until_reached
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind

Kinds = tuple[ServerKind, ServerKind]
both_ways = pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)

_HUB = "jetstream { domain: hub, max_mem: 256M, max_file: 1G }"
_SPOKE = "jetstream { domain: spoke, max_mem: 256M, max_file: 1G }"


async def contexts(pair: Linked) -> tuple[Any, Any]:
    return await nats.connect(pair.hub.client_url), await nats.connect(pair.spoke.client_url)


@both_ways
async def test_the_api_of_the_other_domain(kinds: Kinds) -> None:
    with linked(kinds, hub=_HUB, spoke=_SPOKE, jetstream=True) as pair:
        hub, spoke = await contexts(pair)
        await until_reached(spoke, "$JS.hub.API.INFO")
        there = spoke.jetstream(domain="hub")
        await there.add_stream(name="FAR", subjects=["far.>"])
        ack = await spoke.jetstream().publish("far.1", b"x")
        assert (ack.stream, ack.domain, ack.seq) == ("FAR", "hub", 1)
        await hub.jetstream().add_stream(name="NEAR", subjects=["near"])
        assert [each.config.name for each in await spoke.jetstream().streams_info()] == []
        reader = await there.pull_subscribe("far.>", durable="c", stream="FAR")
        [message] = await reader.fetch(1)
        assert (message.subject, message.data) == ("far.1", b"x")
        await message.ack_sync()
        assert (await there.consumer_info("FAR", "c")).num_ack_pending == 0
        await hub.close()
        await spoke.close()


async def live(kinds: Kinds, cuts: int, seed: int, patience_s: float = 240.0) -> None:
    [leaf_port] = free_ports(1)
    async with contextlib.AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(FaultProxy(leaf_port))
        opening = linked(
            kinds,
            hub=_HUB,
            spoke=_SPOKE,
            leaf_port=leaf_port,
            port=proxy.port,
            jetstream=True,
            remote="ignore_discovered_servers: true",
            links=0,
        )
        pair = await asyncio.to_thread(stack.enter_context, opening)
        hub, spoke = await contexts(pair)
        await carry(hub, spoke, proxy.cut_all, cuts=cuts, seed=seed, patience_s=patience_s)
        assert proxy.accepted > cuts // 2
        await hub.close()
        await spoke.close()


@both_ways
async def test_two_cuts(kinds: Kinds) -> None:
    """Takes longer than a second, because requests of mirrors are at least two seconds apart."""
    await live(kinds, cuts=2, seed=1)


@pytest.mark.soak
@both_ways
async def test_dozens_of_cuts(kinds: Kinds) -> None:
    await live(kinds, cuts=36, seed=3)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@both_ways
async def test_a_thousand_cuts(kinds: Kinds) -> None:
    await live(kinds, cuts=1000, seed=2, patience_s=600.0)
