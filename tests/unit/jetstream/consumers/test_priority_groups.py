"""The rules of priority groups, and the life of a pin."""

import itertools
from typing import Any

import pytest

from millstream.golang.time import ZERO_TIME, Time
from millstream.jetstream.consumers.groups import PinChange, PriorityGroups, is_served
from millstream.jetstream.consumers.pull_request import PullRequest
from millstream.jsapi.consumer_types import ConsumerConfig, PriorityGroupState
from millstream.jsapi.enums import PriorityPolicy

NOW = 1_000
TIMEOUT = 100

NONE, OVERFLOW = PriorityPolicy.NONE, PriorityPolicy.OVERFLOW
PINNED, PRIORITIZED = PriorityPolicy.PINNED_CLIENT, PriorityPolicy.PRIORITIZED


def made(policy: PriorityPolicy, *names: str) -> PriorityGroups:
    numbers = itertools.count(1)
    config = ConsumerConfig(
        priority_policy=policy,
        priority_groups=list(names or ("A", "B")) if policy is not NONE else [],
        priority_timeout=TIMEOUT if policy is PINNED else 0,
    )
    return PriorityGroups(config, lambda: f"pin{next(numbers)}")


def asking(formal: bool = True, **fields: Any) -> PullRequest:
    request = PullRequest(b"inbox", 1, 0, 0, 0, False, NOW)
    request.formal = formal
    request.priority = 0
    for name, value in fields.items():
        setattr(request, name, value)
    return request


@pytest.mark.parametrize(
    ("policy", "fields", "why"),
    [
        (NONE, {"min_pending": 1}, "Not a Overflow Priority consumer"),
        (PINNED, {"min_ack_pending": -1, "group": "A"}, "Not a Overflow Priority consumer"),
        (PRIORITIZED, {"min_pending": 1, "group": "A"}, "Not a Overflow Priority consumer"),
        (NONE, {"pin_id": "x"}, "Not a Pinned Client Priority consumer"),
        (OVERFLOW, {"pin_id": "x", "group": "A"}, "Not a Pinned Client Priority consumer"),
        (NONE, {"priority": 10}, "Priority must be between 0 and 9"),
        (PRIORITIZED, {"priority": -1, "group": "A"}, "Priority must be between 0 and 9"),
        (OVERFLOW, {}, "Priority Group missing"),
        (PINNED, {}, "Priority Group missing"),
        (PRIORITIZED, {}, "Priority Group missing"),
        (OVERFLOW, {"group": "C"}, "Invalid Priority Group"),
        (OVERFLOW, {"group": "a"}, "Invalid Priority Group"),
    ],
)
def test_requests_that_break_a_rule_are_refused(
    policy: PriorityPolicy, fields: dict[str, Any], why: str
) -> None:
    status = made(policy).refusal(asking(**fields), NOW)
    assert status == f"NATS/1.0 400 Bad Request - {why}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        (NONE, {}),
        (NONE, {"group": "whatever"}),
        (NONE, {"priority": 9}),
        (OVERFLOW, {"group": "B", "min_pending": 5, "min_ack_pending": 5}),
        (PINNED, {"group": "B"}),
        (PINNED, {"group": "A", "pin_id": "old"}),  # judged when it would be served
        (PRIORITIZED, {"group": "A", "priority": 9}),
        (OVERFLOW, {"formal": False}),
        (PINNED, {"formal": False}),
        (PRIORITIZED, {"formal": False, "priority": 2**31 - 1}),
    ],
)
def test_requests_that_keep_the_rules_are_not_refused(policy: PriorityPolicy, fields: dict[str, Any]) -> None:
    assert made(policy).refusal(asking(**fields), NOW) is None


@pytest.mark.parametrize(
    ("min_pending", "min_ack_pending", "num_pending", "num_ack_pending", "served"),
    [
        (0, 0, 0, 0, True),
        (5, 0, 4, 1000, False),
        (5, 0, 5, 0, True),
        (0, 5, 1000, 4, False),
        (0, 5, 0, 5, True),
        (5, 5, 4, 5, True),
        (5, 5, 5, 4, True),
        (5, 5, 4, 4, False),
        (-5, 0, 0, 0, True),
        (-5, 5, 0, 4, False),
    ],
)
def test_overflow_serves_when_either_bound_is_reached(
    min_pending: int, min_ack_pending: int, num_pending: int, num_ack_pending: int, served: bool
) -> None:
    request = asking(min_pending=min_pending, min_ack_pending=min_ack_pending)
    assert is_served(request, num_pending, num_ack_pending) is served


