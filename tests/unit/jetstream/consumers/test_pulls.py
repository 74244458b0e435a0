"""Pull requests that wait: who is served when, and what each is told."""

from typing import Any

import pytest

from millstream.jetstream.consumers.pull_request import parse_pull
from millstream.jsapi.consumer_types import ConsumerConfig
from tests.kits.jetstream.pulls import SECOND, START, Desk

NO_MESSAGES = "404 No Messages"


def timeout(left: int, size: int = 0) -> str:
    return f"408 Request Timeout Nats-Pending-Messages: {left} Nats-Pending-Bytes: {size}"


# -- who is served --------------------------------------------------------------------------------


def test_one_request_gets_its_batch_and_nothing_more() -> None:
    desk = Desk()
    assert desk.ask("a", "3")
    desk.pending = 5
    assert desk.deliver() == ["a", "a", "a"]
    assert (desk.pulls.count, desk.statuses()) == (0, [])


def test_requests_take_turns_message_by_message() -> None:
    desk = Desk()
    for inbox, batch in (("a", "3"), ("b", "1"), ("c", "2")):
        desk.ask(inbox, batch)
    desk.pending = 10
    assert desk.deliver() == ["a", "b", "c", "a", "c", "a"]


def test_a_request_that_comes_later_waits_for_its_turn() -> None:
    desk = Desk()
    desk.ask("a", "3")
    desk.ask("b", "3")
    desk.pending = 10
    assert desk.deliver(1) == ["a"]
    desk.ask("c", "1")
    assert desk.deliver() == ["b", "a", "c", "b", "a", "b"]


@pytest.mark.parametrize("body", ["0", "-5", '{"batch":0}', "{}", "text", ""])
def test_a_batch_of_nothing_is_one_message(body: str) -> None:
    desk = Desk()
    desk.ask("a", body)
    desk.pending = 5
    assert desk.deliver() == ["a"]
    assert desk.pulls.count == 0


def test_nobody_is_served_when_nobody_waits() -> None:
    desk = Desk()
    desk.pending = 1
    assert desk.deliver() == []
    assert not desk.exhausted()
    assert desk.pulls.due() == 0
    assert desk.pulls.run_length() == 0


def test_an_inbox_without_interest_is_passed_over_in_silence() -> None:
    desk = Desk()
    desk.ask("a", "2")
    desk.ask("b", "2")
    desk.absent.add(b"a")
    desk.pending = 5
    assert desk.deliver() == ["b", "b"]
    assert desk.statuses() == []


def test_an_imported_inbox_without_interest_is_told() -> None:
    desk = Desk()
    desk.ask("a", batch=4, max_bytes=50)
    request = desk.pulls.current(desk.now, 1, 0)
    assert request is not None
    desk.pulls.gone(request, True)
    assert desk.statuses() == [("a", "408 Interest Expired Nats-Pending-Messages: 4 Nats-Pending-Bytes: 50")]
    assert desk.pulls.count == 0


def test_a_request_knows_whether_it_waits_and_what_it_got() -> None:
    desk = Desk()
    request = parse_pull(b"a", b"2", b"", desk.now)
    assert not request.waiting
    desk.pulls.add(request, desk.now, 0, 0)
    assert request.waiting
    desk.pending = 2
    desk.deliver(1)
    assert (request.waiting, request.left, request.delivered) == (True, 1, 1)
    desk.deliver()
    assert (request.waiting, request.left, request.delivered) == (False, 0, 2)


def test_a_request_that_is_done_can_not_end_again() -> None:
    desk = Desk()
    request = parse_pull(b"a", b'{"batch":1}', b"", desk.now)
    desk.pulls.add(request, desk.now, 0, 0)
    desk.ask("b", "1")
    desk.pending = 1
    assert desk.deliver() == ["a"]
    desk.pulls.gone(request)
    desk.pulls.too_big(request)
    assert (desk.pulls.count, desk.statuses()) == (1, [])
    desk.pending = 1
    assert desk.deliver() == ["b"]


# -- runs -----------------------------------------------------------------------------------------


def test_a_lonely_request_may_get_its_whole_batch_in_one_run() -> None:
    desk = Desk()
    desk.ask("a", "100")
    request = desk.pulls.current(desk.now, 50, 0)
    assert request is not None
    assert desk.pulls.run_length() == 100
    desk.pulls.served(request, 500, desk.now, 50)
    assert (request.left, request.delivered, desk.pulls.run_length()) == (50, 50, 50)
    desk.pulls.served(request, 500, desk.now, 50)
    assert desk.pulls.count == 0


