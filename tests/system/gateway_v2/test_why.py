"""Reasons why a consumer does not deliver, asked of real servers in that state."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from millstream.link.link import Link
from millstream.link.options import LinkOptions, parse_servers
from tests.kits.gateway.v2 import Gateway, eventually
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess

_SECOND = 1_000_000_000


@asynccontextmanager
async def connected(nats: ServerProcess, **options: Any) -> AsyncIterator[Link]:
    async with Link(LinkOptions(servers=parse_servers(nats.client_url), **options)) as link:
        yield link


async def why(gateway: Gateway, consumer: str) -> dict[str, Any]:
    answer = await gateway.http.get(f"{consumer}/why")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def kinds(found: dict[str, Any]) -> list[str]:
    return [cause["kind"] for cause in found["causes"]]


async def take(link: Link, gateway: Gateway, name: str, count: int, **pull: Any) -> list[str]:
    """Take messages without acknowledging them; returns where they are acknowledged."""
    inbox = link.new_inbox()
    async with link.subscribe(inbox) as messages:
        body = json.dumps({"batch": count, **pull}).encode()
        link.publish(f"$JS.API.CONSUMER.MSG.NEXT.{gateway.stream}.{name}", body, reply=inbox)
        return [(await messages.next(PATIENCE_S)).reply for _ in range(count)]


async def test_nobody_pulls_and_then_everything_is_delivered(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    found = await why(gateway, consumer)
    assert (found["verdict"], kinds(found)) == ("idle", ["caught_up"])
    await gateway.publish(b"1")
    found = await why(gateway, consumer)
    assert (found["verdict"], kinds(found)) == ("blocked", ["no_pulls"])
    assert (found["stream"], found["consumer"]) == (gateway.stream, "c")
    await gateway.fetch(consumer, batch=1)
    found = await why(gateway, consumer)
    assert (found["verdict"], kinds(found)) == ("idle", ["waiting_for_acks"])


async def test_too_many_messages_wait_for_acks(gateway: Gateway, server_kind: ServerKind) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1", b"2", b"3")
    consumer = await gateway.add_consumer(max_ack_pending=2)
    async with connected(gateway.nats) as link:
        await take(link, gateway, "c", 2)
    found = await why(gateway, consumer)
    assert (found["verdict"], kinds(found)[0]) == ("blocked", "max_ack_pending")
    shown = found["causes"][0]["evidence"]
    assert (shown["messages"][0]["seq"], shown["num_ack_pending"]) == (1, 2)
    assert shown["messages"][0]["subject"] == f"{gateway.subject}.a"
    assert shown["since"]
    if server_kind is ServerKind.MILLSTREAM:
        assert [each["seq"] for each in shown["messages"]] == [1, 2]
        assert all(each["redeliver"] > each["delivered"] for each in shown["messages"])


async def test_nobody_listens(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1")
    consumer = await gateway.add_consumer(deliver_subject=f"{gateway.subject}-out")
    found = await why(gateway, consumer)
    assert (found["verdict"], kinds(found)) == ("blocked", ["no_interest"])
    async with connected(gateway.nats) as link, link.subscribe(f"{gateway.subject}-out") as messages:
        await messages.next(PATIENCE_S)
        found = await why(gateway, consumer)
        assert (found["verdict"], kinds(found)) == ("idle", ["waiting_for_acks"])


async def test_it_is_paused(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1")
    consumer = await gateway.add_consumer()
    await gateway.http.post(f"{consumer}/pause", json={"seconds": 600})
    found = await why(gateway, consumer)
    assert (found["verdict"], kinds(found)[0]) == ("blocked", "paused")
    await gateway.http.post(f"{consumer}/resume")
    assert "paused" not in kinds(await why(gateway, consumer))


async def test_it_is_pinned_to_another_client_until_it_is_unpinned(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1", b"2")
    consumer = await gateway.add_consumer(
        priority_groups=["g"], priority_policy="pinned_client", priority_timeout=120 * _SECOND
    )
    async with connected(gateway.nats) as link:
        await take(link, gateway, "c", 1, group="g")
        async with link.subscribe(inbox := link.new_inbox()) as messages:
            body = json.dumps({"batch": 1, "group": "g", "expires": 60 * _SECOND}).encode()
            link.publish(f"$JS.API.CONSUMER.MSG.NEXT.{gateway.stream}.c", body, reply=inbox)
            await gateway.consumer_has(consumer, "num_waiting", 1)
            found = await why(gateway, consumer)
            assert "pinned" in kinds(found)
            pins = next(cause for cause in found["causes"] if cause["kind"] == "pinned")["evidence"]["pins"]
            assert (pins[0]["group"], bool(pins[0]["client"])) == ("g", True)
            assert (await gateway.http.post(f"{consumer}/unpin")).status_code == 200
            await messages.next(PATIENCE_S)


async def test_the_filter_matches_nothing(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1")
    consumer = await gateway.add_consumer(filter_subject=f"{gateway.subject}.none")
    found = await why(gateway, consumer)
    assert (found["verdict"], kinds(found)[0]) == ("idle", "filter_matches_nothing")


async def test_messages_were_given_up_and_others_wait_for_their_backoff(
    gateway: Gateway, server_kind: ServerKind
) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1")
    gives_up = await gateway.add_consumer("gives-up", max_deliver=2, ack_wait=_SECOND // 10)
    waits = await gateway.add_consumer("waits", max_deliver=5, backoff=[_SECOND // 10, 600 * _SECOND])
    async with connected(gateway.nats) as link:
        await take(link, gateway, "gives-up", 2, expires=60 * _SECOND)
        await take(link, gateway, "waits", 2, expires=60 * _SECOND)

        async def is_given_up() -> bool:
            link.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{gateway.stream}.gives-up", b'{"no_wait":true}', reply="x"
            )
            return "max_deliver" in kinds(await why(gateway, gives_up))

        await eventually(is_given_up)
        found = await why(gateway, gives_up)
        assert found["verdict"] == "idle"
        if server_kind is ServerKind.MILLSTREAM:
            shown = next(cause["evidence"] for cause in found["causes"] if cause["kind"] == "max_deliver")
            assert shown["sequences"] == [1]
    found = await why(gateway, waits)
    assert (found["verdict"], kinds(found)[0]) == ("idle", "backoff")
    assert found["causes"][0]["evidence"]["estimated"] == (server_kind is not ServerKind.MILLSTREAM)


async def test_a_rate_limit_slows_it_down(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(*[b"x" * 700_000] * 4)  # more than the burst that servers allow
    slow = await gateway.add_consumer("slow", deliver_subject=f"{gateway.subject}-out", rate_limit_bps=80_000)
    async with connected(gateway.nats) as link, link.subscribe(f"{gateway.subject}-out"):
        await link.flush()

        async def is_slow() -> bool:
            found = await why(gateway, slow)
            return bool(found["verdict"] == "delivering" and "rate_limit" in kinds(found))

        await eventually(is_slow)


async def test_a_sealed_stream_and_a_later_start(gateway: Gateway) -> None:
    await gateway.add_stream()
    await gateway.publish(b"1")
    later = await gateway.add_consumer("later", deliver_policy="by_start_sequence", opt_start_seq=100)
    assert kinds(await why(gateway, later))[0] == "starts_later"
    done = await gateway.add_consumer("done", deliver_policy="new")
    assert (await gateway.http.post(f"{gateway.path}/seal")).status_code == 200
    found = await why(gateway, done)
    assert (found["verdict"], kinds(found)[0]) == ("idle", "stream_sealed")


async def test_what_is_not_there_is_404(gateway: Gateway) -> None:
    await gateway.add_stream()
    assert (await gateway.http.get(f"{gateway.path}/consumers/none/why")).status_code == 404
    assert (await gateway.http.get("/v2/streams/NONE/consumers/none/why")).status_code == 404


_LITTLE = """
authorization: {users: [
  {user: own, password: pw}
  {user: spy, password: pw, permissions: {
    publish: {deny: ["$JS.API.CONSUMER.>"]}, subscribe: ">"}}
]}
no_auth_user: own
"""


async def test_insight_is_for_those_who_may_ask_for_the_info(
    start_gateway: Callable[..., Any],
    shared_server: Callable[..., ServerProcess],
    server_kind: ServerKind,
) -> None:
    if server_kind is not ServerKind.MILLSTREAM:
        pytest.skip("other servers have no insight")
    nats = shared_server(config=_LITTLE, jetstream=True)
    gateway: Gateway = await start_gateway(nats)
    await gateway.add_stream()
    await gateway.publish(b"1")
    await gateway.add_consumer()
    subject = f"$MILLSTREAM.INSIGHT.CONSUMER.{gateway.stream}.c"
    async with connected(nats, user="own", password="pw") as link:
        await take(link, gateway, "c", 1)
        answer = json.loads((await link.request(subject)).payload)
        assert [each["seq"] for each in answer["pending"]] == [1]
        assert json.loads((await link.request(f"{subject}x")).payload) == {"error": "consumer not found"}
    async with connected(nats, user="spy", password="pw") as link:
        assert json.loads((await link.request(subject)).payload) == {"error": "not permitted"}


async def test_a_million_pending_messages_hold_nobody_up(gateway: Gateway, server_kind: ServerKind) -> None:
    """Insight is bounded: the answer has a hundred messages, however many are pending."""
    await gateway.add_stream()
    lines = "\n".join(json.dumps({"subject": f"{gateway.subject}.a", "data": "x"}) for _ in range(300))
    headers = {"Content-Type": "application/x-ndjson"}
    assert (await gateway.http.post("/v2/messages", content=lines, headers=headers)).status_code == 200
    consumer = await gateway.add_consumer(max_ack_pending=200)
    async with connected(gateway.nats) as link:
        await take(link, gateway, "c", 200)
        if server_kind is ServerKind.MILLSTREAM:
            answer = await link.request(f"$MILLSTREAM.INSIGHT.CONSUMER.{gateway.stream}.c")
            assert len(json.loads(answer.payload)["pending"]) == 100
    async with asyncio.timeout(PATIENCE_S):
        found = await why(gateway, consumer)
    assert len(found["causes"][0]["evidence"]["messages"]) in (1, 10)
