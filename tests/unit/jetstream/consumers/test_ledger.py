"""The ledger of a consumer: every pair of its table, floors, what goes out again, and what survives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random

import pytest

from millstream.jetstream.consumers.ledger import Ledger
from millstream.jetstream.consumers.message_states import (
    MOVES,
    IllegalMoveError,
    MessageEvent,
    MessageState,
    step,
)

SECOND = 1_000_000_000
WAIT = 30 * SECOND


def ledger(*delivered: int, now: int = 0, max_deliver: int = 0, backoff: tuple[int, ...] = ()) -> Ledger:
    made = Ledger()
    made.ack_wait = backoff[0] if backoff else WAIT
    made.backoff = backoff
    made.max_deliver = max_deliver
    made.journaled = True
    made.reset(1)
    for sseq in delivered:
        made.deliver(sseq, now)
    return made


def floors(of: Ledger) -> tuple[int, int]:
    return of.floor_dseq, of.floor_sseq


def delivered(of: Ledger) -> tuple[int, int]:
    return of.delivered_dseq, of.delivered_sseq


# -- the table ------------------------------------------------------------------------------------

MESSAGE = 5


def in_state(state: MessageState) -> Ledger:
    made = ledger(MESSAGE) if state is not MessageState.UNKNOWN else ledger()
    if state is MessageState.DELAYED:
        made.nak_later(MESSAGE, 5 * SECOND)
    elif state is MessageState.QUEUED:
        made.nak(MESSAGE)
    return made


def state_of(of: Ledger) -> MessageState:
    entry = of.pending.get(MESSAGE)
    if entry is None:
        return MessageState.UNKNOWN
    if entry.queued:
        assert of.next_again() == MESSAGE
        return MessageState.QUEUED
    # What is put off has a time from which the usual wait ends at its own; here that is before the start.
    return MessageState.DELAYED if entry.due and entry.at < 0 else MessageState.INFLIGHT


def _deliver(of: Ledger) -> None:
    if of.next_again():
        of.pop_again()
        of.deliver_again(MESSAGE, SECOND)
    else:
        of.deliver(MESSAGE, SECOND)


def _nak(of: Ledger) -> None:
    if of.may_nak(MESSAGE, 1):
        of.nak(MESSAGE)


def _nak_later(of: Ledger) -> None:
    if of.may_nak(MESSAGE, 1):
        of.nak_later(MESSAGE, 9 * SECOND)


def _give_up(of: Ledger) -> None:
    of.give_up(MESSAGE)


ACTS: dict[MessageEvent, Callable[[Ledger], object]] = {
    MessageEvent.DELIVER: _deliver,
    MessageEvent.ACK: lambda of: of.ack(MESSAGE),
    MessageEvent.PROGRESS: lambda of: of.progress(MESSAGE, SECOND),
    MessageEvent.NAK: _nak,
    MessageEvent.NAK_LATER: _nak_later,
    MessageEvent.TERM: lambda of: of.ack(MESSAGE),
    MessageEvent.TIMEOUT: lambda of: of.expire(WAIT),
    MessageEvent.GIVE_UP: _give_up,
    MessageEvent.REMOVE: lambda of: of.remove(MESSAGE),
}


@pytest.mark.parametrize(("state", "event"), list(MOVES), ids=lambda each: each.name.lower())
def test_the_ledger_moves_as_the_table_says(state: MessageState, event: MessageEvent) -> None:
    of = in_state(state)
    assert state_of(of) is state
    ACTS[event](of)
    assert state_of(of) is MOVES[state, event]


def test_a_pair_that_is_not_in_the_table_is_an_error() -> None:
    missing = [pair for pair in itertools.product(MessageState, MessageEvent) if pair not in MOVES]
    assert missing == [
        (MessageState.UNKNOWN, MessageEvent.TIMEOUT),
        (MessageState.UNKNOWN, MessageEvent.GIVE_UP),
        (MessageState.INFLIGHT, MessageEvent.DELIVER),
        (MessageState.DELAYED, MessageEvent.DELIVER),
        (MessageState.QUEUED, MessageEvent.TIMEOUT),
    ]
    for state, event in missing:
        with pytest.raises(IllegalMoveError, match=event.value):
            step(state, event)


# -- floors ---------------------------------------------------------------------------------------


def test_floors_start_before_the_first_message() -> None:
    of = Ledger()
    of.reset(8)
    assert (delivered(of), floors(of)) == ((0, 7), (0, 7))


def test_an_ack_in_order_raises_both_floors() -> None:
    of = ledger(1, 2, 3)
    assert of.ack(1)
    assert floors(of) == (1, 1)


def test_an_ack_out_of_order_leaves_the_floors_until_the_gap_closes() -> None:
    of = ledger(1, 2, 3, 4)
    of.ack(2)
    of.ack(3)
    assert floors(of) == (0, 0)
    of.ack(1)
    assert floors(of) == (3, 3)


def test_a_floor_rises_to_just_below_the_next_one_pending() -> None:
    of = ledger(1, 10, 20)
    of.ack(1)
    assert floors(of) == (1, 9)


def test_when_nothing_is_pending_the_floors_are_what_was_delivered() -> None:
    of = ledger(1, 5, 9)
    for sseq in (9, 1, 5):
        of.ack(sseq)
    assert floors(of) == (3, 9)


def test_a_delivery_that_needs_no_ack_takes_the_floors_along() -> None:
    of = ledger()
    of.deliver_settled(4)
    assert (delivered(of), floors(of)) == ((1, 4), (1, 4))


def test_a_message_keeps_its_first_number_when_it_goes_out_again() -> None:
    of = ledger(1, 2)
    of.nak(1)
    of.pop_again()
    of.deliver_again(1, SECOND)
    assert delivered(of) == (3, 2)
    assert of.pending[1].dseq == 1
    assert of.deliveries(1) == 2
    of.ack(1)
    assert floors(of) == (1, 1)
    assert dict(of.redelivered) == {}


def test_ack_all_settles_everything_up_to_it() -> None:
    of = ledger(1, 2, 5, 6)
    assert of.ack_all(5, 3) == [1, 2, 5]
    assert floors(of) == (3, 5)
    assert list(of.pending) == [6]


def test_a_floor_passes_no_pending_message_whose_first_delivery_was_before_that_of_an_ack_of_all() -> None:
    of = ledger(1, 2, max_deliver=2)
    of.nak(1)
    of.deliver_again(of.next_again(), 0)
    of.ack_all(1, dseq=3)
    assert floors(of) == (3, 1)
    of.deliver(3, 0)
    of.ack(3)
    assert floors(of) == (3, 1)
    of.nak(2)
    assert of.next_again() == 2


def test_ack_all_below_the_floor_changes_nothing() -> None:
    of = ledger(1, 2, 3)
    of.ack_all(2, 2)
    assert of.ack_all(1, 1) == []
    assert floors(of) == (2, 2)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
def test_ack_all_in_parts_ends_as_it_does_in_one(most: int) -> None:
    chance = Random(most)
    for _ in range(50):
        sseqs = sorted(chance.sample(range(1, 60), 30))
        whole, parts = ledger(*sseqs), ledger(*sseqs)
        for settled in chance.sample(sseqs, 8):
            whole.ack(settled)
            parts.ack(settled)
        number = chance.randrange(30)
        sseq, dseq = sseqs[number], number + 1
        if dseq <= whole.floor_dseq or sseq <= whole.floor_sseq:
            continue
        expected, found = whole.ack_all(sseq, dseq), []
        while True:
            before = floors(parts)
            found += parts.ack_some(sseq, dseq, most)
            after = floors(parts)
            assert before[0] <= after[0] <= dseq
            assert before[1] <= after[1] <= sseq
            assert all(each > after[1] for each in parts.pending)
            if not parts.has_unsettled(sseq):
                break
        assert found == expected
        assert floors(parts) == floors(whole)
        assert list(parts.pending) == list(whole.pending)


# -- going out again ------------------------------------------------------------------------------


def test_what_is_not_acknowledged_in_time_goes_out_again_in_order() -> None:
    of = ledger(3, 1, 2)
    assert of.due() == WAIT
    assert of.expire(WAIT - 1) == []
    assert of.next_again() == 0
    assert of.expire(WAIT) == []
    again = []
    while sseq := of.next_again():
        of.pop_again()
        of.deliver_again(sseq, WAIT)
        again.append(sseq)
    assert again == [1, 2, 3]
    assert of.due() == 2 * WAIT


def test_only_what_is_late_goes_out_again() -> None:
    of = ledger(1)
    of.deliver(2, SECOND)
    of.expire(WAIT)
    assert of.next_again() == 1
    of.pop_again()
    assert of.next_again() == 0


def test_progress_starts_the_time_anew() -> None:
    of = ledger(1, 2)
    of.progress(1, 10 * SECOND)
    of.expire(WAIT)
    assert of.next_again() == 2
    of.pop_again()
    of.deliver_again(2, WAIT)
    assert of.due() == 10 * SECOND + WAIT


def test_a_delay_is_kept_whatever_the_waiting_time_is() -> None:
    of = ledger(1, 2)
    of.nak_later(2, 5 * SECOND)
    assert of.due() == 5 * SECOND
    of.expire(5 * SECOND)
    assert of.next_again() == 2


@pytest.mark.parametrize("max_deliver", [0, 2])
def test_what_is_due_twice_at_one_moment_is_late_once(max_deliver: int) -> None:
    of = ledger(1, max_deliver=max_deliver, backoff=(SECOND,))
    of.nak(1)
    assert of.next_again() == 1
    of.pop_again()
    of.deliver_again(1, 0)  # the clock has not moved since the first time
    assert of.expire(SECOND) == ([1] if max_deliver else [])
    assert of.waiting_again == (0 if max_deliver else 1)
    assert of.expire(2 * SECOND) == []


def test_each_delivery_has_its_own_time_with_a_backoff() -> None:
    of = ledger(1, backoff=(SECOND, 3 * SECOND))
    due = []
    now = 0
    for _ in range(4):
        now = of.due()
        due.append(now)
        assert of.expire(now) == []
        of.pop_again()
        of.deliver_again(1, now)
    assert due == [SECOND, 4 * SECOND, 7 * SECOND, 10 * SECOND]


def test_an_ack_while_it_waits_to_go_out_again_counts() -> None:
    of = ledger(1, 2)
    of.nak(1)
    of.nak(2)
    of.ack(1)
    assert of.next_again() == 2


def test_a_message_is_given_up_after_so_many_deliveries() -> None:
    of = ledger(1, 2, max_deliver=2)
    assert of.expire(WAIT) == []
    of.pop_again()
    of.deliver_again(1, WAIT)
    assert of.expire(2 * WAIT) == [1]
    assert list(of.pending) == [2]
    assert of.redelivered[1] == 2
    assert floors(of) == (1, 1)


def test_what_was_given_up_is_needed_as_long_as_the_stream_has_it() -> None:
    of = ledger(1, 2, max_deliver=1)
    of.expire(WAIT)
    assert of.needs(1, 3)
    of.remove(1)
    assert not of.needs(1, 3)
    assert of.needs(3, 3)


def test_a_nak_from_before_the_floor_is_refused() -> None:
    of = ledger(1, 2)
    of.ack(1)
    assert not of.may_nak(1, 1)
    assert of.may_nak(2, 2)
    assert not of.may_nak(2, 3)  # there was no such delivery


def test_everything_can_go_out_again_at_once() -> None:
    of = ledger(1, 2, max_deliver=1)
    assert of.queue_some(0, SECOND) == (0, [1, 2])
    of = ledger(2, 1)
    assert of.queue_some(0, SECOND, 1) == (1, [])
    assert of.queue_some(1, SECOND, 1) == (2, [])
    assert of.queue_some(2, SECOND, 1) == (0, [])
    assert [of.next_again(), of.waiting_again] == [1, 2]


# -- the stream -----------------------------------------------------------------------------------


def skip(of: Ledger, sseq: int, most: int = 100) -> None:
    of.begin_skip(sseq)
    while of.skip_some(sseq, most):
        pass


def test_a_purge_takes_what_is_pending_along() -> None:
    of = ledger(1, 2, 7)
    of.nak(1)
    of.begin_skip(5)
    assert of.next_again() == 0  # before it is looked at
    skip(of, 5, 1)
    assert list(of.pending) == [7]
    assert floors(of) == (2, 4)
    of.begin_skip(100)
    skip(of, 100)
    assert (delivered(of), floors(of)) == ((3, 99), (3, 99))


def test_a_reset_counts_deliveries_from_one() -> None:
    of = ledger(1, 2, 3)
    of.reset(2)
    assert (delivered(of), floors(of), dict(of.pending)) == ((0, 1), (0, 1), {})


def test_what_lies_below_the_first_message_is_named_in_order() -> None:
    of = ledger(4, 2, 9)
    assert of.remove_below(9) == [2, 4]


# -- what survives --------------------------------------------------------------------------------


def test_changes_are_told_once() -> None:
    of = ledger(1, 2, now=7)
    assert of.take_changes() == ([(1, 1, 7), (2, 2, 7)], [], [])
    assert not of.changed
    of.ack(1)
    of.nak(2)
    of.pop_again()
    of.deliver_again(2, 9)
    assert of.changed
    assert of.take_changes() == ([(2, 2, 9)], [1], [(2, 1)])
    assert of.take_changes() == ([], [], [])


def test_what_came_and_went_between_two_looks_is_not_told() -> None:
    of = ledger(1)
    of.ack(1)
    assert of.take_changes() == ([], [], [])


def test_a_delay_is_told_so_that_it_is_due_at_the_same_time_after_a_restart() -> None:
    of = ledger(1, 2)
    of.take_changes()
    of.nak_later(1, 5 * SECOND)
    pending, _, _ = of.take_changes()
    assert pending == [(1, 1, 5 * SECOND - WAIT)]
    other = ledger()
    other.restore({1: (1, 5 * SECOND - WAIT), 2: (2, 0)}, {}, (2, 2), (0, 0))
    assert other.due() == 5 * SECOND


def test_a_restored_ledger_goes_on_as_before() -> None:
    of = ledger()
    of.restore({4: (2, 5), 3: (1, 6)}, {4: 1}, (9, 8), (0, 2))
    assert (delivered(of), floors(of)) == ((9, 8), (0, 2))
    assert of.deliveries(4) == 2
    of.ack(3)
    assert floors(of) == (1, 3)
    of.deliver(10, 7)
    assert of.pending[10].dseq == 10


def test_what_a_stream_lost_is_forgotten() -> None:
    of = ledger(1, 2, 3)
    of.ack(1)
    of.forget_above(2)
    assert list(of.pending) == [2]
    assert (delivered(of), floors(of)) == ((3, 2), (1, 1))
    of.forget_above(1)
    assert (delivered(of), floors(of)) == ((3, 1), (3, 1))


def test_what_is_new_is_told_also_if_something_older_went_behind_it() -> None:
    of = ledger()
    of.restore({1: (1, 0)}, {}, (1, 1), (0, 0))
    of.deliver(2, SECOND)
    of.expire(WAIT)
    pending, _, _ = of.take_changes()
    assert sorted(sseq for sseq, _, _ in pending) == [1, 2]


HOUR = 3600 * SECOND


def test_a_long_delay_holds_nothing_else_up_when_the_waiting_time_changes() -> None:
    of = ledger(1, 2)
    of.nak_later(1, HOUR)
    of.plan_again(0)
    assert of.due() == WAIT
    of.expire(WAIT)
    assert of.next_again() == 2


def test_a_long_delay_holds_nothing_else_up_after_a_restart() -> None:
    of = ledger()
    of.restore({1: (1, HOUR - WAIT), 2: (2, 0)}, {}, (2, 2), (0, 0))
    of.plan_again(SECOND)
    of.ack(2)
    of.deliver(3, SECOND)
    assert of.due() == SECOND + WAIT
    of.expire(SECOND + WAIT)
    assert of.next_again() == 3
    of.pop_again()
    of.expire(HOUR)
    assert of.next_again() == 1


def test_a_long_delay_that_was_cut_short_holds_nothing_else_up() -> None:
    of = ledger(1, 2)
    of.nak_later(1, HOUR)
    of.nak(1)
    of.expire(WAIT)
    assert [of.next_again(), of.waiting_again] == [1, 2]


def test_a_clock_that_was_set_back_does_not_keep_newer_messages_waiting() -> None:
    of = ledger(1, now=HOUR)
    of.deliver(2, 0)
    of.plan_again(0)
    assert of.due() == WAIT
    of.expire(WAIT)
    assert of.next_again() == 2
    assert of.due() == HOUR + WAIT


def test_a_purge_takes_what_was_given_up_with_it() -> None:
    of = ledger(1, 2, 3, max_deliver=1)
    of.expire(WAIT)
    of.deliver(4, WAIT)
    of.take_changes()
    skip(of, 3)
    assert dict(of.redelivered) == {3: 1}
    assert of.take_changes() == ([], [], [(1, 0), (2, 0)])


# -- in parts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3, 100])
def test_what_is_late_in_parts_is_late_once_each(most: int) -> None:
    of = ledger(*range(1, 51), max_deliver=2)
    for sseq in (7, 8, 9):
        of.nak_later(sseq, 5 * SECOND)
    of.ack(20)
    of.nak(30)
    queued = [30]
    for now, expected in ((5 * SECOND, {7, 8, 9}), (WAIT, set(range(1, 51)) - {7, 8, 9, 20, 30})):
        of.expire(now, most)
        while of.late:
            of.expire(now, most)
        found = []
        while sseq := of.next_again():
            of.pop_again()
            of.deliver_again(sseq, now)
            found.append(sseq)
        assert set(found) == expected | set(queued)
        queued = []
    given_up = []
    for _ in range(200):
        given_up += of.expire(2 * WAIT, most)
    assert sorted(given_up) == [each for each in range(1, 51) if each != 20]
    assert not of.pending


def test_a_message_in_progress_has_one_place_however_often_that_is_said() -> None:
    of = ledger(1, 2)
    for moment in range(1000):
        of.progress(1, moment)
    of.ack(2)
    assert of.due() == WAIT  # the first place; it is looked at, and put off
    assert of.expire(WAIT) == []
    assert of.next_again() == 0
    assert of.due() == WAIT + 999
    of.expire(WAIT + 999)
    assert of.next_again() == 1


def test_changes_told_in_parts_are_true_at_each_cut() -> None:
    """Nothing is told as delivered before it is told as pending, unless it is settled."""
    chance = Random(1)
    of = ledger()
    told: dict[int, int] = {}
    last = 0
    for round_number in range(300):
        for _ in range(chance.randrange(12)):
            last += chance.randrange(1, 4)
            of.deliver(last, round_number)
        alive = list(of.pending)
        for sseq in chance.sample(alive, min(len(alive), chance.randrange(8))):
            if chance.random() < 0.3:
                of.progress(sseq, round_number)
            else:
                of.ack(sseq)
        pending, gone, _ = of.take_changes(chance.randrange(1, 6))
        for sseq, dseq, _ in pending:
            told[sseq] = dseq
        for sseq in gone:
            told.pop(sseq, None)
        assert of.told_sseq <= of.delivered_sseq
        assert all(sseq in told for sseq in of.pending if sseq <= of.told_sseq)
        assert max(told, default=0) <= of.told_sseq
    while of.changed:
        pending, gone, _ = of.take_changes(5)
        told |= {sseq: dseq for sseq, dseq, _ in pending}
        for sseq in gone:
            told.pop(sseq, None)
    assert told == {sseq: entry.dseq for sseq, entry in of.pending.items()}
    assert (of.told_sseq, of.told_dseq) == (of.delivered_sseq, of.delivered_dseq)


def test_new_waiting_times_reach_what_has_a_time_of_its_own() -> None:
    of = ledger(1, 2, 3)
    of.progress(2, 10 * SECOND)
    of.ack_wait = 5 * SECOND
    assert of.due() == 5 * SECOND  # the common line
    sseq = 0
    while sseq := of.plan_some(sseq, 1):
        pass
    of.ack(1)
    of.ack(3)
    assert of.due() == 15 * SECOND
