"""Taking messages and acknowledging them, call by call."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.gateway.v2 import Gateway
from tests.kits.reference import ServerProcess


async def _acknowledge(gateway: Gateway, consumer: str, *acks: dict[str, Any], **more: Any) -> list[str]:
    answer = await gateway.http.post(f"{consumer}/acks", json={"acks": list(acks), **more})
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [result["ack_id"] for result in results] == [ack["ack_id"] for ack in acks]
    assert answer.json()["ok"] == all(result["ok"] for result in results)
    return [result["status"] for result in results]


async def test_a_batch_is_taken_in_order_and_no_more_than_asked_for(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1", "2", "3")
    first = await gateway.fetch(consumer, batch=2)
    assert [(m["data"], m["seq"], m["delivered"], m.get("pending", 0)) for m in first] == [
        ("1", 1, 1, 2),
        ("2", 2, 1, 1),
    ]
    assert {message["consumer"] for message in first} == {"c"}
    assert [message["data"] for message in await gateway.fetch(consumer, batch=9, no_wait=True)] == ["3"]
    assert await gateway.fetch(consumer, batch=9, no_wait=True) == []


async def test_a_fetch_waits_for_what_comes(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    fetching = asyncio.create_task(gateway.fetch(consumer, batch=2, expires=50))
    await gateway.publish("1", "2")
    assert [message["data"] for message in await fetching] == ["1", "2"]


async def test_a_fetch_without_a_body_takes_one_and_an_expired_one_nothing(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1", "2")
    answer = await gateway.http.post(f"{consumer}/fetch")
    assert [message["data"] for message in answer.json()["messages"]] == ["1"]
    assert [message["data"] for message in await gateway.fetch(consumer, batch=5, expires=0.5)] == ["2"]
    assert await gateway.fetch(consumer, batch=5, expires=0.1) == []


async def test_bytes_are_limited_too(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish(b"x" * 4000, b"y" * 4000)
    (message,) = await gateway.fetch(consumer, batch=5, max_bytes=6000)
    assert message["data"][0] == "x"
    small = await gateway.http.post(f"{consumer}/fetch", json={"batch": 5, "max_bytes": 100})
    assert small.status_code == 409


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"batch": "2"}, {"expires": -1}, {"unknown": 1}, []])
async def test_a_fetch_that_makes_no_sense_is_400(gateway: Gateway, wrong: object) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    assert (await gateway.http.post(f"{consumer}/fetch", json=wrong)).status_code == 400


async def test_fetching_from_no_consumer_is_404_and_from_a_push_consumer_409(gateway: Gateway) -> None:
    await gateway.add_stream()
    missing = await gateway.http.post(f"{gateway.path}/consumers/none/fetch", json={"expires": 0.5})
    assert (missing.status_code, missing.json()["err_code"]) == (404, 10014)
    push = await gateway.add_consumer("p", deliver_subject=f"{gateway.subject}-push")
    answer = await gateway.http.post(f"{push}/fetch", json={"expires": 0.5})
    assert answer.status_code == 409, answer.text


async def test_acknowledgements_do_what_they_say(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("ack", "nak", "term", "progress", "later")
    by_data = {message["data"]: message["ack_id"] for message in await gateway.fetch(consumer, batch=5)}
    statuses = await _acknowledge(
        gateway,
        consumer,
        {"ack_id": by_data["ack"]},
        {"ack_id": by_data["nak"], "op": "nak"},
        {"ack_id": by_data["term"], "op": "term", "reason": "not wanted"},
        {"ack_id": by_data["progress"], "op": "progress"},
        {"ack_id": by_data["later"], "op": "nak", "delay": 1000},
    )
    assert statuses == ["confirmed"] * 5
    again = await gateway.fetch(consumer, batch=1)
    assert [(message["data"], message["delivered"]) for message in again] == [("nak", 2)]
    info = (await gateway.http.get(consumer)).json()
    assert (info["num_ack_pending"], info["num_redelivered"]) == (3, 1)
    assert info["ack_floor"]["stream_seq"] == 1


async def test_results_are_truthful(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1")
    (message,) = await gateway.fetch(consumer)
    good = {"ack_id": message["ack_id"]}
    never = {"ack_id": "1.99.99.1767225600000000000.0"}  # was never delivered
    wrong = {"ack_id": message["ack_id"], "op": "ack", "delay": 1}
    assert await _acknowledge(gateway, consumer, good, wrong) == ["confirmed", "refused"]
    assert await _acknowledge(gateway, consumer, never, timeout=1) == ["unanswered"]
    assert await _acknowledge(gateway, consumer, good) == ["confirmed"]  # once more changes nothing
    assert await _acknowledge(gateway, consumer, good, confirm=False) == ["sent"]
    await gateway.http.delete(consumer)
    assert await _acknowledge(gateway, consumer, good) == ["gone"]


async def test_any_gateway_takes_the_acks_of_another(
    gateway: Gateway, start_gateway: Any, shared_server: Callable[..., ServerProcess]
) -> None:
    other: Gateway = await start_gateway(shared_server(jetstream=True))
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    await gateway.publish("1")
    (message,) = await gateway.fetch(consumer)
    assert await _acknowledge(other, consumer, {"ack_id": message["ack_id"]}) == ["confirmed"]
    assert (await gateway.http.get(consumer)).json()["num_ack_pending"] == 0


async def test_what_a_caller_that_left_early_was_sent_is_delivered_again_at_once_if_it_said_so(
    gateway: Gateway,
) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=3600 * 1_000_000_000)
    await gateway.publish("1", "2")
    reader, writer = await asyncio.open_connection(*gateway.address)
    body = b'{"batch":5,"expires":300,"on_disconnect":"nak"}'
    writer.write(b"POST %b/fetch HTTP/1.1\r\nHost: x\r\n" % consumer.encode())
    writer.write(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()
    await reader.readuntil(b'"data":"2"')  # the answer is under way
    writer.close()
    await writer.wait_closed()
    again = [
        *await gateway.fetch(consumer, batch=1, expires=60),
        *await gateway.fetch(consumer, batch=1, expires=60),
    ]
    assert [(message["data"], message["delivered"]) for message in again] == [("1", 2), ("2", 2)]
    await reader.read()
