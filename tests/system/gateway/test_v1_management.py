"""Streams and consumers over `/v1/admin`: answers, refusals and what JetStream then has."""

import asyncio
import uuid
from typing import Any

import pytest

from tests.kits.gateway.v1 import PATIENCE_S, Gateway, Lab, eventually

HOUR_NS = 3_600_000_000_000


async def test_a_stream_is_told_with_every_key(lab: Lab) -> None:
    told = await lab.gateway.good("GET", f"/v1/admin/stream/{lab.stream}")
    created = told["stream"].pop("created")
    assert created.endswith("Z")
    assert told["stream"] == {
        "config": {
            "name": lab.stream,
            "description": "",
            "subjects": [lab.subject("a"), lab.subject("b")],
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_msgs_per_subject": -1,
            "max_msg_size": -1,
            "max_age": 0,
        },
        "state": {
            "messages": 0,
            "bytes": 0,
            "first_seq": 0,
            "first_ts": "0001-01-01T00:00:00Z",
            "last_seq": 0,
            "last_ts": "0001-01-01T00:00:00Z",
            "consumer_count": 0,
        },
    }


async def test_a_consumer_is_told_with_every_key(lab: Lab) -> None:
    await lab.consumer(max_inflight=4, notes="for tests", max_retry=3, ack_wait=5_000_000_000)
    info = await lab.info()
    assert info.pop("created").endswith("Z")
    assert info["config"].pop("deliver_subject").startswith("_INBOX.")
    assert info == {
        "stream_name": lab.stream,
        "name": "c",
        "config": {
            "notes": "for tests",
            "deliver_group": "",
            "max_deliver": 3,
            "ack_wait": 5_000_000_000,
            "filter_subject": lab.subject("a"),
            "max_waiting": 0,
            "max_ack_pending": 4,
        },
        "delivered": {"consumer_seq": 0, "stream_seq": 0},
        "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
        "num_ack_pending": 0,
        "num_redelivered": 0,
        "num_waiting": 0,
        "num_pending": 0,
    }


@pytest.mark.parametrize(("given", "told"), [({}, -1), ({"max_retry": 0}, -1), ({"max_retry": 7}, 7)])
async def test_no_max_retry_and_zero_are_unlimited(lab: Lab, given: dict[str, int], told: int) -> None:
    await lab.consumer(**given)
    assert (await lab.info())["config"]["max_deliver"] == told


async def test_a_pull_consumer_has_no_deliver_subject(lab: Lab) -> None:
    await lab.consumer(mode="pull")
    config = (await lab.info())["config"]
    assert (config["deliver_subject"], config["max_waiting"], config["ack_wait"]) == ("", 512, 30_000_000_000)


async def test_a_stream_without_subjects_takes_its_name(gateway: Gateway) -> None:
    name = f"N{uuid.uuid4().hex}"
    await gateway.good("POST", "/v1/admin/stream", {"name": name})
    told = await gateway.good("GET", f"/v1/admin/stream/{name}")
    assert told["stream"]["config"]["subjects"] == [name]
    await gateway.good("DELETE", f"/v1/admin/stream/{name}")


async def test_limits_change_alone(lab: Lab) -> None:
    path = f"/v1/admin/stream/{lab.stream}"
    await lab.gateway.good("PUT", f"{path}/limit", {"max_age": HOUR_NS, "max_msgs": 10})
    await lab.gateway.good("PUT", f"{path}/limit", {"max_bytes": 1 << 20})
    await lab.gateway.good("PUT", f"{path}/limit", {})
    config = (await lab.gateway.good("GET", path))["stream"]["config"]
    assert (config["max_age"], config["max_msgs"], config["max_bytes"]) == (HOUR_NS, 10, 1 << 20)
    link = lab.gateway.server.core.links.own
    info = await link.api(f"STREAM.INFO.{lab.stream}")
    assert info["config"]["duplicate_window"] == HOUR_NS


async def test_subjects_are_replaced_as_a_whole(lab: Lab) -> None:
    path = f"/v1/admin/stream/{lab.stream}"
    wanted = [lab.subject("y"), lab.subject("x")]
    await lab.gateway.good("PUT", f"{path}/subject", {"subjects": wanted})
    assert (await lab.gateway.good("GET", path))["stream"]["config"]["subjects"] == wanted


