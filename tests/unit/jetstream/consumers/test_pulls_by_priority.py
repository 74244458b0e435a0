"""Pull requests that wait at a consumer with a priority policy."""

from collections.abc import Callable

import pytest

from millstream.jetstream.consumers.groups import PinChange
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import PriorityPolicy
from tests.kits.jetstream.pulls import SECOND, START, Desk

MINUTE = 60 * SECOND


def overflow() -> Desk:
    return Desk(priority_policy=PriorityPolicy.OVERFLOW)


def pinned() -> Desk:
    return Desk(priority_policy=PriorityPolicy.PINNED_CLIENT)


def prioritized() -> Desk:
    return Desk(priority_policy=PriorityPolicy.PRIORITIZED)


def wrong_pin(left: int) -> str:
    return f"423 Nats-Wrong-Pin-Id Nats-Pending-Messages: {left} Nats-Pending-Bytes: 0"


@pytest.mark.parametrize("made", [overflow, pinned, prioritized])
def test_a_group_must_be_named_and_exist(made: Callable[[], Desk]) -> None:
    desk = made()
    assert not desk.ask("a", batch=1)
    assert not desk.ask("a", batch=1, group="B")
    assert desk.ask("a", batch=1, group="A")
    assert desk.statuses() == [
        ("a", "400 Bad Request - Priority Group missing"),
        ("a", "400 Bad Request - Invalid Priority Group"),
    ]


def test_bounds_of_the_consumer_are_checked_before_groups() -> None:
    desk = Desk(max_batch=1)
    desk.ask("a", batch=2, min_pending=1)
    assert desk.statuses() == [("a", "409 Exceeded MaxRequestBatch of 1")]


# -- overflow -------------------------------------------------------------------------------------


def test_overflow_waits_until_enough_is_pending() -> None:
    desk = overflow()
    desk.ask("a", batch=10, group="A", min_pending=3)
    desk.pending = 2
    assert desk.deliver() == []
    desk.pending = 5
    assert desk.deliver() == ["a", "a", "a"]  # with 5, 4 and 3 pending
    assert desk.pulls.count == 1


def test_overflow_waits_until_enough_is_not_acknowledged() -> None:
    desk = overflow()
    desk.ask("a", batch=10, group="A", min_ack_pending=3)
    desk.pending = 2
    assert desk.deliver() == []
    desk.ack_pending = 3
    assert desk.deliver() == ["a", "a"]


def test_those_without_bounds_are_served_meanwhile() -> None:
    desk = overflow()
    desk.ask("a", batch=2, group="A", min_pending=100)
    desk.ask("b", batch=2, group="A")
    desk.ask("c", "2")  # no JSON, so no group is needed
    desk.pending = 9
    assert desk.deliver() == ["b", "c", "b", "c"]
    assert desk.pulls.count == 1


def test_a_message_to_deliver_again_counts_with_those_that_are_pending() -> None:
    desk = overflow()
    desk.ask("a", batch=2, group="A", min_pending=3)
    desk.pending, desk.again = 2, 1
    assert desk.deliver(1) == ["a"]


def test_no_wait_that_may_not_be_served_ends() -> None:
    desk = overflow()
    desk.pending = 1
    desk.ask("a", batch=2, group="A", min_pending=3, no_wait=True)
    assert desk.deliver() == []
    desk.exhausted()
    assert desk.statuses() == [("a", "404 No Messages")]


def test_overflow_has_no_runs() -> None:
    desk = overflow()
    desk.ask("a", batch=9, group="A", min_pending=1)
    assert desk.pulls.current(desk.now, 5, 0) is not None
    assert desk.pulls.run_length() == 1


def test_late_requests_are_ended_while_others_are_passed_over() -> None:
    desk = overflow()
    desk.ask("a", batch=2, group="A", min_pending=100)
    desk.ask("b", batch=2, group="A", expires=SECOND)
    desk.ask("c", batch=2, group="A", min_pending=100)
    desk.ask("d", batch=1, group="A")
    desk.now += SECOND
    desk.pending = 5
    assert desk.deliver() == ["d"]
    assert desk.statuses() == [("b", "408 Request Timeout Nats-Pending-Messages: 2 Nats-Pending-Bytes: 0")]


# -- prioritized ----------------------------------------------------------------------------------


def test_the_lowest_number_is_served_first_and_equals_take_turns() -> None:
    desk = prioritized()
    for inbox, priority in (("c", 2), ("a", 0), ("b", 1), ("d", 2), ("e", 0)):
        desk.ask(inbox, batch=2, group="A", priority=priority)
    desk.pending = 20
    assert desk.deliver() == ["a", "e", "a", "e", "b", "b", "c", "d", "c", "d"]


def test_a_more_urgent_request_goes_first_even_if_it_comes_later() -> None:
    desk = prioritized()
    desk.ask("b", batch=3, group="A", priority=5)
    desk.pending = 9
    assert desk.deliver(1) == ["b"]
    desk.ask("a", batch=1, group="A", priority=1)
    assert desk.deliver() == ["a", "b", "b"]


def test_requests_that_are_no_json_come_last() -> None:
    desk = prioritized()
    desk.ask("b", "1")
    desk.ask("a", batch=1, group="A", priority=9)
    desk.pending = 9
    assert desk.deliver() == ["a", "b"]


def test_the_most_urgent_request_may_get_a_run() -> None:
    desk = prioritized()
    desk.ask("b", batch=7, group="A", priority=1)
    desk.ask("a", batch=5, group="A", priority=0)
    assert desk.pulls.current(desk.now, 20, 0) is not None
    assert desk.pulls.run_length() == 5
    desk.ask("c", batch=5, group="A", priority=0)
    assert desk.pulls.run_length() == 1


