"""Subscriptions over `/v1/data`: what is delivered, acknowledged, delivered anew, and refused."""

import asyncio
import base64
import json
from typing import Any

import pytest

from tests.kits.gateway.v1 import (
    Gateway,
    Lab,
    Lines,
    MakeGateway,
    eventually,
    payload_of,
    settings_for,
    with_limits,
)
from tests.kits.reference import ServerProcess

SECOND_NS = 1_000_000_000


async def test_the_head_comes_before_any_message_and_says_what_httpmq_says(lab: Lab) -> None:
    await lab.consumer()
    async with lab.subscribed() as lines:
        assert lines.headers["content-type"] == "text/event-stream"
        assert lines.headers["cache-control"] == "no-cache"
        assert lines.headers["connection"] == "keep-alive"
        assert lines.headers["transfer-encoding"] == "chunked"
        assert lines.headers["httpmq-request-id"]


async def test_a_line_has_what_httpmq_has_and_more_behind_it(lab: Lab) -> None:
    await lab.consumer(filter_subject=f"{lab.stream}.*")
    await lab.publish("hello", "b")
    async with lab.subscribed(token="*") as lines:
        line = await lines.next()
    assert list(line)[:7] == ["success", "request_id", "stream", "subject", "consumer", "sequence", "b64_msg"]
    assert line["request_id"] == lines.headers["httpmq-request-id"]
    assert (line["stream"], line["subject"], line["consumer"]) == (lab.stream, lab.subject("*"), "c")
    assert line["sequence"] == {"stream": 1, "consumer": 1}
    assert line["b64_msg"] == base64.b64encode(b"hello").decode()
    assert (line["subject_actual"], line["num_delivered"]) == (lab.subject("b"), 1)


async def test_an_ack_frees_the_consumer_for_the_next_message(lab: Lab) -> None:
    await lab.consumer(max_inflight=1)
    for text in ("one", "two"):
        await lab.publish(text)
    async with lab.subscribed() as lines:
        first = await lines.next()
        assert payload_of(first) == "one"
        assert (await lab.ack(first))["acked"] is True
        assert await lines.text() == "two"


async def test_the_sessions_window_holds_messages_back(lab: Lab) -> None:
    await lab.consumer(max_inflight=10)
    for number in range(5):
        await lab.publish(str(number))
    async with lab.subscribed(max_msg_inflight=2) as lines:
        assert [await lines.text(), await lines.text()] == ["0", "1"]
        # All five are out, as JetStream sees it; two of them with us.
        await eventually(lambda: has(lab, num_ack_pending=5), "not all were delivered")
        assert await lines.silent_for(0.2)
    async with lab.subscribed(max_msg_inflight=0) as lines:
        assert sorted([await lines.text() for _ in range(3)]) == ["2", "3", "4"]


async def has(lab: Lab, **values: int) -> bool:
    info = await lab.info()
    return all(info[name] == value for name, value in values.items())


async def test_a_held_message_keeps_its_time_until_it_is_written(lab: Lab) -> None:
    await lab.consumer(max_inflight=2, ack_wait=5 * SECOND_NS, max_retry=1)
    for text in ("one", "two"):
        await lab.publish(text)
    async with lab.subscribed(max_msg_inflight=1) as lines:
        assert await lines.text() == "one"
        # The first is given up after five seconds, which makes room for the second: its only delivery.
        second = await lines.next()
        assert (payload_of(second), second["num_delivered"]) == ("two", 1)
        assert (await lab.ack(second))["acked"] is True


async def attempts_up_to(lines: Lines, last: int) -> list[dict[str, int]]:
    """The sequences that are seen; attempts that come in one breath are written once."""
    seen: list[dict[str, int]] = [(await lines.next())["sequence"]]
    while seen[-1]["consumer"] < last:
        seen.append((await lines.next())["sequence"])
    return seen


