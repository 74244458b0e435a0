"""A consumer over a WebSocket."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import websockets

from tests.kits.gateway.v2 import PATIENCE_S, Gateway, eventually
from tests.kits.reference import ServerProcess

_HOUR = 3600 * 1_000_000_000


class _Socket:
    def __init__(self, connection: websockets.ClientConnection) -> None:
        self.connection = connection

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            heard: dict[str, Any] = json.loads(await self.connection.recv())
        return heard

    async def say(self, **command: Any) -> None:
        await self.connection.send(json.dumps(command))


async def _ready(gateway: Gateway, **config: Any) -> tuple[str, str]:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=_HOUR, **config)
    return consumer, f"{gateway.ws_url}{consumer}/socket"


async def test_messages_come_down_and_acks_go_up(gateway: Gateway) -> None:
    consumer, url = await _ready(gateway)
    await gateway.publish("1", "2", "3", "4")
    async with websockets.connect(url) as connection:
        socket = _Socket(connection)
        messages = [await socket.next() for _ in range(4)]
        assert [(each["type"], each["data"]) for each in messages] == [
            ("message", data) for data in ("1", "2", "3", "4")
        ]
        ids = [message["ack_id"] for message in messages]
        await socket.say(op="ack", ack_id=ids[0], confirm=True, id="first")
        await socket.say(op="term", ack_id=ids[1], reason="no", confirm=True, id=2)
        results = {each["id"]: each for each in [await socket.next(), await socket.next()]}
        assert {key: value["status"] for key, value in results.items()} == {
            "first": "confirmed",
            2: "confirmed",
        }
        await socket.say(op="progress", ack_id=ids[2], id=3)
        assert (await socket.next())["status"] == "sent"
        await socket.say(op="nak", ack_id=ids[3])
        again = await socket.next()
        assert (again["data"], again["delivered"]) == ("4", 2)
        info = (await gateway.http.get(consumer)).json()
        assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"]) == (2, 2)


async def test_no_more_than_the_window_is_out(gateway: Gateway) -> None:
    consumer, url = await _ready(gateway)
    await gateway.publish("1", "2", "3")
    async with websockets.connect(f"{url}?window=2") as connection:
        socket = _Socket(connection)
        first, second = await socket.next(), await socket.next()
        assert (await gateway.http.get(consumer)).json()["num_ack_pending"] == 2
        await socket.say(op="ack", ack_id=second["ack_id"])
        third = await socket.next()
        assert [each["data"] for each in (first, second, third)] == ["1", "2", "3"]


async def test_with_permits_nothing_comes_unasked(gateway: Gateway) -> None:
    consumer, url = await _ready(gateway)
    await gateway.publish("1", "2", "3")
    async with websockets.connect(f"{url}?flow=permit") as connection:
        socket = _Socket(connection)
        await socket.say(op="permit", count=1, id=1)
        heard = [await socket.next(), await socket.next()]
        assert sorted(each["type"] for each in heard) == ["message", "result"]
        await socket.say(op="permit", count=2)
        assert [(await socket.next())["data"] for _ in range(2)] == ["2", "3"]
        info = (await gateway.http.get(consumer)).json()
        assert info["delivered"]["consumer_seq"] == 3


async def test_what_is_not_understood_is_told_and_the_socket_stays_open(gateway: Gateway) -> None:
    _, url = await _ready(gateway)
    async with websockets.connect(url) as connection:
        socket = _Socket(connection)
        for text in ("{", '{"op":1}', '{"op":"ack","x":1}', "[]"):
            await connection.send(text)
            assert (await socket.next())["ok"] is False
        await socket.say(op="dance", id=7)
        assert (await socket.next())["id"] == 7
        await socket.say(op="permit", count=1)
        assert "flow=permit" in (await socket.next())["detail"]
        await socket.say(op="ack", ack_id="1.1.1.1.1 x")
        assert (await socket.next())["status"] == "refused"
        await gateway.publish("1")
        assert (await socket.next())["data"] == "1"


async def test_what_is_not_acknowledged_is_delivered_again_after_the_socket_if_it_said_so(
    gateway: Gateway,
) -> None:
    consumer, url = await _ready(gateway)
    await gateway.publish("1", "2")
    async with websockets.connect(f"{url}?on_disconnect=nak") as connection:
        socket = _Socket(connection)
        first, _ = await socket.next(), await socket.next()
        await socket.say(op="ack", ack_id=first["ack_id"], confirm=True, id=1)
        assert (await socket.next())["ok"] is True
    (again,) = await gateway.fetch(consumer, batch=1, expires=60)
    assert (again["data"], again["delivered"]) == ("2", 2)


async def test_a_socket_that_is_cut_gives_back_too(gateway: Gateway) -> None:
    consumer, url = await _ready(gateway)
    await gateway.publish("1")
    connection = await websockets.connect(f"{url}?on_disconnect=nak")
    await _Socket(connection).next()
    connection.transport.abort()
    (again,) = await gateway.fetch(consumer, batch=1, expires=60)
    assert again["delivered"] == 2
    await connection.wait_closed()


async def test_a_deleted_consumer_closes_the_socket_with_a_problem(gateway: Gateway) -> None:
    consumer, url = await _ready(gateway)
    await gateway.publish("1")
    async with websockets.connect(url) as connection:
        socket = _Socket(connection)
        await socket.next()
        await gateway.http.delete(consumer)
        problem = await socket.next()
        assert (problem["type"], problem["status"]) == ("problem", 404)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4404


async def test_a_message_that_came_again_takes_one_place_of_the_window(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=200_000_000)
    await gateway.publish("1")
    async with websockets.connect(f"{gateway.ws_url}{consumer}/socket?window=2") as connection:
        socket = _Socket(connection)
        first, again = await socket.next(), await socket.next()
        assert [each["data"] for each in (first, again)] == ["1", "1"]
        await socket.say(op="ack", ack_id=again["ack_id"], confirm=True, id=1)
        while (await socket.next())["type"] != "result":  # it may have come once more before
            pass
        await gateway.publish("2", "3")
        seen = {(await socket.next())["data"]}
        while len(seen) < 2:
            seen.add((await socket.next())["data"])
        assert seen == {"2", "3"}


async def test_an_ack_of_all_before_makes_room_for_as_many(gateway: Gateway) -> None:
    _, url = await _ready(gateway, ack_policy="all")
    await gateway.publish("1", "2", "3", "4")
    async with websockets.connect(f"{url}?window=2") as connection:
        socket = _Socket(connection)
        assert (await socket.next())["data"] == "1"
        await socket.say(op="ack", ack_id=(await socket.next())["ack_id"])
        assert [(await socket.next())["data"] for _ in range(2)] == ["3", "4"]


async def test_a_gateway_that_stops_closes_its_sockets(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    gateway: Gateway = await start_gateway(shared_server(jetstream=True), stop_timeout_s=30.0)
    _, url = await _ready(gateway)
    await gateway.publish("1")
    async with websockets.connect(url) as connection:
        socket = _Socket(connection)
        await socket.next()
        stopping = asyncio.ensure_future(gateway.server.stop())
        assert (await socket.next())["status"] == 503
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        await stopping


async def test_sockets_that_were_closed_do_not_count_as_connections(gateway: Gateway) -> None:
    _, url = await _ready(gateway)
    for _ in range(3):
        async with websockets.connect(url):
            pass

    async def forgotten() -> bool:
        told = (await gateway.http.get("/metrics")).text
        return "\nmillstream_gateway_connections 1.0\n" in told  # the one that asks

    await eventually(forgotten)


async def test_a_socket_to_nothing_is_refused_with_a_problem(gateway: Gateway) -> None:
    await gateway.add_stream()
    for path, status in (
        (f"{gateway.path}/consumers/none/socket", 404),
        (f"{gateway.path}/consumers/a.b/socket", 400),
        (f"{gateway.path}/consumers/none/socket?window=0", 400),
    ):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(gateway.ws_url + path)
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body)["status"] == status


async def test_a_plain_request_to_a_socket_finds_nothing(gateway: Gateway) -> None:
    assert (await gateway.http.get(f"{gateway.path}/consumers/c/socket")).status_code == 404