# -- pinned client --------------------------------------------------------------------------------


def test_the_first_to_be_served_is_pinned_and_gets_everything() -> None:
    desk = pinned()
    desk.ask("a", batch=3, group="A")
    desk.ask("b", batch=3, group="A")
    assert desk.changes() == []
    desk.pending = 9
    assert desk.deliver() == ["a", "a", "a"]
    assert desk.changes() == [PinChange("A", pin_id="pin1")]
    assert (desk.pulls.groups.pin_id, desk.pulls.count, desk.statuses()) == ("pin1", 1, [])


def test_the_pinned_client_goes_on_with_its_id() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.ask("b", batch=1, group="A")
    desk.pending = 9
    desk.deliver()
    assert desk.ask("a", batch=2, group="A", id="pin1")
    assert desk.deliver() == ["a", "a"]


def test_two_requests_of_the_pinned_client_take_turns() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.pending = 9
    desk.deliver()
    desk.ask("x", batch=2, group="A", id="pin1")
    desk.ask("s", batch=2, group="A")
    desk.ask("y", batch=2, group="A", id="pin1")
    assert desk.pulls.current(desk.now, 8, 0) is not None
    assert desk.pulls.run_length() == 1
    assert desk.deliver() == ["x", "y", "x", "y"]


def test_the_pinned_client_may_get_a_run_beside_those_who_stand_by() -> None:
    desk = pinned()
    desk.ask("a", batch=6, group="A")
    desk.ask("b", batch=6, group="A")
    assert desk.pulls.current(desk.now, 8, 0) is not None
    assert desk.pulls.run_length() == 6


def test_another_id_is_refused_while_a_client_is_pinned() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.pending = 9
    desk.deliver()
    assert not desk.ask("b", batch=1, group="A", id="stale")
    assert desk.statuses() == [("b", "423 Nats-Pin-Id mismatch")]


def test_an_id_that_means_nothing_ends_its_request_when_it_would_be_served() -> None:
    desk = pinned()
    assert desk.ask("a", batch=4, group="A", id="stale")
    desk.ask("b", batch=1, group="A")
    desk.pending = 9
    assert desk.deliver() == ["b"]
    assert desk.statuses() == [("a", wrong_pin(4))]


def test_an_id_that_was_overtaken_ends_its_request() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.pending = 1
    desk.deliver()
    desk.ask("a", batch=4, group="A", id="pin1")
    desk.pulls.groups.unpin("A")
    desk.ask("b", batch=2, group="A")
    desk.pending = 9
    assert desk.deliver() == ["b", "b"]
    assert desk.statuses() == [("a", wrong_pin(4))]
    assert desk.changes() == [
        PinChange("A", pin_id="pin1"),
        PinChange("A", reason="admin"),
        PinChange("A", pin_id="pin2"),
    ]


def test_those_who_stand_by_follow_when_the_pin_times_out() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.ask("b", batch=2, group="A")
    desk.pending = 9
    desk.deliver()
    desk.changes()
    assert desk.pulls.due() == START + 2 * MINUTE
    desk.pass_time(2 * MINUTE - 1)
    assert desk.pulls.count == 1
    desk.pass_time(1)
    assert desk.pulls.count == 0
    assert desk.changes() == [PinChange("A", reason="timeout"), PinChange("A", pin_id="pin2")]


def test_requests_of_the_pinned_client_postpone_the_timeout() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.pending = 1
    desk.deliver()
    desk.pass_time(MINUTE)
    desk.ask("a", batch=1, group="A", id="pin1")
    assert desk.pulls.due() == START + 3 * MINUTE


def test_a_timeout_without_messages_is_told_and_asks_to_deliver_again() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.pending = 1
    desk.deliver()
    desk.changes()
    desk.now += 2 * MINUTE
    assert desk.exhausted()
    assert desk.changes() == [PinChange("A", reason="timeout")]
    assert not desk.exhausted()
    assert desk.pulls.due() == 0


def test_a_pin_is_given_back_if_its_first_message_is_too_big() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A", max_bytes=5)
    desk.ask("b", batch=1, group="A")
    desk.pending = 1
    assert desk.deliver() == ["b"]
    assert desk.pulls.groups.pin_id == "pin2"


def test_a_pin_is_given_back_if_its_client_is_gone() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.absent.add(b"a")
    desk.pending = 1
    assert desk.deliver() == []
    assert desk.pulls.groups.pin_id == ""


def test_a_pin_stays_if_a_later_message_is_too_big() -> None:
    desk = pinned()
    desk.ask("a", batch=5, group="A", max_bytes=15)
    desk.pending = 2
    assert desk.deliver() == ["a"]
    assert desk.pulls.groups.pin_id == "pin1"


def test_requests_that_are_no_json_are_served_while_nobody_is_pinned() -> None:
    desk = pinned()
    desk.ask("a", "2")
    desk.pending = 1
    assert desk.deliver() == ["a"]
    assert (desk.pulls.groups.pin_id, desk.changes()) == ("", [])
    desk.ask("b", batch=2, group="A")
    desk.pending = 9
    assert desk.deliver() == ["a", "b", "b"]
    desk.ask("c", "2")
    assert desk.deliver() == []


def test_a_pin_outlives_the_policy_that_gave_it() -> None:
    desk = pinned()
    desk.ask("a", batch=1, group="A")
    desk.pending = 9
    desk.deliver()
    desk.pulls.configure(ConsumerConfig(max_waiting=512))
    desk.ask("b", "1")
    assert desk.deliver() == []
    desk.pass_time(2 * MINUTE)
    assert desk.pulls.count == 0
