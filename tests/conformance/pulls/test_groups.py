"""Pull requests at consumers with a priority policy."""

import json
from typing import Any

import pytest

from tests.kits.conformance.clients import eventually
from tests.kits.conformance.pulls import MILLISECOND, SECOND, PullScene, pending

LONG = 20 * SECOND
POLICIES = ["overflow", "pinned_client", "prioritized"]
ZERO_TIME = "0001-01-01T00:00:00Z"


def pin_of(block: bytes) -> str:
    name, _, value = block.split(b"\r\n")[-3].partition(b": ")
    assert name == b"Nats-Pin-Id"
    return value.decode()


def group_of(scene: PullScene) -> Any:
    [state] = scene.info()["priority_groups"]
    return state


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"batch": 1}, "Priority Group missing"),
        ("{}", "Priority Group missing"),
        ({"batch": 1, "group": "B"}, "Invalid Priority Group"),
        ({"batch": 1, "group": "a"}, "Invalid Priority Group"),
        ({"batch": 1, "group": "A", "priority": 10}, "Priority must be between 0 and 9"),
    ],
    ids=repr,
)
def test_a_request_must_keep_the_rules_of_groups(
    scene: PullScene, policy: str, body: Any, status: str
) -> None:
    scene.consumer(priority_policy=policy, priority_groups=["A"])
    scene.publish("1")
    scene.pull("a", body)
    assert scene.read() == [("a", f"400 Bad Request - {status}")]
    scene.settled(delivered=0)


@pytest.mark.parametrize(
    ("policy", "field", "status"),
    [
        ("overflow", {"id": "x"}, "Not a Pinned Client Priority consumer"),
        ("prioritized", {"id": "x"}, "Not a Pinned Client Priority consumer"),
        ("pinned_client", {"min_pending": 1}, "Not a Overflow Priority consumer"),
        ("prioritized", {"min_ack_pending": 1}, "Not a Overflow Priority consumer"),
    ],
)
def test_fields_of_another_policy_are_refused(
    scene: PullScene, policy: str, field: dict[str, Any], status: str
) -> None:
    scene.consumer(priority_policy=policy, priority_groups=["A"])
    scene.pull("a", {"batch": 1, "group": "A", **field})
    assert scene.read() == [("a", f"400 Bad Request - {status}")]


@pytest.mark.parametrize("policy", POLICIES)
def test_requests_that_are_no_json_need_no_group(scene: PullScene, policy: str) -> None:
    scene.consumer(priority_policy=policy, priority_groups=["A"])
    scene.publish("1", "2", "3")
    scene.pull("a", "2")
    assert scene.read(2) == [("a", "1"), ("a", "2")]
    scene.settled(delivered=2)
    assert group_of(scene) == {"group": "A", "pinned_ts": ZERO_TIME}
    blank_pin = b"NATS/1.0\r\nNats-Pin-Id: \r\n\r\n"
    assert scene.headers == [blank_pin if policy == "pinned_client" else b""] * 2


# -- overflow -------------------------------------------------------------------------------------


def test_overflow_is_served_when_enough_is_pending(scene: PullScene) -> None:
    scene.consumer(priority_policy="overflow", priority_groups=["A"])
    scene.wait("a", {"batch": 5, "group": "A", "min_pending": 3, "expires": LONG})
    scene.publish("1", "2")
    scene.settled(delivered=0, waiting=1)
    scene.publish("3")
    assert scene.read() == [("a", "1")]
    scene.settled(delivered=1, waiting=1)


def test_overflow_is_served_when_enough_is_not_acknowledged(scene: PullScene) -> None:
    scene.consumer(ack_policy="explicit", priority_policy="overflow", priority_groups=["A"])
    scene.publish("1", "2", "3")
    scene.wait("a", {"batch": 1, "group": "A", "min_ack_pending": 2, "expires": LONG})
    scene.pull("b", {"batch": 1, "group": "A"})
    assert scene.read() == [("b", "1")]
    scene.settled(delivered=1, waiting=1)
    scene.pull("c", {"batch": 1, "group": "A", "min_pending": 2})
    assert sorted(scene.read(2)) == [("a", "3"), ("c", "2")]