async def test_creating_the_same_stream_again_succeeds_and_another_one_does_not(lab: Lab) -> None:
    await lab.create()
    failed = (500, 500, "Failed to create new stream")
    same_name = {"name": lab.stream, "subjects": [lab.subject("z")]}
    assert await lab.gateway.refused("POST", "/v1/admin/stream", same_name) == failed
    same_subject = {"name": f"{lab.stream}x", "subjects": [lab.subject("a")]}
    assert await lab.gateway.refused("POST", "/v1/admin/stream", same_subject) == failed


@pytest.mark.parametrize(
    "body",
    [
        {"subjects": ["a"]},
        {"name": "with-dash"},
        {"name": "under_score"},
        {"name": "A1B2C3D4-0000-4000-8000-000000000000"},
        {"name": "ok", "subjects": ["has space"]},
        {"name": "ok", "subjects": ["under_score"]},
        {"name": "ok", "subjects": ["all.>"]},
        {"name": "ok", "subjects": ["cr\r\nlf"]},
        {"name": "ok", "subjects": [""]},
        {"name": "ok", "max_msgs": -2},
        {"name": "ok", "max_age": -1},
        {"name": "ok", "max_age": 1},
        None,
    ],
)
async def test_a_stream_with_bad_values_is_refused_late(plain_gateway: Gateway, body: Any) -> None:
    content = "null" if body is None else body
    refused = await plain_gateway.refused("POST", "/v1/admin/stream", content)
    assert refused == (500, 500, "Failed to create new stream")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        '"text"',
        '{"name": 5}',
        '{"name": "x", "max_msgs": 1.5}',
        '{"name": "x", "max_msgs": "1"}',
        '{"name": "x", "max_msg_size": 2147483648}',
        '{"name": "x", "max_msgs": 9223372036854775808}',
        '{"name": "x", "max_msgs": true}',
        '{"name": "x", "subjects": "a"}',
        '{"name": NaN}',
        "[" * 100_000,
    ],
)
async def test_a_body_that_is_no_stream_is_refused_early(plain_gateway: Gateway, body: str) -> None:
    refused = await plain_gateway.refused("POST", "/v1/admin/stream", body)
    assert refused == (400, 400, "Unable to parse request body")


async def test_bodies_are_read_generously(gateway: Gateway) -> None:
    name = f"N{uuid.uuid4().hex}"
    body = f'{{"NAME": "{name}", "unknown": {{}}, "Max_Msgs": 7, "max_age": null}} and more'
    await gateway.good("POST", "/v1/admin/stream", body, headers={"content-type": "text/plain"})
    told = await gateway.good("GET", f"/v1/admin/stream/{name}")
    assert told["stream"]["config"]["max_msgs"] == 7
    await gateway.good("DELETE", f"/v1/admin/stream/{name}")


async def test_what_is_not_there_is_refused_with_500(gateway: Gateway) -> None:
    path = "/v1/admin/stream/nobody"
    assert await gateway.refused("GET", path) == (500, 500, "Unable fetch stream nobody info")
    assert await gateway.refused("DELETE", path) == (500, 500, "Failed to delete stream nobody")
    refused = await gateway.refused("PUT", f"{path}/limit", {"max_msgs": 1})
    assert refused == (500, 500, "Failed to change stream nobody limits")
    refused = await gateway.refused("PUT", f"{path}/subject", {"subjects": ["x"]})
    assert refused == (500, 500, "Failed to change stream nobody subjects")
    assert (await gateway.good("GET", f"{path}/consumer"))["consumers"] == {}
    refused = await gateway.refused("GET", f"{path}/consumer/c")
    assert refused == (500, 500, "Failed to read consumer c on stream nobody")
    refused = await gateway.refused("DELETE", f"{path}/consumer/c")
    assert refused == (500, 500, "Failed to delete consumer c on stream nobody")
    body = {"name": "c", "mode": "push", "max_inflight": 1}
    refused = await gateway.refused("POST", f"{path}/consumer", body)
    assert refused == (500, 500, "Failed to create consumer on stream nobody")


async def test_bad_names_in_paths_are_refused_with_400(plain_gateway: Gateway) -> None:
    for method, path in (
        ("GET", "/v1/admin/stream/a_b"),
        ("DELETE", "/v1/admin/stream/a-b"),
        ("PUT", "/v1/admin/stream/a%20b/limit"),
        ("PUT", "/v1/admin/stream/a.b/subject"),
        ("GET", "/v1/admin/stream/*/consumer"),
        ("POST", "/v1/admin/stream/%3E/consumer"),
        ("GET", "/v1/admin/stream/a%0d%0ab"),
    ):
        assert await plain_gateway.refused(method, path) == (400, 400, "Invalid stream name")
    for method in ("GET", "DELETE"):
        refused = await plain_gateway.refused(method, "/v1/admin/stream/ok/consumer/no_t")
        assert refused == (400, 400, "Invalid consumer name")