def test_a_claim_pins_the_client_and_is_told() -> None:
    groups = made(PINNED)
    request = asking(group="B")
    groups.claim(request, NOW)
    assert (groups.pin_id, request.pin_id, groups.due_ns) == ("pin1", "pin1", NOW + TIMEOUT)
    assert groups.changes == [PinChange("B", pin_id="pin1")]


def test_a_request_without_group_is_not_pinned() -> None:
    groups = made(PINNED)
    groups.claim(asking(formal=False), NOW)
    assert (groups.pin_id, groups.due_ns, groups.changes) == ("", 0, [])


def test_only_the_pinned_client_may_name_a_pin() -> None:
    groups = made(PINNED)
    groups.claim(asking(group="A"), NOW)
    assert groups.refusal(asking(group="A", pin_id="pin1"), NOW) is None
    assert groups.refusal(asking(group="A"), NOW) is None
    mismatch = groups.refusal(asking(group="A", pin_id="pin0"), NOW)
    assert mismatch == b"NATS/1.0 423 Nats-Pin-Id mismatch\r\n\r\n"


def test_requests_of_the_pinned_client_make_the_pin_last() -> None:
    groups = made(PINNED)
    groups.claim(asking(group="A"), NOW)
    assert groups.refusal(asking(group="A", pin_id="pin1"), NOW + 60) is None
    assert groups.refusal(asking(group="A"), NOW + 90) is None  # of another one: changes nothing
    assert groups.due_ns == NOW + 60 + TIMEOUT
    assert not groups.check_timeout(NOW + 60 + TIMEOUT - 1)
    assert groups.pin_id == "pin1"


def test_a_pin_times_out_and_is_told_with_the_group_that_had_it() -> None:
    groups = made(PINNED)
    groups.claim(asking(group="B"), NOW)
    groups.changes.clear()
    assert groups.check_timeout(NOW + TIMEOUT)
    assert groups.changes == [PinChange("B", reason="timeout")]
    assert (groups.pin_id, groups.due_ns) == ("", 0)
    assert not groups.check_timeout(NOW + 2 * TIMEOUT)


def test_a_request_that_comes_after_the_time_finds_no_pin() -> None:
    groups = made(PINNED)
    groups.claim(asking(group="A"), NOW)
    assert groups.refusal(asking(group="A", pin_id="other"), NOW + TIMEOUT) is None
    assert groups.changes[-1] == PinChange("A", reason="timeout")


def test_unpinning_by_hand_is_told_even_if_nothing_was_pinned() -> None:
    groups = made(PINNED)
    groups.claim(asking(group="B"), NOW)
    groups.unpin("A")
    groups.unpin("B")
    assert groups.changes[1:] == [PinChange("A", reason="admin"), PinChange("B", reason="admin")]
    assert groups.pin_id == ""


def test_info_shows_the_first_group_and_the_pin() -> None:
    groups = made(PINNED, "X", "Y")
    assert groups.state() == [PriorityGroupState(group="X", pinned_client_id="", pinned_ts=ZERO_TIME)]
    groups.claim(asking(group="Y"), NOW)
    assert groups.state() == [PriorityGroupState(group="X", pinned_client_id="pin1", pinned_ts=Time(NOW))]
    groups.release()
    assert groups.state() == [PriorityGroupState(group="X", pinned_client_id="", pinned_ts=ZERO_TIME)]


def test_info_shows_no_groups_where_there_are_none() -> None:
    assert made(NONE).state() == []


def test_a_new_configuration_counts_for_requests_to_come_and_the_pin_stays() -> None:
    groups = made(PINNED)
    groups.claim(asking(group="A"), NOW)
    groups.configure(
        ConsumerConfig(priority_policy=PINNED, priority_groups=["C"], priority_timeout=10 * TIMEOUT)
    )
    assert groups.refusal(asking(group="A", pin_id="pin1"), NOW) is not None
    assert groups.refusal(asking(group="C", pin_id="pin1"), NOW) is None
    assert (groups.pin_id, groups.due_ns) == ("pin1", NOW + 10 * TIMEOUT)


def test_made_up_pins_differ() -> None:
    groups = PriorityGroups(
        ConsumerConfig(priority_policy=PINNED, priority_groups=["A"], priority_timeout=TIMEOUT)
    )
    pins = set()
    for _ in range(3):
        groups.claim(asking(group="A"), NOW)
        pins.add(groups.pin_id)
    assert len(pins) == 3
    assert {len(pin) for pin in pins} == {22}