@pytest.mark.parametrize(
    ("requests", "length"),
    [
        ([("a", {"batch": 5}), ("b", {"batch": 5})], 1),
        ([("a", {"batch": 5, "max_bytes": 1000})], 5),
        ([("a", {"batch": 0})], 1),
        ([("a", {"batch": 5, "expires": SECOND, "idle_heartbeat": 1000})], 5),
    ],
)
def test_runs_end_where_somebody_must_be_looked_at(
    requests: list[tuple[str, dict[str, Any]]], length: int
) -> None:
    desk = Desk()
    for inbox, fields in requests:
        desk.ask(inbox, **fields)
    assert desk.pulls.current(desk.now, 9, 0) is not None
    assert desk.pulls.run_length() == length


# -- bytes ----------------------------------------------------------------------------------------


def test_a_message_that_is_too_big_ends_the_request_and_goes_to_the_next() -> None:
    desk = Desk()
    desk.ask("a", batch=10, max_bytes=25)
    desk.ask("b", batch=1)
    desk.pending = 5
    assert desk.deliver() == ["a", "b", "a"]
    assert desk.statuses() == [
        ("a", "409 Message Size Exceeds MaxBytes Nats-Pending-Messages: 8 Nats-Pending-Bytes: 5")
    ]


def test_a_request_that_has_used_up_its_bytes_ends_without_a_word() -> None:
    desk = Desk()
    desk.ask("a", batch=10, max_bytes=30)
    desk.pending = 5
    assert desk.deliver() == ["a", "a", "a"]
    assert (desk.pulls.count, desk.statuses()) == (0, [])


def test_a_batch_that_is_complete_with_bytes_left_is_told() -> None:
    desk = Desk()
    desk.ask("a", batch=2, max_bytes=35)
    desk.pending = 5
    assert desk.deliver() == ["a", "a"]
    assert desk.statuses() == [("a", "409 Batch Completed Nats-Pending-Messages: 0 Nats-Pending-Bytes: 15")]


def test_a_batch_of_nothing_counts_below_zero_when_it_is_complete() -> None:
    desk = Desk()
    desk.ask("a", batch=-3, max_bytes=35)
    desk.pending = 5
    assert desk.deliver() == ["a"]
    assert desk.statuses() == [("a", "409 Batch Completed Nats-Pending-Messages: -4 Nats-Pending-Bytes: 25")]


# -- bounds ---------------------------------------------------------------------------------------


def test_more_requests_than_may_wait_are_refused() -> None:
    desk = Desk(max_waiting=2)
    assert desk.ask("a")
    assert desk.ask("b")
    assert not desk.ask("c")
    assert desk.statuses() == [("c", "409 Exceeded MaxWaiting")]


def test_a_request_with_heartbeats_is_refused_in_silence() -> None:
    desk = Desk(max_waiting=1)
    desk.ask("a")
    assert not desk.ask("b", batch=1, expires=10 * SECOND, idle_heartbeat=SECOND)
    assert desk.statuses() == []


def test_room_is_made_of_requests_that_are_over_once_a_second() -> None:
    desk = Desk(max_waiting=2)
    desk.ask("a")
    desk.ask("b")
    desk.absent = {b"a", b"b"}
    assert desk.ask("c")  # nobody has looked for a long time
    assert desk.ask("d")
    desk.absent.add(b"c")
    desk.now += SECOND
    assert not desk.ask("e")
    desk.now += 1
    assert desk.ask("f")
    assert desk.statuses() == [("e", "409 Exceeded MaxWaiting")]


@pytest.mark.parametrize(
    ("config", "fits", "too_much", "status"),
    [
        ({"max_batch": 5}, {"batch": 5}, {"batch": 6}, "409 Exceeded MaxRequestBatch of 5"),
        (
            {"max_expires": 2 * SECOND},
            {"expires": 2 * SECOND},
            {"expires": 2 * SECOND + 1},
            "409 Exceeded MaxRequestExpires of 2s",
        ),
        (
            {"max_expires": 1_500_000_000},
            {"batch": 1},
            {"expires": 2 * SECOND},
            "409 Exceeded MaxRequestExpires of 1.5s",
        ),
        (
            {"max_bytes": 100},
            {"max_bytes": 100},
            {"max_bytes": 101},
            "409 Exceeded MaxRequestMaxBytes of 100",
        ),
        ({"max_bytes": 100}, {"max_bytes": 0}, {"max_bytes": 101}, "409 Exceeded MaxRequestMaxBytes of 100"),
    ],
)
def test_requests_above_a_bound_of_the_consumer_are_refused(
    config: dict[str, Any], fits: dict[str, Any], too_much: dict[str, Any], status: str
) -> None:
    desk = Desk(**config)
    assert desk.ask("a", **fits)
    assert not desk.ask("b", **too_much)
    assert desk.statuses() == [("b", status)]


def test_a_number_is_held_to_the_bound_too() -> None:
    desk = Desk(max_batch=5)
    assert not desk.ask("a", "6")
    assert desk.statuses() == [("a", "409 Exceeded MaxRequestBatch of 5")]