def test_either_bound_is_enough(scene: PullScene) -> None:
    scene.consumer(ack_policy="explicit", priority_policy="overflow", priority_groups=["A"])
    scene.publish("1", "2")
    scene.pull("a", {"batch": 1, "group": "A", "min_pending": 2, "min_ack_pending": 100})
    assert scene.read() == [("a", "1")]
    scene.pull("b", {"batch": 1, "group": "A", "min_pending": 100, "min_ack_pending": 1})
    assert scene.read() == [("b", "2")]


def test_no_wait_that_may_not_be_served_ends(scene: PullScene) -> None:
    scene.consumer(priority_policy="overflow", priority_groups=["A"])
    scene.publish("1")
    scene.pull("a", {"batch": 1, "group": "A", "min_pending": 2, "no_wait": True})
    assert scene.read() == [("a", "404 No Messages")]
    scene.settled(delivered=0)


# -- prioritized ----------------------------------------------------------------------------------


def test_the_lowest_number_is_served_first(scene: PullScene) -> None:
    scene.consumer(priority_policy="prioritized", priority_groups=["A"])
    for inbox, priority in (("c", 2), ("a", 0), ("b", 1), ("d", 2), ("e", 0)):
        scene.wait(inbox, {"batch": 2, "group": "A", "priority": priority, "expires": LONG})
    scene.wait("z", "1")
    scene.publish(*"123456789XY")
    assert [inbox for inbox, _ in scene.read(11)] == ["a", "e", "a", "e", "b", "b", "c", "d", "c", "d", "z"]
    scene.settled(delivered=11)


# -- pinned client --------------------------------------------------------------------------------


def pinned(scene: PullScene, **config: Any) -> str:
    """Make a consumer and let `a` be pinned with the first message; its id."""
    scene.watch("adv", f"$JS.EVENT.ADVISORY.CONSUMER.*.{scene.stream}.C")
    scene.consumer(priority_policy="pinned_client", priority_groups=["A", "B"], **config)
    [(_, created)] = scene.read()
    assert json.loads(created)["action"] == "create"
    scene.publish("1")
    scene.pull("a", {"batch": 1, "group": "A"})
    events = dict(scene.read(2))
    assert events["a"] == "1"
    pin = pin_of(next(block for block in scene.headers if block))
    advisory = json.loads(events["adv"])
    assert advisory["type"] == "io.nats.jetstream.advisory.v1.consumer_group_pinned"
    assert (advisory["group"], advisory["pinned_id"]) == ("A", pin)
    return pin


def told(scene: PullScene) -> tuple[str, str, str]:
    """The next advisory: the end of its type, the group, and the reason."""
    [(inbox, text)] = scene.read()
    assert inbox == "adv"
    advisory = json.loads(text)
    return advisory["type"].rpartition("_")[2], advisory["group"], advisory.get("reason", "")


def test_the_pinned_client_gets_everything(scene: PullScene) -> None:
    pin = pinned(scene)
    state = group_of(scene)
    assert (state["group"], state["pinned_client_id"]) == ("A", pin)
    assert state["pinned_ts"] != ZERO_TIME
    scene.wait("b", {"batch": 5, "group": "A", "expires": LONG})
    scene.wait("c", "5")
    scene.publish("2", "3", "4")
    scene.settled(delivered=1, waiting=2)
    scene.pull("a", {"batch": 3, "group": "A", "id": pin})
    assert scene.read(3) == [("a", "2"), ("a", "3"), ("a", "4")]
    assert {pin_of(block) for block in scene.headers if block} == {pin}
    scene.settled(delivered=4, waiting=2)


def test_another_id_is_refused(scene: PullScene) -> None:
    pinned(scene)
    scene.publish("2")
    scene.pull("b", {"batch": 5, "group": "A", "id": "stale"})
    assert scene.read() == [("b", "423 Nats-Pin-Id mismatch")]


def test_an_id_is_worth_nothing_where_nobody_is_pinned(scene: PullScene) -> None:
    scene.consumer(priority_policy="pinned_client", priority_groups=["A"])
    scene.publish("1")
    scene.pull("a", {"batch": 5, "group": "A", "id": "stale"})
    assert scene.read() == [("a", f"423 Nats-Wrong-Pin-Id|{pending(5)}")]
    scene.settled(delivered=0)


