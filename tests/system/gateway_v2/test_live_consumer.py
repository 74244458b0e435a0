"""A consumer as messages come: NDJSON and Server-Sent Events, with acks by calls of their own."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.kits.gateway.v2 import PATIENCE_S, Gateway, Lines, is_up
from tests.kits.reference import ServerProcess

_HOUR = 3600 * 1_000_000_000


async def _ack(gateway: Gateway, consumer: str, *messages: dict[str, Any]) -> None:
    acks = [{"ack_id": message["ack_id"]} for message in messages]
    assert (await gateway.http.post(f"{consumer}/acks", json={"acks": acks})).json()["ok"] is True


async def test_messages_come_with_their_ack_ids(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(max_ack_pending=2)
    await gateway.publish("1", "2", "3")
    async with gateway.lines(f"{consumer}/live") as lines:
        first = await lines.take(2)
        assert [message["data"] for message in first] == ["1", "2"]
        await _ack(gateway, consumer, *first)  # frees the places of two more
        assert (await lines.next())["data"] == "3"


async def test_events_of_a_consumer(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1")
    async with gateway.http.stream(
        "GET", f"{consumer}/live?heartbeat=0.1", headers={"Accept": "text/event-stream"}
    ) as answer:
        lines = Lines(answer)
        assert [await lines.text() for _ in range(2)] == ["retry: 2000", ""]
        while (line := await lines.text()) in (": ping", ""):
            pass  # the broker was slow
        assert line == "id: 1"
        assert json.loads((await lines.text()).removeprefix("data: "))["ack_id"]
        assert [await lines.text() for _ in range(2)] == ["", ": ping"]


async def test_two_readers_share_the_messages(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    async with (
        gateway.lines(f"{consumer}/live?window=1") as one,
        gateway.lines(f"{consumer}/live?window=1") as other,
    ):
        await gateway.consumer_has(consumer, "num_waiting", 2)
        await gateway.publish("1", "2")
        seen = await asyncio.gather(one.next(), other.next())
        assert sorted(message["data"] for message in seen) == ["1", "2"]


async def test_what_a_reader_that_left_did_not_acknowledge_is_delivered_again_at_once_if_it_said_so(
    gateway: Gateway,
) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=_HOUR)
    await gateway.publish("1", "2", "3")
    async with gateway.lines(f"{consumer}/live?on_disconnect=nak") as lines:
        first, *_ = await lines.take(3)
        await _ack(gateway, consumer, first)
    again = [
        *await gateway.fetch(consumer, batch=1, expires=60),
        *await gateway.fetch(consumer, batch=1, expires=60),
    ]
    assert [(message["data"], message["delivered"]) for message in again] == [("2", 2), ("3", 2)]


async def test_a_deleted_consumer_ends_the_reading_with_a_problem(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1")
    async with gateway.lines(f"{consumer}/live") as lines:
        await lines.next()
        assert (await gateway.http.delete(consumer)).status_code == 204
        (last,) = await lines.rest()
        assert json.loads(last)["problem"]["status"] == 404


async def test_a_deleted_stream_ends_the_reading_with_a_problem(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    async with gateway.lines(f"{consumer}/live") as lines:
        await gateway.consumer_has(consumer, "num_waiting", 1)
        assert (await gateway.http.delete(gateway.path)).status_code == 204
        (last,) = await lines.rest()
        assert json.loads(last)["problem"]["status"] == 404


async def test_a_gateway_that_stops_says_so_and_gives_back(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=_HOUR)
    await gateway.publish("1")
    async with gateway.lines(f"{consumer}/live?on_disconnect=nak") as lines:
        await lines.next()
        gateway.server.core.stopping.set()
        (last,) = await lines.rest()
        assert json.loads(last)["problem"]["status"] == 503
    (message,) = await gateway.fetch(consumer, batch=1, expires=60)
    assert message["delivered"] == 2


async def test_push_consumers_and_missing_ones_are_refused(gateway: Gateway) -> None:
    await gateway.add_stream()
    missing = await gateway.http.get(f"{gateway.path}/consumers/none/live")
    assert (missing.status_code, missing.json()["err_code"]) == (404, 10014)
    push = await gateway.add_consumer("p", deliver_subject=f"{gateway.subject}-push")
    assert (await gateway.http.get(f"{push}/live")).status_code == 409


async def test_a_reader_that_does_not_read_holds_nothing_up(gateway: Gateway) -> None:
    await gateway.add_stream(storage="memory")
    consumer = await gateway.add_consumer(max_ack_pending=-1, ack_wait=_HOUR)
    size, count = 128 * 1024, 240
    for number in range(count):
        await gateway.publish(b"%08d" % number + b"x" * (size - 8))
    reader, writer = await asyncio.open_connection(*gateway.address, limit=2**16)
    writer.write(
        f"GET {consumer}/live?on_disconnect=nak HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    )
    await writer.drain()
    await reader.readuntil(b"\r\n\r\n")
    seen = set()
    async with gateway.lines(f"{consumer}/live?on_disconnect=nak") as lines:
        # The other one reads all but what is stuck before the one that does not.
        async with asyncio.timeout(PATIENCE_S):
            while (await gateway.http.get(consumer)).json()["num_pending"]:
                message = await lines.next()
                seen.add(message["seq"])
    assert len(seen) * size > 10 * 2**20
    writer.close()
    # And when that one is gone, everything is there for others.
    async with gateway.lines(f"{consumer}/live") as lines:
        again = {(await lines.next())["seq"] for _ in range(count)}
    assert again == set(range(1, count + 1))


async def test_a_message_bigger_than_the_buffer_comes_through(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    gateway: Gateway = await start_gateway(shared_server(jetstream=True), stream_buffer=1000)
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("small", "x" * 5000, "small again")
    async with gateway.lines(f"{consumer}/live") as lines:
        assert [len(message["data"]) for message in await lines.take(3)] == [5, 5000, 11]


async def test_a_lost_link_to_nats_is_survived_by_readers_of_consumers(
    own_server: Callable[..., ServerProcess], start_gateway: Any
) -> None:
    server = own_server(jetstream=True)
    gateway: Gateway = await start_gateway(server)
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1")
    async with gateway.lines(f"{consumer}/live") as lines:
        first = await lines.next()
        await _ack(gateway, consumer, first)
        await asyncio.to_thread(server.restart)
        await is_up(gateway.server)
        await gateway.publish_in_the_end(b"2")
        assert (await lines.next())["data"] == "2"


async def test_a_gateway_that_died_leaves_its_messages_to_another(
    start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    first: Gateway = await start_gateway(shared_server(jetstream=True))
    second: Gateway = await start_gateway(shared_server(jetstream=True))
    await first.add_stream()
    consumer = await first.add_consumer(ack_wait=1_000_000_000)
    await first.publish("1")
    async with first.lines(f"{consumer}/live") as lines:
        await lines.next()
        await first.server.core.links.own.close()  # as if its process were gone: nothing is given back
        (message,) = await second.fetch(consumer, batch=1, expires=60)
        assert message["data"] == "1"
        assert message["delivered"] >= 2
        await lines.rest()
