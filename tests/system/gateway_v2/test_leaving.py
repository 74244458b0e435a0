"""Messages whose reader leaves wait for `ack_wait`, unless the reader asked for a nak."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
import websockets

from tests.kits.gateway.v2 import PATIENCE_S, Gateway, Lines, eventually

_SECOND = 1_000_000_000
_HOUR = 3600 * _SECOND

Take = Callable[[], Awaitable[dict[str, Any]]]


@asynccontextmanager
async def _lines(gateway: Gateway, consumer: str, leaving: str) -> AsyncIterator[Take]:
    async with gateway.lines(f"{consumer}/live?on_disconnect={leaving}") as lines:
        yield lines.next


@asynccontextmanager
async def _events(gateway: Gateway, consumer: str, leaving: str) -> AsyncIterator[Take]:
    path, accept = f"{consumer}/live?on_disconnect={leaving}", {"Accept": "text/event-stream"}
    async with gateway.http.stream("GET", path, headers=accept) as answer:
        lines = Lines(answer)

        async def take() -> dict[str, Any]:
            while not (line := await lines.text()).startswith("data: "):
                pass
            return dict(json.loads(line.removeprefix("data: ")))

        yield take


@asynccontextmanager
async def _http2(gateway: Gateway, consumer: str, leaving: str) -> AsyncIterator[Take]:
    host, port = gateway.address
    url = f"http://{host}:{port}{consumer}/live?on_disconnect={leaving}"
    async with (
        httpx.AsyncClient(http1=False, http2=True, timeout=PATIENCE_S) as http,
        http.stream("GET", url) as answer,
    ):
        yield Lines(answer).next


@asynccontextmanager
async def _socket(gateway: Gateway, consumer: str, leaving: str) -> AsyncIterator[Take]:
    url = f"{gateway.ws_url}{consumer}/socket?on_disconnect={leaving}"
    async with websockets.connect(url) as connection:

        async def take() -> dict[str, Any]:
            async with asyncio.timeout(PATIENCE_S):
                return dict(json.loads(await connection.recv()))

        yield take


@asynccontextmanager
async def _fetch(gateway: Gateway, consumer: str, leaving: str) -> AsyncIterator[Take]:
    """A fetch of more than there is, which is left in the middle of its answer."""
    wanted = {"batch": 100, "expires": 300, "on_disconnect": leaving}
    async with gateway.http.stream("POST", f"{consumer}/fetch", json=wanted) as answer:
        pieces = answer.aiter_text()
        text = ""

        async def take() -> dict[str, Any]:
            nonlocal text
            while not text.endswith("}"):
                text += await anext(pieces)
            (message,) = json.loads(text + "]}")["messages"]
            return dict(message)

        yield take


Reader = Callable[[Gateway, str, str], AbstractAsyncContextManager[Take]]
_READERS = {"lines": _lines, "events": _events, "http2": _http2, "socket": _socket, "fetch": _fetch}
_by_every_reader = pytest.mark.parametrize("reader", _READERS.values(), ids=_READERS)


async def _everybody_left(gateway: Gateway) -> None:
    async def nobody_is_there() -> bool:
        return not gateway.server.core.links.own.is_held

    await eventually(nobody_is_there)


async def _ack(gateway: Gateway, consumer: str, message: dict[str, Any]) -> str:
    answer = await gateway.http.post(f"{consumer}/acks", json={"acks": [{"ack_id": message["ack_id"]}]})
    status: str = answer.json()["results"][0]["status"]
    return status


@_by_every_reader
async def test_leaving_changes_nothing_about_what_was_sent(gateway: Gateway, reader: Reader) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=_HOUR)
    await gateway.publish("1")
    async with reader(gateway, consumer, "wait") as take:
        first = await take()
    await _everybody_left(gateway)
    await gateway.publish("2")
    (second,) = await gateway.fetch(consumer, batch=1, expires=60)
    assert (second["data"], second["consumer_seq"]) == ("2", 2)
    assert await _ack(gateway, consumer, first) == "confirmed"
    info = (await gateway.http.get(consumer)).json()
    assert (info["num_redelivered"], info["num_ack_pending"]) == (0, 1)


@_by_every_reader
async def test_a_reader_may_have_its_messages_delivered_again_at_once(
    gateway: Gateway, reader: Reader
) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=_HOUR)
    await gateway.publish("1")
    async with reader(gateway, consumer, "nak") as take:
        await take()
    (again,) = await gateway.fetch(consumer, batch=1, expires=60)
    assert (again["data"], again["delivered"]) == ("1", 2)


@_by_every_reader
async def test_readers_that_come_and_go_do_not_use_up_max_deliver(gateway: Gateway, reader: Reader) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=3 * _SECOND, max_deliver=3)
    await gateway.publish("1")
    async with reader(gateway, consumer, "wait") as take:
        await take()
    for _ in range(4):
        async with gateway.lines(f"{consumer}/live"):
            pass
        await _everybody_left(gateway)
    (again,) = await gateway.fetch(consumer, batch=1, expires=60)
    assert again["data"] == "1"
    assert await _ack(gateway, consumer, again) == "confirmed"


async def test_a_nak_on_leaving_does_not_take_what_is_somebody_elses_by_now(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(backoff=[_SECOND, _HOUR], max_deliver=5)
    await gateway.publish("1")
    async with websockets.connect(f"{gateway.ws_url}{consumer}/socket?flow=permit&on_disconnect=nak") as one:
        await one.send('{"op":"permit","count":1}')
        assert json.loads(await one.recv())["delivered"] == 1
        (again,) = await gateway.fetch(consumer, batch=1, expires=60)
        assert again["delivered"] == 2
    await _everybody_left(gateway)
    assert await gateway.fetch(consumer, batch=1, no_wait=True) == []
    assert await _ack(gateway, consumer, again) == "confirmed"
    assert (await gateway.http.get(consumer)).json()["delivered"]["consumer_seq"] == 2
