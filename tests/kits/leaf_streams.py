"""Streams that are mirrored and sourced across a leaf link, in both directions, while it is cut at random."""

import asyncio
import contextlib
import json
import random
from collections.abc import Callable
from typing import Any, Final

import nats
from nats.js import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError

from tests.kits.patience import PATIENCE_S

_ANSWER_S: Final = 2.0  # a cluster that elects a leader says nothing


async def until_stored(
    js: JetStreamContext, name: str, messages: int, patience_s: float = PATIENCE_S
) -> None:
    async with asyncio.timeout(patience_s):
        while (await js.stream_info(name)).state.messages < messages:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def until_reached(client: Any, subject: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(nats.errors.NoRespondersError, nats.errors.TimeoutError):
                await client.request(subject, b"", timeout=_ANSWER_S)
                return
            await asyncio.sleep(0.02)


async def publish(js: JetStreamContext, subject: str, number: int) -> None:
    """Publish a message once, however often its stream has no leader."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(NoStreamResponseError, nats.errors.TimeoutError, APIError):
                headers = {"Nats-Msg-Id": str(number)}
                await js.publish(subject, str(number).encode(), timeout=_ANSWER_S, headers=headers)
                return


async def contents(js: JetStreamContext, name: str) -> list[bytes]:
    """Return what a stream has, in order."""
    state = (await js.stream_info(name)).state
    reader = await js.subscribe("", stream=name, ordered_consumer=True)
    found = [(await reader.next_msg(PATIENCE_S)).data for _ in range(state.messages)]
    await reader.unsubscribe()
    return found


async def carry(
    hub: Any,
    spoke: Any,
    cut: Callable[[], None],
    *,
    cuts: int,
    seed: int,
    patience_s: float,
    replicas: int = 1,
) -> None:
    """Publish at both ends while the link is cut; check that both ends have everything once and in order."""
    await until_reached(spoke, "$JS.hub.API.INFO")
    await until_reached(hub, "$JS.spoke.API.INFO")
    up, down = hub.jetstream(timeout=PATIENCE_S), spoke.jetstream(timeout=PATIENCE_S)
    await up.add_stream(name="UP", subjects=["up.>"], num_replicas=replicas)
    await down.add_stream(name="DOWN", subjects=["down.>"])
    for client, domain, name, copies in ((spoke, "hub", "UP", 1), (hub, "spoke", "DOWN", replicas)):
        origin = {"name": name, "external": {"api": f"$JS.{domain}.API", "deliver": ""}}
        for body in ({"name": f"M{name}", "mirror": origin}, {"name": f"S{name}", "sources": [origin]}):
            subject = f"$JS.API.STREAM.CREATE.{body['name']}"
            request = json.dumps(body | {"num_replicas": copies}).encode()
            answer = await client.request(subject, request, timeout=PATIENCE_S)
            assert b'"error"' not in answer.data, answer.data
    generator = random.Random(seed)
    sent = 0
    for _ in range(cuts):
        for _ in range(generator.randrange(1, 20)):
            await asyncio.gather(publish(up, "up.x", sent), publish(down, "down.x", sent))
            sent += 1
        cut()
        await asyncio.sleep(generator.random() * 0.3)
    expected = [str(number).encode() for number in range(sent)]
    for js, names in ((down, ("MUP", "SUP")), (up, ("MDOWN", "SDOWN"))):
        for name in names:
            await until_stored(js, name, sent, patience_s)
            assert await contents(js, name) == expected, name