async def test_an_unacknowledged_message_comes_again_with_the_next_consumer_sequence(lab: Lab) -> None:
    await lab.consumer(ack_wait=SECOND_NS // 2, max_retry=3)
    await lab.publish("again")
    async with lab.subscribed() as lines:
        sequences = await attempts_up_to(lines, 3)
        numbers = [each["consumer"] for each in sequences]
        assert numbers == sorted(set(numbers))
        assert all(each["stream"] == 1 for each in sequences)
        await eventually(lambda: has(lab, num_ack_pending=0), "it is still out")
        assert await lines.silent_for(0.2)


async def test_an_ack_may_have_the_sequence_of_an_earlier_attempt(lab: Lab) -> None:
    await lab.consumer(ack_wait=SECOND_NS // 2)
    await lab.publish("again")
    async with lab.subscribed() as lines:
        first, second = await lines.next(), await lines.next()
        assert second["sequence"]["consumer"] > first["sequence"]["consumer"]
        assert (await lab.ack(first))["acked"] is True
        await eventually(lambda: has(lab, num_ack_pending=0), "the ack had no effect")


async def test_the_streams_retention_ends_retransmission(lab: Lab) -> None:
    await lab.consumer(ack_wait=SECOND_NS, max_retry=100)
    await lab.publish("short-lived")
    async with lab.subscribed() as lines:
        await lines.next()
        limits = {"max_age": SECOND_NS // 2}
        await lab.gateway.good("PUT", f"/v1/admin/stream/{lab.stream}/limit", limits)

        async def is_empty() -> bool:
            told = await lab.gateway.good("GET", f"/v1/admin/stream/{lab.stream}")
            return bool(told["stream"]["state"]["messages"] == 0)

        await eventually(is_empty, "the message did not expire")
        await eventually(lambda: has(lab, num_ack_pending=0), "it is still out")
        await lab.gateway.good("PUT", f"/v1/admin/stream/{lab.stream}/limit", {"max_age": 0})
        await lab.publish("the next")
        line = await lines.next()
        while payload_of(line) == "short-lived":  # it may have come again before it expired
            line = await lines.next()
        assert payload_of(line) == "the next"


async def test_an_ack_without_effect_says_so(lab: Lab) -> None:
    await lab.consumer()
    await lab.publish("x")
    line: dict[str, Any] = {"consumer": "c", "sequence": {"stream": 1, "consumer": 1}}
    assert (await lab.ack(line))["acked"] is False  # never delivered
    async with lab.subscribed() as lines:
        delivered = await lines.next()
        assert (await lab.ack(delivered))["acked"] is True
        assert (await lab.ack(delivered))["acked"] is False
    assert (await lab.ack({**line, "consumer": "nobody"}))["acked"] is False


@pytest.mark.parametrize(
    "body",
    ["", "{}", '{"stream":1}', '{"stream":0,"consumer":1}', '{"stream":1,"consumer":-1}', '{"stream":"1"}'],
)
async def test_an_ack_needs_both_sequences(plain_gateway: Gateway, body: str) -> None:
    refused = await plain_gateway.refused("POST", "/v1/data/stream/s/consumer/c/ack", body)
    assert refused == (400, 400, "Unable to parse request body")


async def test_acks_work_at_another_gateway_and_free_the_window(
    lab: Lab, js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    other = await start_gateway(js_server.client_url)
    await lab.consumer(max_inflight=10)
    for text in ("one", "two"):
        await lab.publish(text)
    async with lab.subscribed(max_msg_inflight=1) as lines:
        first = await lines.next()
        assert (await lab.ack(first, other))["acked"] is True
        assert await lines.text() == "two"  # long before the consumer's 30 s are over


async def test_acks_work_after_the_subscription_is_gone(lab: Lab) -> None:
    await lab.consumer()
    await lab.publish("x")
    async with lab.subscribed() as lines:
        line = await lines.next()
    assert (await lab.ack(line))["acked"] is True
    assert (await lab.info())["num_ack_pending"] == 0


async def test_a_broadcast_of_httpmq_itself_acknowledges(lab: Lab) -> None:
    await lab.consumer()
    await lab.publish("x")
    async with lab.subscribed() as lines:
        line = await lines.next()
        told = {"stream": lab.stream, "consumer": "c", "seq_num": line["sequence"]}
        link = lab.gateway.server.core.links.own
        link.publish(f"ack-rx.{lab.stream}.c", json.dumps(told).encode())
        await eventually(lambda: has(lab, num_ack_pending=0), "the broadcast had no effect")


async def test_one_consumer_has_one_reader(lab: Lab) -> None:
    await lab.consumer()
    async with lab.subscribed():
        path = f"/v1/data/stream/{lab.stream}/consumer/c?subject_name={lab.subject()}"
        status, told = await lab.gateway.call("GET", path)
        assert (status, told["error"]["message"]) == (500, "Unable to define dispatcher")
        assert told["error"]["detail"] == "nats: consumer is already bound to a subscription"


async def test_a_delivery_group_shares_the_messages(lab: Lab) -> None:
    await lab.consumer(delivery_group="workers", max_inflight=100)
    async with (
        lab.subscribed(delivery_group="workers", max_msg_inflight=0) as one,
        lab.subscribed(delivery_group="workers", max_msg_inflight=0) as two,
    ):
        got: list[str] = []

        async def read(lines: Any) -> None:
            while True:
                line = await lines.next()
                got.append(payload_of(line))
                await lab.ack(line)

        readers = [asyncio.ensure_future(read(lines)) for lines in (one, two)]
        for number in range(20):
            await lab.publish(str(number))

        async def all_there() -> bool:
            return len(got) >= 20

        await eventually(all_there, "messages were lost")
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
    assert sorted(got, key=int) == [str(number) for number in range(20)]


async def test_subscriptions_that_do_not_fit_are_refused(lab: Lab) -> None:
    await lab.consumer()
    await lab.consumer("pull", mode="pull")
    await lab.consumer("group", delivery_group="workers")
    await lab.consumer("open", filter_subject="")
    here, subject = f"/v1/data/stream/{lab.stream}/consumer", lab.subject()
    for path, detail in (
        (f"{here}/c?subject_name={lab.subject('b')}", "nats: subject does not match consumer"),
        (f"{here}/c?subject_name=", "illegal"),
        (f"{here}/c?subject_name=a%20b", "illegal"),
        (f"{here}/c?subject_name=a_b", "illegal"),
        (f"{here}/open?subject_name=not.stored", "nats: no stream matches subject"),
        (f"{here}/pull?subject_name={subject}", "must use pull subscribe"),
        (f"{here}/group?subject_name={subject}", "deliver group"),
        (f"{here}/group?subject_name={subject}&delivery_group=others", "delivery group"),
        (f"{here}/c?subject_name={subject}&delivery_group=workers", "without a deliver group"),
        (f"{here}/c?subject_name={subject}&delivery_group=a.b", "alphanum"),
        (f"{here}/unknown?subject_name={subject}", "consumer not found"),
        (f"/v1/data/stream/other/consumer/c?subject_name={subject}", "stream not found"),
    ):
        status, told = await lab.gateway.call("GET", path)
        assert (status, told["error"]["message"]) == (500, "Unable to define dispatcher"), path
        assert detail in told["error"]["detail"], path
    assert (
        "unknown"
        not in (await lab.gateway.good("GET", f"/v1/admin/stream/{lab.stream}/consumer"))["consumers"]
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "Missing subscribe subject / Multiple subjects"),
        ("subject_name=a&subject_name=b", "Missing subscribe subject / Multiple subjects"),
        ("subject_name=a&max_msg_inflight=1&max_msg_inflight=2", "Multiple max_msg_inflight"),
        ("subject_name=a&max_msg_inflight=x", "Unable to parse max_msg_inflight"),
        ("subject_name=a&max_msg_inflight=-1", "Unable to parse max_msg_inflight"),
        ("subject_name=a&max_msg_inflight=1.5", "Unable to parse max_msg_inflight"),
        ("subject_name=a&delivery_group=x&delivery_group=y", "Multiple delivery groups"),
    ],
)
async def test_queries_are_checked_first(plain_gateway: Gateway, query: str, message: str) -> None:
    refused = await plain_gateway.refused("GET", f"/v1/data/stream/s/consumer/c?{query}")
    assert refused == (400, 400, message)


@pytest.mark.parametrize("what", ["consumer", "stream"])
async def test_a_consumer_that_is_deleted_ends_the_subscription(lab: Lab, what: str) -> None:
    await lab.consumer()
    async with lab.subscribed() as lines:
        await lab.gateway.good(
            "DELETE",
            f"/v1/admin/stream/{lab.stream}" + ("/consumer/c" if what == "consumer" else ""),
        )
        last = await lines.next()
        assert (last["success"], last["error"]["code"]) == (False, 500)
        assert last["error"]["message"] == "Error occurred interacting with JetStream"
        assert await lines.ended()


async def test_real_events_for_those_who_ask_for_them(lab: Lab) -> None:
    await lab.consumer()
    await lab.publish("event")
    path = f"/v1/data/stream/{lab.stream}/consumer/c"
    async with lab.gateway.client.stream(
        "GET", path, params={"subject_name": lab.subject()}, headers={"accept": "text/event-stream"}
    ) as answer:
        lines = answer.aiter_lines()
        assert await anext(lines) == "id: 1"
        assert await anext(lines) == "event: message"
        data = await anext(lines)
        assert payload_of(json.loads(data.removeprefix("data: "))) == "event"


async def test_lines_under_their_own_name_for_those_who_ask_for_it(lab: Lab) -> None:
    await lab.consumer()
    path = f"/v1/data/stream/{lab.stream}/consumer/c"
    async with lab.gateway.client.stream(
        "GET", path, params={"subject_name": lab.subject()}, headers={"accept": "application/x-ndjson"}
    ) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"


async def test_subscriptions_are_limited(js_server: ServerProcess, start_gateway: MakeGateway) -> None:
    gateway = await start_gateway(with_limits(settings_for(js_server.client_url), streams=1))
    lab = Lab(gateway)
    await lab.create()
    for name in ("c", "d"):
        await lab.consumer(name)
    async with lab.subscribed("c"):
        answer = await gateway.client.get(
            f"/v1/data/stream/{lab.stream}/consumer/d", params={"subject_name": lab.subject()}
        )
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    await lab.remove()


async def test_text_beyond_ascii_is_escaped(lab: Lab) -> None:
    subject = f"{lab.stream}.größe"
    await lab.gateway.good("PUT", f"/v1/admin/stream/{lab.stream}/subject", {"subjects": [subject]})
    await lab.consumer(filter_subject=subject)
    await lab.gateway.good("POST", f"/v1/data/subject/{lab.stream}.gr%C3%B6%C3%9Fe", b"eA==")
    path = f"/v1/data/stream/{lab.stream}/consumer/c"
    async with lab.gateway.client.stream("GET", path, params={"subject_name": subject}) as answer:
        async for chunk in answer.aiter_bytes():
            assert chunk.isascii()
            assert json.loads(chunk)["subject"] == subject
            break
