"""Bodies of pull requests: which are accepted, and what they ask for."""

from typing import Any

import pytest

from tests.kits.conformance.clients import eventually
from tests.kits.conformance.pulls import PullScene
from tests.kits.reference import ServerKind


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ("", 1),
        ("   ", 1),
        ("2", 2),
        (" 2\r\n", 2),
        ("+2", 2),
        ("002", 2),
        ("0", 1),
        ("-5", 1),
        ("2.0", 1),
        ("0x2", 1),
        ("1_0", 1),
        ("99999999999999999999", 1),
        ("text", 1),
        ("[2]", 1),
        ('"2"', 1),
        ("null", 1),
        (b"\xc2\xa02\xe3\x80\x80", 2),
        (b"\x1c2", 1),
        (b"\xff", 1),
        ("{}", 1),
        ({"batch": 2}, 2),
        ({"batch": 0}, 1),
        ({"batch": -5}, 1),
        ({"batch": 2, "expires": 0}, 2),
        ({"batch": 2, "unknown": {"a": []}}, 2),
        ({"batch": 2, "max_bytes": 0, "group": "any"}, 2),
        ({"batch": 2, "idle_heartbeat": -1}, 2),
        ({"batch": 2, "max_bytes": -1}, 2),
        ({"batch": 2, "priority": 9}, 2),
        ('{"BATCH":2}', 2),
        ('{"batch":1,"batch":2}', 2),
        ('{"batch":null}', 1),
        ('\v{"batch":2}\f', 2),
        ('{"b\\u0061tch":2}', 2),
    ],
    ids=repr,
)
def test_a_body_that_is_accepted(scene: PullScene, body: Any, messages: int) -> None:
    scene.consumer()
    scene.publish("1", "2", "3")
    scene.pull("a", body)
    assert scene.read(messages) == [("a", "1"), ("a", "2")][:messages]
    scene.settled(delivered=messages)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("{", "unexpected end of JSON input"),
        ("{nope", "invalid character 'n' looking for beginning of object key string"),
        ('{"batch":1}}', "invalid character '}' after top-level value"),
        ('{"batch":1} 2', "invalid character '2' after top-level value"),
        ('{"batch":"1"}', "json: cannot unmarshal string into Go struct field .batch of type int"),
        ('{"batch":1.5}', "json: cannot unmarshal number 1.5 into Go struct field .batch of type int"),
        ('{"batch":1e1}', "json: cannot unmarshal number 1e1 into Go struct field .batch of type int"),
        (
            '{"max_bytes":99999999999999999999}',
            "json: cannot unmarshal number 99999999999999999999 into Go struct field .max_bytes of type int",
        ),
        (
            '{"expires":"1s"}',
            "json: cannot unmarshal string into Go struct field .expires of type time.Duration",
        ),
        ('{"no_wait":1}', "json: cannot unmarshal number into Go struct field .no_wait of type bool"),
        ('{"group":1}', "json: cannot unmarshal number into Go struct field .group of type string"),
        (
            '{"min_pending":"1"}',
            "json: cannot unmarshal string into Go struct field .min_pending of type int64",
        ),
        ({"batch": 1, "idle_heartbeat": 1}, "heartbeat value too large"),
        ({"batch": 1, "idle_heartbeat": 6, "expires": 11}, "heartbeat value too large"),
        ({"batch": 1, "idle_heartbeat": 1, "expires": -5}, "heartbeat value too large"),
        ({"batch": 1, "min_pending": 1}, "Not a Overflow Priority consumer"),
        ({"batch": 1, "min_ack_pending": -1}, "Not a Overflow Priority consumer"),
        ({"batch": 1, "id": "x"}, "Not a Pinned Client Priority consumer"),
        ({"batch": 1, "priority": 10}, "Priority must be between 0 and 9"),
        ({"batch": 1, "priority": -1}, "Priority must be between 0 and 9"),
    ],
    ids=repr,
)
def test_a_body_that_is_refused(scene: PullScene, body: Any, why: str) -> None:
    scene.consumer()
    scene.publish("1")
    scene.pull("a", body)
    assert scene.read() == [("a", f"400 Bad Request - {why}")]
    scene.settled(delivered=0)


@pytest.mark.parametrize("level", ["6", "x", "1.5"])
def test_an_api_level_that_is_not_there_is_refused(scene: PullScene, level: str) -> None:
    scene.consumer()
    scene.publish("1")
    scene.pull("a", "1", f"NATS/1.0\r\nNats-Required-Api-Level: {level}\r\n\r\n".encode())
    assert scene.read() == [("a", "412 Required Api Level")]
    scene.settled(delivered=0)


def test_an_api_level_that_is_there_changes_nothing(scene: PullScene) -> None:
    scene.consumer()
    scene.publish("1")
    scene.pull("a", "1", b"NATS/1.0\r\nNats-Required-Api-Level: 1\r\n\r\n")
    assert scene.read() == [("a", "1")]


@pytest.mark.parametrize(("rest", "messages"), [("", 1), (" 2", 2), ('{"batch":2}', 2), (" nonsense", 1)])
def test_the_rest_of_an_ack_that_asks_for_more_is_a_body(scene: PullScene, rest: str, messages: int) -> None:
    scene.consumer(ack_policy="explicit")
    scene.publish("1", "2", "3", "4")
    scene.pull("a")
    assert scene.read() == [("a", "1")]
    scene.listen("b")
    scene.send(scene.acks[0], f"+NXT{rest}", "b")
    assert scene.read(messages) == [("b", "2"), ("b", "3")][:messages]
    scene.settled(delivered=1 + messages)
    assert scene.info()["ack_floor"]["consumer_seq"] == 1


def test_messages_sent_to_where_requests_go_are_requests_on_nats_server_only(
    scene: PullScene, server_kind: ServerKind
) -> None:
    """Here a delivery reaches no service of the server: nobody takes it, and the request ends."""
    scene.consumer()
    scene.publish(*["2"] * 500)
    requests = f"$JS.API.CONSUMER.MSG.NEXT.{scene.stream}.C"
    scene.client.send(f"PUB {requests} {requests} 4\r\n1000\r\n".encode())
    if server_kind is ServerKind.MILLSTREAM:
        scene.client.round_trip()
        assert scene.info()["delivered"]["consumer_seq"] == 0
        assert scene.info()["num_waiting"] <= 1
        return
    eventually(lambda: scene.info()["delivered"]["consumer_seq"] == 500, "everything is delivered")