async def test_a_list_of_subjects_is_required(lab: Lab) -> None:
    path = f"/v1/admin/stream/{lab.stream}/subject"
    assert await lab.gateway.refused("PUT", path, {}) == (400, 400, "Bad request body")
    assert await lab.gateway.refused("PUT", path, {"subjects": []}) == (400, 400, "Bad request body")
    assert await lab.gateway.refused("PUT", path, "x") == (400, 400, "Unable to parse request body")
    failed = (500, 500, f"Failed to change stream {lab.stream} subjects")
    assert await lab.gateway.refused("PUT", path, {"subjects": ["a b"]}) == failed


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "a_b"},
        {"mode": ""},
        {"mode": "other"},
        {"max_inflight": 0},
        {"max_inflight": -1},
        {"max_retry": -2},
        {"ack_wait": -1},
        {"delivery_group": "a.b"},
        {"mode": "pull", "delivery_group": "workers"},
        {"filter_subject": "no.such.subject"},
        {"filter_subject": "a b"},
        {"filter_subject": "a..b"},
    ],
)
async def test_a_consumer_with_bad_values_is_refused(lab: Lab, fields: dict[str, Any]) -> None:
    body = {"name": "c", "mode": "push", "max_inflight": 1, "filter_subject": lab.subject("a"), **fields}
    refused = await lab.gateway.refused("POST", f"/v1/admin/stream/{lab.stream}/consumer", body)
    assert refused == (500, 500, f"Failed to create consumer on stream {lab.stream}")


async def test_a_filter_may_be_wider_than_a_subject(lab: Lab) -> None:
    await lab.consumer(filter_subject=f"{lab.stream}.*")
    await lab.consumer("d", filter_subject=f"{lab.stream}.>")
    assert (await lab.info("d"))["config"]["filter_subject"] == f"{lab.stream}.>"


async def test_a_second_post_changes_what_may_change(lab: Lab) -> None:
    await lab.consumer()
    before = (await lab.info())["config"]
    await lab.consumer()
    await lab.consumer(max_inflight=9, ack_wait=1_000_000_000, max_retry=2, notes="new")
    after = (await lab.info())["config"]
    assert after == {
        **before,
        "max_ack_pending": 9,
        "ack_wait": 1_000_000_000,
        "max_deliver": 2,
        "notes": "new",
    }


async def test_filter_and_mode_of_a_consumer_stay(lab: Lab) -> None:
    await lab.consumer()
    path = f"/v1/admin/stream/{lab.stream}/consumer"
    failed = (500, 500, f"Failed to create consumer on stream {lab.stream}")
    other = {"name": "c", "mode": "push", "max_inflight": 1, "filter_subject": lab.subject("b")}
    assert await lab.gateway.refused("POST", path, other) == failed
    pull = {"name": "c", "mode": "pull", "max_inflight": 1, "filter_subject": lab.subject("a")}
    assert await lab.gateway.refused("POST", path, pull) == failed


async def test_a_consumer_that_is_read_can_not_be_changed(lab: Lab) -> None:
    await lab.consumer()
    path = f"/v1/admin/stream/{lab.stream}/consumer"
    body = {"name": "c", "mode": "push", "max_inflight": 2, "filter_subject": lab.subject("a")}
    async with lab.subscribed():
        refused = await lab.gateway.refused("POST", path, body)
        assert refused == (500, 500, f"Failed to create consumer on stream {lab.stream}")

    async def can_be_changed() -> bool:
        return (await lab.gateway.call("POST", path, body))[0] == 200

    await eventually(can_be_changed, "the consumer is still bound")


async def test_lists_have_every_page(gateway: Gateway, lab: Lab) -> None:
    names = [f"c{number}" for number in range(300)]  # more than a page of nats-server
    link = gateway.server.core.links.own
    for start in range(0, len(names), 50):
        await asyncio.gather(
            *(
                link.api(
                    f"CONSUMER.DURABLE.CREATE.{lab.stream}.{name}",
                    {"stream_name": lab.stream, "config": {"durable_name": name, "ack_policy": "explicit"}},
                    timeout_s=PATIENCE_S,
                )
                for name in names[start : start + 50]
            )
        )
    told = await gateway.good("GET", f"/v1/admin/stream/{lab.stream}/consumer")
    assert sorted(told["consumers"]) == sorted(names)
    assert lab.stream in (await gateway.good("GET", "/v1/admin/stream"))["streams"]
