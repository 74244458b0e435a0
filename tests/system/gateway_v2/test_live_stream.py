"""A stream as it grows: NDJSON and Server-Sent Events on an ordered consumer."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.gateway.v2 import Gateway, Lines, eventually, is_up
from tests.kits.reference import ServerProcess

_EVENTS = {"Accept": "text/event-stream"}


async def test_messages_come_in_order_first_those_there_then_new_ones(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1", "2")
    async with gateway.lines(f"{gateway.path}/live") as lines:
        assert lines.answer.headers["Content-Type"] == "application/x-ndjson"
        assert lines.answer.headers["X-Accel-Buffering"] == "no"
        first = await lines.take(2)
        await gateway.publish("3")
        assert [message["data"] for message in [*first, await lines.next()]] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["1", "2", "3", "4", "new"]),
        ("start=last", ["4", "new"]),
        ("start=new", ["new"]),
        ("start=last_per_subject", ["3", "4", "new"]),
        ("seq=3", ["3", "4", "new"]),
        ("subject={subject}.b", ["2", "4"]),
        ("subject={subject}.b&subject={subject}.c&seq=3", ["4"]),
    ],
)
async def test_reading_begins_where_it_is_told(gateway: Gateway, query: str, expected: list[str]) -> None:
    await gateway.add_stream()
    for number, token in enumerate("abab", start=1):
        await gateway.publish(str(number), token=token)
    async with gateway.lines(f"{gateway.path}/live?{query.format(subject=gateway.subject)}") as lines:
        await gateway.publish("new", token="a")
        assert [message["data"] for message in await lines.take(len(expected))] == expected


async def test_reading_begins_at_a_time(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1", "2", "3")
    time = (await gateway.http.get(f"{gateway.path}/messages/2")).json()["time"]
    async with gateway.lines(f"{gateway.path}/live?since={time}") as lines:
        seen = await lines.next()
        assert seen["data"] in ("1", "2")  # to the microsecond


async def test_events_have_the_sequence_as_their_id_and_go_on_behind_it(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1", "2", "3")
    async with gateway.http.stream("GET", f"{gateway.path}/live", headers=_EVENTS) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        lines = Lines(answer)
        assert [await lines.text() for _ in range(2)] == ["retry: 2000", ""]
        assert await lines.text() == "id: 1"
        data = (await lines.text()).removeprefix("data: ")
        assert json.loads(data)["data"] == "1"
        assert await lines.text() == ""
    resumed = {**_EVENTS, "Last-Event-ID": "2"}
    async with gateway.http.stream("GET", f"{gateway.path}/live?seq=1", headers=resumed) as answer:
        lines = Lines(answer)
        assert [await lines.text() for _ in range(3)] == ["retry: 2000", "", "id: 3"]
    wrong = await gateway.http.get(f"{gateway.path}/live", headers={**_EVENTS, "Last-Event-ID": "x"})
    assert wrong.status_code == 400


async def test_a_line_on_which_nothing_happens_is_kept_alive(gateway: Gateway) -> None:
    await gateway.add_stream()
    async with gateway.http.stream("GET", f"{gateway.path}/live?heartbeat=0.1", headers=_EVENTS) as answer:
        lines = Lines(answer)
        assert [await lines.text() for _ in range(4)] == ["retry: 2000", "", ": ping", ""]
    async with gateway.lines(f"{gateway.path}/live?heartbeat=0.1") as lines:
        assert await lines.next() == {"ping": True}


async def test_what_can_not_be_read_is_refused_before_it_begins(gateway: Gateway) -> None:
    missing = await gateway.http.get(f"{gateway.path}/live")
    assert (missing.status_code, missing.json()["err_code"]) == (404, 10059)
    await gateway.add_stream()
    for query in ("seq=0", "start=middle", "seq=1&start=new", "since=now", "subject=a%20b", "heartbeat=0.01"):
        assert (await gateway.http.get(f"{gateway.path}/live?{query}")).status_code == 400


async def test_the_end_of_the_stream_ends_the_reading_with_a_problem(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1")
    async with (
        gateway.lines(f"{gateway.path}/live") as lines,
        gateway.http.stream("GET", f"{gateway.path}/live", headers=_EVENTS) as events,
    ):
        await lines.next()
        assert (await gateway.http.delete(gateway.path)).status_code == 204
        (last,) = await lines.rest()
        assert json.loads(last)["problem"]["status"] == 404
        *_, event, data, _ = await Lines(events).rest()
        assert (event, json.loads(data.removeprefix("data: "))["status"]) == ("event: problem", 404)
    # An EventSource comes back after that, and this is what ends it.
    assert (await gateway.http.get(f"{gateway.path}/live", headers=_EVENTS)).status_code == 404


async def test_a_gateway_that_stops_says_so(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1")
    async with gateway.lines(f"{gateway.path}/live") as lines:
        await lines.next()
        gateway.server.core.stopping.set()
        (last,) = await lines.rest()
        assert json.loads(last)["problem"]["status"] == 503


async def test_nobody_is_left_on_the_server_when_the_reader_goes(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish("1")
    async with gateway.lines(f"{gateway.path}/live") as lines:
        await lines.next()
        assert (await gateway.http.get(gateway.path)).json()["state"]["consumer_count"] == 1

    async def nobody_reads() -> bool:
        return not (await gateway.http.get(gateway.path)).json()["state"]["consumer_count"]

    await eventually(nobody_reads)


async def test_a_reader_that_does_not_read_holds_back_only_itself(gateway: Gateway) -> None:
    await gateway.add_stream(max_bytes=-1, storage="memory")
    size, count = 128 * 1024, 240
    subject = f"{gateway.subject}.a"
    for number in range(count):
        body = b"%08d" % number + b"x" * (size - 8)
        assert (await gateway.http.post(f"/v2/subjects/{subject}", content=body)).status_code == 200
    delivered = gateway.server.core.metrics.delivered.labels("v2")
    reader, writer = await asyncio.open_connection(*gateway.address, limit=2**16)
    writer.write(f"GET {gateway.path}/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()
    await reader.readuntil(b"\r\n\r\n")
    async with gateway.lines(f"{gateway.path}/live") as lines:  # another one reads to the end meanwhile
        for number in range(count):
            assert (await lines.next())["seq"] == number + 1
    slow = delivered.value - count
    assert slow * size < 16 * 2**20  # what the buffers of two sockets hold, of 30 MiB
    rest = bytearray()
    while rest.count(b'"seq":') < count:
        rest += await reader.read(2**20)
    writer.close()
    numbers = [int(part[:8]) for part in bytes(rest).split(b'"data":"')[1:]]
    assert numbers == list(range(count))


async def test_a_lost_link_to_nats_is_survived(
    own_server: Callable[..., ServerProcess], start_gateway: Any
) -> None:
    server = own_server(jetstream=True)
    gateway: Gateway = await start_gateway(server)
    await gateway.add_stream()
    await gateway.publish("1", "2")
    async with (
        gateway.lines(f"{gateway.path}/live") as everything,
        gateway.lines(f"{gateway.path}/live?start=new") as new,
    ):
        assert [message["data"] for message in await everything.take(2)] == ["1", "2"]
        await asyncio.to_thread(server.restart)
        await is_up(gateway.server)
        await gateway.publish_in_the_end(b"3")
        assert (await everything.next())["data"] == "3"
        assert (await new.next())["data"] == "3"