def test_a_new_configuration_bounds_requests_to_come() -> None:
    desk = Desk()
    assert desk.ask("a", "6")
    desk.pulls.configure(ConsumerConfig(max_waiting=512, max_batch=5))
    assert not desk.ask("b", "6")
    desk.pending = 10
    assert desk.deliver() == ["a"] * 6


def test_a_body_that_can_not_be_read_is_refused() -> None:
    desk = Desk()
    assert not desk.ask("a", '{"batch":"x"}')
    [(inbox, status)] = desk.statuses()
    assert inbox == "a"
    assert status.startswith("400 Bad Request - json: cannot unmarshal string into Go struct field")


# -- requests that do not wait --------------------------------------------------------------------


def test_no_wait_with_nothing_there_is_answered_at_once() -> None:
    desk = Desk()
    assert not desk.ask("a", batch=5, no_wait=True)
    assert desk.statuses() == [("a", NO_MESSAGES)]


def test_no_wait_gets_what_is_there_and_then_the_end() -> None:
    desk = Desk()
    desk.pending = 2
    assert desk.ask("a", batch=5, no_wait=True)
    assert desk.deliver() == ["a", "a"]
    assert desk.statuses() == []
    desk.exhausted()
    assert desk.statuses() == [("a", NO_MESSAGES)]


def test_no_wait_that_got_its_batch_is_told_nothing() -> None:
    desk = Desk()
    desk.pending = 2
    desk.ask("a", batch=2, no_wait=True)
    assert desk.deliver() == ["a", "a"]
    desk.exhausted()
    assert desk.statuses() == []


def test_messages_to_deliver_again_are_there_too() -> None:
    desk = Desk()
    desk.again = 1
    assert desk.ask("a", batch=5, no_wait=True)
    assert desk.deliver() == ["a"]


def test_no_wait_with_a_time_waits_for_the_first_message() -> None:
    desk = Desk()
    assert desk.ask("a", batch=5, no_wait=True, expires=SECOND)
    desk.exhausted()
    assert desk.statuses() == []
    desk.pending = 1
    assert desk.deliver() == ["a"]
    desk.exhausted()
    assert desk.statuses() == [("a", NO_MESSAGES)]


def test_no_wait_with_a_time_that_passes_is_a_timeout() -> None:
    desk = Desk()
    desk.ask("a", batch=5, no_wait=True, expires=SECOND)
    assert desk.pass_time(SECOND) == [("a", timeout(5))]


def test_no_wait_behind_requests_that_claim_everything_is_refused() -> None:
    desk = Desk()
    desk.ask("a", "3")
    desk.pending = 2
    assert not desk.ask("b", batch=1, no_wait=True)
    assert desk.statuses() == [("b", "408 Requests Pending")]
    desk.pending = 3
    assert desk.ask("c", batch=1, no_wait=True)


def test_requests_of_clients_that_are_gone_claim_nothing() -> None:
    desk = Desk()
    desk.ask("a", "3")
    desk.absent.add(b"a")
    desk.pending = 1
    assert desk.ask("b", batch=1, no_wait=True)
    assert desk.deliver() == ["b"]


def test_a_request_for_any_number_claims_everything() -> None:
    desk = Desk()
    for inbox in "abc":
        desk.ask(inbox, batch=2**63 - 1)
    desk.pending = 1000
    assert not desk.ask("d", batch=1, no_wait=True)
    assert desk.statuses() == [("d", "408 Requests Pending")]


def test_a_consumer_that_may_not_deliver_more_leaves_no_wait_unanswered() -> None:
    desk = Desk()
    desk.pending = 1
    desk.ask("a", batch=1, no_wait=True)
    desk.pulls.expire(desk.now, 0, 0)
    assert desk.statuses() == []
    assert desk.pulls.count == 1


# -- time -----------------------------------------------------------------------------------------


def test_a_request_ends_when_its_time_is_over() -> None:
    desk = Desk()
    desk.ask("a", batch=5, expires=SECOND, max_bytes=100)
    desk.pending = 2
    desk.deliver()
    assert desk.pulls.due() == START + SECOND
    assert desk.pass_time(SECOND - 1) == []
    assert desk.pass_time(1) == [("a", timeout(3, 80))]
    assert (desk.pulls.count, desk.pulls.due()) == (0, 0)


def test_a_request_that_is_over_is_not_served() -> None:
    desk = Desk()
    desk.ask("a", batch=5, expires=SECOND)
    desk.ask("b", batch=1)
    desk.now += SECOND
    desk.pending = 1
    assert desk.deliver() == ["b"]
    assert desk.statuses() == [("a", timeout(5))]


