"""Mirrors and sources through JetStream domains across a link that is cut, at random, under load."""

import asyncio
import contextlib
import json
import random
from typing import Any

import nats
import pytest
from nats.js import JetStreamContext

from tests.kits.fault_proxy import FaultProxy
from tests.kits.leaf import PAIR_NAMES, PAIRS, Linked, linked
from tests.kits.patience import PATIENCE_S
from tests.kits.ports import free_ports
from tests.kits.reference import ServerKind

Kinds = tuple[ServerKind, ServerKind]
both_ways = pytest.mark.parametrize("kinds", PAIRS, ids=PAIR_NAMES)

_HUB = "jetstream { domain: hub, max_mem: 256M, max_file: 1G }"
_SPOKE = "jetstream { domain: spoke, max_mem: 256M, max_file: 1G }"


async def contexts(pair: Linked) -> tuple[Any, Any]:
    return await nats.connect(pair.hub.client_url), await nats.connect(pair.spoke.client_url)


async def until_stored(
    js: JetStreamContext, name: str, messages: int, patience_s: float = PATIENCE_S
) -> None:
    async with asyncio.timeout(patience_s):
        while (await js.stream_info(name)).state.messages < messages:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


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


async def until_reached(client: Any, subject: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(nats.errors.NoRespondersError):
                await client.request(subject, b"")
                return
            await asyncio.sleep(0.02)


async def cut_and_publish(
    proxy: FaultProxy, hub: JetStreamContext, spoke: JetStreamContext, cuts: int, seed: int
) -> int:
    """Publish at both ends while the link is cut; return how many messages each of them has."""
    generator = random.Random(seed)
    sent = 0
    for _ in range(cuts):
        for _ in range(generator.randrange(1, 20)):
            await hub.publish("up.x", str(sent).encode())
            await spoke.publish("down.x", str(sent).encode())
            sent += 1
        proxy.cut_all()
        await asyncio.sleep(generator.random() * 0.3)
    return sent


async def contents(js: JetStreamContext, name: str) -> list[bytes]:
    last = (await js.stream_info(name)).state.last_seq
    return [(await js.get_msg(name, seq)).data or b"" for seq in range(1, last + 1)]


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
        await until_reached(spoke, "$JS.hub.API.INFO")
        await until_reached(hub, "$JS.spoke.API.INFO")
        up, down = hub.jetstream(), spoke.jetstream()
        await up.add_stream(name="UP", subjects=["up.>"])
        await down.add_stream(name="DOWN", subjects=["down.>"])
        for client, domain, name in ((spoke, "hub", "UP"), (hub, "spoke", "DOWN")):
            external = {"api": f"$JS.{domain}.API", "deliver": ""}
            origin = {"name": name, "external": external}
            mirror = {"name": f"M{name}", "mirror": origin}
            for body in (mirror, {"name": f"S{name}", "sources": [origin]}):
                subject = f"$JS.API.STREAM.CREATE.{body['name']}"
                answer = await client.request(subject, json.dumps(body).encode())
                assert b'"error"' not in answer.data, answer.data
        sent = await cut_and_publish(proxy, up, down, cuts, seed)
        expected = [str(number).encode() for number in range(sent)]
        for js, names in ((down, ("MUP", "SUP")), (up, ("MDOWN", "SDOWN"))):
            for name in names:
                await until_stored(js, name, sent, patience_s)
                assert await contents(js, name) == expected, name
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
@both_ways
async def test_a_thousand_cuts(kinds: Kinds) -> None:
    await live(kinds, cuts=1000, seed=2, patience_s=600.0)
