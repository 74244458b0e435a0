"""A gateway that is killed in the middle of a delivery: another one delivers what was not acknowledged."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.kits.gateway.v2 import PATIENCE_S, Gateway, GatewayProcess, gateway_process

SECOND_NS = 1_000_000_000
SENT = [str(number) for number in range(20)]


async def _messages(answer: httpx.Response, media_type: str) -> AsyncIterator[dict[str, str]]:
    """Yield the messages of an answer in NDJSON or events."""
    async for line in answer.aiter_lines():
        if media_type.endswith("ndjson"):
            yield json.loads(line)
        elif line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "text/event-stream"])
async def test_what_a_killed_gateway_had_out_comes_back_through_another(
    gateway: Gateway, media_type: str
) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=SECOND_NS)
    await gateway.publish(*SENT)
    async with gateway_process(gateway.nats.client_url) as other:
        acknowledged = await _acknowledge_five(other, consumer, media_type)
    assert acknowledged == SENT[:5]
    got: set[str] = set()
    async with asyncio.timeout(PATIENCE_S):
        while len(got) < len(SENT) - 5:
            taken = await gateway.fetch(consumer, batch=1, expires=5)  # at most one is out at a time
            acks = [{"ack_id": message["ack_id"]} for message in taken]
            told = (await gateway.http.post(f"{consumer}/acks", json={"acks": acks})).json()
            assert told["ok"], told
            got |= {message["data"] for message in taken}
    assert got == set(SENT[5:])


async def _acknowledge_five(other: GatewayProcess, consumer: str, media_type: str) -> list[str]:
    """Read through a gateway that is killed when five messages are acknowledged and more are out."""
    acknowledged: list[str] = []
    async with (
        httpx.AsyncClient(base_url=other.url, timeout=PATIENCE_S) as http,
        http.stream("GET", f"{consumer}/live?window=10", headers={"Accept": media_type}) as answer,
    ):
        assert answer.status_code == 200
        try:
            async for message in _messages(answer, media_type):
                acks = [{"ack_id": message["ack_id"]}]
                told = (await http.post(f"{consumer}/acks", json={"acks": acks})).json()
                assert told["ok"], told
                acknowledged.append(message["data"])
                if len(acknowledged) == 5:
                    await other.kill()
        except httpx.HTTPError:
            return acknowledged
    raise AssertionError("the answer had an end")
