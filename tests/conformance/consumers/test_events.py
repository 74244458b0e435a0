"""Advisories about consumers, and the metric of sampled acks."""

import re
from typing import Any

from tests.kits.conformance.consumers import FUTURE, NEVER, PAST, SECOND, Client, Inbox, soon

EVENT = "$JS.EVENT."
TYPES = "io.nats.jetstream."


def told(inbox: Inbox, kind: str) -> dict[str, Any]:
    """The next event without what differs from one to the next; its fields stay in order."""
    message = inbox.next()
    event: dict[str, Any] = message.json
    assert list(event)[:3] == ["type", "id", "timestamp"]
    assert event.pop("type") == TYPES + kind
    assert re.fullmatch("[0-9A-Za-z]{22}", event.pop("id"))
    assert event.pop("timestamp").endswith("Z")
    return event


def fields(event: dict[str, Any]) -> list[tuple[str, Any]]:
    return list(event.items())


def test_created_and_deleted(js: Client) -> None:
    js.stream()
    created = js.listen(f"{EVENT}ADVISORY.CONSUMER.CREATED.S.c")
    deleted = js.listen(f"{EVENT}ADVISORY.CONSUMER.DELETED.S.c")
    js.create()
    expected = [("stream", "S"), ("consumer", "c"), ("action", "create")]
    assert fields(told(created, "advisory.v1.consumer_action")) == expected
    js.create()
    js.create(description="new")
    js.ask("CONSUMER.DELETE.S.c")
    expected = [("stream", "S"), ("consumer", "c"), ("action", "delete")]
    assert fields(told(deleted, "advisory.v1.consumer_action")) == expected
    assert created.rest() == []


def test_consumers_go_with_their_stream(js: Client) -> None:
    js.stream()
    js.create("a")
    js.create("b")
    deleted = js.listen(f"{EVENT}ADVISORY.CONSUMER.DELETED.S.*")
    js.ask("STREAM.DELETE.S")
    names = {told(deleted, "advisory.v1.consumer_action")["consumer"] for _ in "ab"}
    assert names == {"a", "b"}


def test_consumers_of_mirrors_are_announced_too(js: Client) -> None:
    js.stream()
    created = js.listen(f"{EVENT}ADVISORY.CONSUMER.CREATED.S.*")
    js.ask("CONSUMER.CREATE.S.m", {"stream_name": "S", "config": {"direct": True, "deliver_subject": "d"}})
    assert told(created, "advisory.v1.consumer_action")["consumer"] == "m"