def test_a_time_below_zero_is_over_at_once() -> None:
    desk = Desk(max_expires=SECOND)
    assert desk.ask("a", batch=5, expires=-1)
    desk.exhausted()
    assert desk.statuses() == [("a", timeout(5))]


def test_time_passes_for_consumers_that_may_not_deliver() -> None:
    desk = Desk()
    desk.ask("a", batch=5, expires=SECOND, idle_heartbeat=SECOND // 2)
    desk.now += SECOND // 2
    desk.pulls.expire(desk.now, 7, 9)
    desk.now += SECOND // 2
    desk.pulls.expire(desk.now, 7, 9)
    assert desk.statuses() == [
        ("a", "100 Idle Heartbeat Nats-Last-Consumer: 7 Nats-Last-Stream: 9"),
        ("a", timeout(5)),
    ]


def test_the_earliest_of_all_times_is_the_next() -> None:
    desk = Desk()
    desk.ask("a", batch=1, expires=9 * SECOND)
    desk.ask("b", batch=1, expires=5 * SECOND)
    desk.ask("c", batch=1, expires=8 * SECOND, idle_heartbeat=4 * SECOND)
    desk.ask("d", batch=1)
    assert desk.pulls.due() == START + 4 * SECOND
    assert desk.pass_time(20 * SECOND) == [
        ("c", "100 Idle Heartbeat Nats-Last-Consumer: 0 Nats-Last-Stream: 100"),
        ("b", timeout(1)),
        ("c", timeout(1)),
        ("a", timeout(1)),
    ]
    assert (desk.pulls.count, desk.pulls.due()) == (1, 0)


def test_heartbeats_come_while_nothing_else_does() -> None:
    desk = Desk()
    desk.ask("a", batch=5, expires=10 * SECOND, idle_heartbeat=2 * SECOND)
    desk.pass_time(SECOND)
    desk.pending = 1
    desk.deliver()
    assert desk.pass_time(2 * SECOND - 1) == []
    assert desk.pass_time(1) == [("a", "100 Idle Heartbeat Nats-Last-Consumer: 1 Nats-Last-Stream: 101")]
    assert len(desk.pass_time(6 * SECOND)) == 3
    assert desk.pass_time(SECOND) == [("a", timeout(4))]


def test_clients_that_are_gone_leave_when_time_passes() -> None:
    desk = Desk()
    desk.ask("a", batch=1)
    desk.ask("b", batch=1, expires=SECOND)
    desk.absent.add(b"a")
    desk.pass_time(SECOND)
    assert desk.pulls.count == 0


def test_those_who_wait_are_counted_without_those_who_are_gone_or_late() -> None:
    desk = Desk()
    desk.ask("a")
    desk.ask("b", batch=1, expires=SECOND)
    desk.ask("c", batch=1, no_wait=True, expires=2 * SECOND)
    desk.absent.add(b"a")
    desk.now += SECOND
    assert desk.pulls.num_waiting(desk.now) == 1
    assert desk.statuses() == [("b", timeout(1))]


def test_the_last_request_that_could_have_been_served_is_remembered() -> None:
    desk = Desk(max_batch=5)
    assert desk.pulls.last_asked_ns == 0
    desk.ask("a", "9")
    assert desk.pulls.last_asked_ns == 0
    desk.ask("a", batch=1, no_wait=True)
    assert desk.pulls.last_asked_ns == START
    desk.now += 1
    desk.ask("a", "1")
    assert desk.pulls.last_asked_ns == START + 1
    desk.now += 1
    desk.pending = 1
    desk.ask("b", "1")
    desk.ask("c", batch=1, no_wait=True)
    assert desk.pulls.last_asked_ns == START + 2


# -- the end --------------------------------------------------------------------------------------


def test_everybody_hears_that_the_consumer_was_deleted() -> None:
    desk = Desk()
    desk.ask("a", "5")
    desk.ask("b", batch=1, expires=SECOND)
    desk.pulls.deleted(1)
    assert desk.pulls.count == 1
    desk.pulls.deleted(64)
    assert desk.statuses() == [("a", "409 Consumer Deleted"), ("b", "409 Consumer Deleted")]
    assert (desk.pulls.count, desk.pulls.due()) == (0, 0)


def test_every_inbox_hears_once_that_the_server_stops() -> None:
    desk = Desk()
    desk.ask("a", "5")
    desk.ask("b", batch=2, max_bytes=70)
    desk.ask("a", "6")
    desk.pulls.shut_down()
    assert desk.statuses() == [
        ("a", "409 Server Shutdown Nats-Pending-Messages: 6 Nats-Pending-Bytes: 0"),
        ("b", "409 Server Shutdown Nats-Pending-Messages: 2 Nats-Pending-Bytes: 70"),
    ]
    assert desk.pulls.count == 0