def test_somebody_else_is_pinned_when_the_pin_is_taken_away(scene: PullScene) -> None:
    pin = pinned(scene)
    scene.wait("a", {"batch": 3, "group": "A", "id": pin, "expires": LONG})
    scene.wait("b", {"batch": 2, "group": "B", "expires": LONG})
    answer = scene.api(f"CONSUMER.UNPIN.{scene.stream}.C", {"group": "B"})
    assert answer == {"type": "io.nats.jetstream.api.v1.consumer_unpin_response"}
    assert told(scene) == ("unpinned", "B", "admin")
    assert group_of(scene) == {"group": "A", "pinned_ts": ZERO_TIME}
    scene.publish("2")
    events = dict(scene.read(3))
    assert events["a"] == f"423 Nats-Wrong-Pin-Id|{pending(3)}"
    assert events["b"] == "2"
    assert json.loads(events["adv"])["group"] == "B"
    assert group_of(scene)["pinned_client_id"] == json.loads(events["adv"])["pinned_id"] != pin


def test_unpinning_is_told_even_if_nobody_is_pinned(scene: PullScene) -> None:
    pinned(scene)
    scene.api(f"CONSUMER.UNPIN.{scene.stream}.C", {"group": "A"})
    scene.api(f"CONSUMER.UNPIN.{scene.stream}.C", {"group": "A"})
    assert [told(scene), told(scene)] == [("unpinned", "A", "admin")] * 2


def test_a_pin_times_out_and_the_next_client_follows(scene: PullScene) -> None:
    pinned(scene, priority_timeout=2 * SECOND)
    scene.wait("b", {"batch": 1, "group": "A", "expires": LONG})
    scene.publish("2")
    scene.settled(delivered=1, waiting=1)
    assert told(scene) == ("unpinned", "A", "timeout")
    events = dict(scene.read(2))
    assert events["b"] == "2"
    assert json.loads(events["adv"])["pinned_id"] == pin_of([block for block in scene.headers if block][-1])


def test_requests_with_the_id_make_the_pin_last(scene: PullScene) -> None:
    pin = pinned(scene, priority_timeout=2 * SECOND)
    scene.listen("b")
    scene.wait("b", {"batch": 1, "group": "A", "expires": LONG})
    for _ in range(5):  # 2.5 s in all, which only the server's clock counts
        scene.pull("a", {"batch": 1, "group": "A", "id": pin, "expires": 500 * MILLISECOND})
        assert scene.read() == [("a", f"408 Request Timeout|{pending(1)}")]
    assert group_of(scene)["pinned_client_id"] == pin
    assert told(scene) == ("unpinned", "A", "timeout")


def test_a_pin_is_given_back_if_its_first_message_is_too_big(scene: PullScene) -> None:
    scene.consumer(priority_policy="pinned_client", priority_groups=["A"])
    scene.publish("1")
    scene.pull("a", {"batch": 5, "group": "A", "max_bytes": 5})
    assert scene.read() == [("a", f"409 Message Size Exceeds MaxBytes|{pending(5, 5)}")]
    assert group_of(scene) == {"group": "A", "pinned_ts": ZERO_TIME}


def test_bytes_of_a_pinned_client_are_counted_without_the_id(scene: PullScene) -> None:
    scene.consumer(priority_policy="pinned_client", priority_groups=["A"])
    scene.publish("x" * 100)
    scene.pull("a", {"batch": 2, "group": "A", "max_bytes": 1000, "expires": 100 * MILLISECOND})
    events = scene.read(2)
    size = len(scene.subject) + len(scene.acks[0]) + 100
    assert events[1] == ("a", f"408 Request Timeout|{pending(1, 1000 - size)}")


def test_the_policy_may_change_while_somebody_waits(scene: PullScene) -> None:
    scene.consumer(priority_policy="overflow", priority_groups=["A"])
    scene.publish("1")
    scene.wait("a", {"batch": 1, "group": "A", "min_pending": 5, "expires": LONG})
    scene.consumer()
    scene.pull("b", {"batch": 1, "min_pending": 1})
    scene.publish("2")
    eventually(lambda: scene.waiting() == 0, "the request was served")
    assert sorted(scene.read(2)) == [
        ("a", "1"),
        ("b", "400 Bad Request - Not a Overflow Priority consumer"),
    ]