def test_an_ephemeral_that_nobody_uses_is_announced_as_deleted(js: Client) -> None:
    js.stream()
    deleted = js.listen(f"{EVENT}ADVISORY.CONSUMER.DELETED.S.c")
    js.ask(
        "CONSUMER.CREATE.S.c",
        {"stream_name": "S", "config": {"deliver_subject": "d", "inactive_threshold": SECOND // 10}},
    )
    assert told(deleted, "advisory.v1.consumer_action")["action"] == "delete"
    assert js.refusal("CONSUMER.INFO.S.c") == (10014, "consumer not found")


def test_pauses(js: Client) -> None:
    js.stream()
    paused = js.listen(f"{EVENT}ADVISORY.CONSUMER.PAUSE.S.c")
    js.create()
    js.ask("CONSUMER.PAUSE.S.c", {"pause_until": FUTURE})
    assert fields(told(paused, "advisory.v1.consumer_pause")) == [
        ("stream", "S"),
        ("consumer", "c"),
        ("paused", True),
        ("pause_until", FUTURE),
    ]
    js.ask("CONSUMER.PAUSE.S.c")
    resumed = told(paused, "advisory.v1.consumer_pause")
    assert (resumed["paused"], resumed["pause_until"]) == (False, NEVER)
    js.ask("CONSUMER.PAUSE.S.c")
    js.ask("CONSUMER.PAUSE.S.c", {"pause_until": PAST})
    over = told(paused, "advisory.v1.consumer_pause")
    assert (over["paused"], over["pause_until"]) == (False, PAST)
    assert paused.rest() == []


def test_creating_a_paused_consumer_announces_the_pause_every_time(js: Client) -> None:
    js.stream()
    paused = js.listen(f"{EVENT}ADVISORY.CONSUMER.PAUSE.S.c")
    js.create(pause_until=FUTURE)
    assert told(paused, "advisory.v1.consumer_pause")["paused"] is True
    js.create(pause_until=FUTURE)
    assert told(paused, "advisory.v1.consumer_pause")["paused"] is True
    js.create(description="new")
    assert told(paused, "advisory.v1.consumer_pause")["paused"] is True
    js.ask("CONSUMER.DELETE.S.c")
    js.create(pause_until=PAST)
    assert paused.rest() == []


def test_the_end_of_a_pause_is_announced(js: Client) -> None:
    js.stream()
    paused = js.listen(f"{EVENT}ADVISORY.CONSUMER.PAUSE.S.c")
    until = soon(js.create()["ts"])
    js.ask("CONSUMER.PAUSE.S.c", {"pause_until": until})
    assert told(paused, "advisory.v1.consumer_pause")["paused"] is True
    ended = told(paused, "advisory.v1.consumer_pause")
    assert (ended["paused"], ended["pause_until"]) == (False, until)


def test_naks(js: Client) -> None:
    js.stream()
    js.publish("s.1")
    js.create(ack_policy="explicit")
    naked = js.listen(f"{EVENT}ADVISORY.CONSUMER.MSG_NAKED.S.c")
    for deliveries in (1, 2):
        js.request(js.fetch().next().reply, b"-NAK")
        assert fields(told(naked, "advisory.v1.nak")) == [
            ("stream", "S"),
            ("consumer", "c"),
            ("consumer_seq", deliveries),
            ("stream_seq", 1),
            ("deliveries", deliveries),
        ]


def test_terminations(js: Client) -> None:
    js.stream()
    js.publish("s.1", "s.2")
    js.create(ack_policy="explicit")
    ended = js.listen(f"{EVENT}ADVISORY.CONSUMER.MSG_TERMINATED.S.c")
    js.request(js.fetch().next().reply, b"+TERM")
    first = told(ended, "advisory.v1.terminated")
    common = [("stream", "S"), ("consumer", "c")]
    assert fields(first) == [*common, ("consumer_seq", 1), ("stream_seq", 1), ("deliveries", 1)]
    js.request(js.fetch().next().reply, b"+TERM no good")
    second = told(ended, "advisory.v1.terminated")
    assert fields(second) == [
        *common,
        ("consumer_seq", 2),
        ("stream_seq", 2),
        ("deliveries", 1),
        ("reason", "no good"),
    ]


def test_a_message_that_is_deleted_before_its_ack_is_terminated(js: Client) -> None:
    js.stream()
    js.publish("s.1", "s.2")
    js.create(ack_policy="explicit")
    ended = js.listen(f"{EVENT}ADVISORY.CONSUMER.MSG_TERMINATED.S.c")
    js.fetch().next()
    js.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    event = told(ended, "advisory.v1.terminated")
    assert (event["stream_seq"], event["reason"]) == (1, "Unacknowledged message was deleted")


def test_the_last_delivery_is_announced_when_it_is_not_acknowledged(js: Client) -> None:
    js.stream()
    js.publish("s.1")
    js.create(ack_policy="explicit", max_deliver=1, ack_wait=SECOND // 10)
    used_up = js.listen(f"{EVENT}ADVISORY.CONSUMER.MAX_DELIVERIES.S.c")
    js.fetch().next()
    assert fields(told(used_up, "advisory.v1.max_deliver")) == [
        ("stream", "S"),
        ("consumer", "c"),
        ("stream_seq", 1),
        ("deliveries", 1),
    ]
    assert used_up.rest() == []


def test_pins(js: Client) -> None:
    js.stream()
    js.publish("s.1")
    js.create(priority_policy="pinned_client", priority_groups=["A"], ack_policy="explicit")
    pinned = js.listen(f"{EVENT}ADVISORY.CONSUMER.PINNED.S.c")
    unpinned = js.listen(f"{EVENT}ADVISORY.CONSUMER.UNPINNED.S.c")
    pin = js.fetch(group="A").next().headers["Nats-Pin-Id"]
    event = told(pinned, "advisory.v1.consumer_group_pinned")
    assert list(event) == ["account", "stream", "consumer", "group", "pinned_id"]
    assert (event["group"], event["pinned_id"]) == ("A", pin)
    js.ask("CONSUMER.UNPIN.S.c", {"group": "A"})
    event = told(unpinned, "advisory.v1.consumer_group_unpinned")
    assert list(event) == ["account", "stream", "consumer", "group", "reason"]
    assert (event["group"], event["reason"]) == ("A", "admin")
    js.ask("CONSUMER.UNPIN.S.c", {"group": "A"})
    assert told(unpinned, "advisory.v1.consumer_group_unpinned")["reason"] == "admin"


def test_a_pin_that_is_not_renewed_ends(js: Client) -> None:
    js.stream()
    js.publish("s.1")
    js.create(priority_policy="pinned_client", priority_groups=["A"], priority_timeout=SECOND // 10)
    unpinned = js.listen(f"{EVENT}ADVISORY.CONSUMER.UNPINNED.S.c")
    js.fetch(group="A").next()
    assert told(unpinned, "advisory.v1.consumer_group_unpinned")["reason"] == "timeout"


def test_sampled_acks(js: Client) -> None:
    js.stream()
    js.publish("s.1")
    js.create(ack_policy="explicit", sample_freq="100%")
    sampled = js.listen(f"{EVENT}METRIC.CONSUMER.ACK.S.c")
    js.request(js.fetch().next().reply, b"+ACK")
    event = told(sampled, "metric.v1.consumer_ack")
    assert list(event) == ["stream", "consumer", "consumer_seq", "stream_seq", "ack_time", "deliveries"]
    assert (event["consumer_seq"], event["stream_seq"], event["deliveries"]) == (1, 1, 1)
    assert 0 < event["ack_time"] < 60 * SECOND


def test_acks_that_are_not_sampled_are_not_told(js: Client) -> None:
    js.stream()
    js.publish("s.1")
    js.create(ack_policy="explicit", sample_freq="0%")
    sampled = js.listen(f"{EVENT}METRIC.CONSUMER.ACK.S.c")
    js.request(js.fetch().next().reply, b"+ACK")
    js.info()
    assert sampled.rest() == []


def test_requests_are_audited(js: Client) -> None:
    js.stream()
    audit = js.listen(f"{EVENT}ADVISORY.API")
    js.create()
    event = told(audit, "advisory.v1.api_audit")
    assert event["subject"] == "$JS.API.CONSUMER.CREATE.S.c"
    assert '"consumer_create_response"' in event["response"].replace("io.nats.jetstream.api.v1.", "")
    js.ask("CONSUMER.RESET.S.c")
    js.ask("CONSUMER.PAUSE.S.c")
    assert told(audit, "advisory.v1.api_audit")["subject"] == "$JS.API.CONSUMER.PAUSE.S.c"
