"""States of an inflow: every pair of state and event, and every delay."""

import pytest

from millstream.jetstream.sourcing.life import (
    BACKOFF_NS,
    BETWEEN_REQUESTS_NS,
    LONGEST_BACKOFF_NS,
    MOVES,
    IllegalInflowMove,
    InflowEvent,
    InflowState,
    Life,
)

JITTER = 150_000_000


@pytest.mark.parametrize("state", InflowState)
@pytest.mark.parametrize("event", InflowEvent)
def test_an_event_moves_on_or_is_refused(state: InflowState, event: InflowEvent) -> None:
    life = Life()
    life.state = state
    if (state, event) in MOVES:
        life.step(event, 0)
        assert life.state is MOVES[state, event]
    else:
        with pytest.raises(IllegalInflowMove):
            life.step(event, 0)
        assert life.state is state


def failed(times: int) -> Life:
    life = Life()
    life.step(InflowEvent.START, 0)
    for _ in range(times):
        life.step(InflowEvent.DUE, 0)
        life.step(InflowEvent.REFUSED, 0)
    return life


def test_the_first_request_waits_only_for_chance() -> None:
    assert failed(0).delay_ns(0, JITTER) == JITTER


@pytest.mark.parametrize("failures", [1, 2, 5])
def test_each_failure_adds_to_the_wait(failures: int) -> None:
    assert failed(failures).delay_ns(0, JITTER) == JITTER + BETWEEN_REQUESTS_NS + failures * BACKOFF_NS


def test_there_is_an_end_to_waiting() -> None:
    assert failed(100).delay_ns(0, JITTER) == JITTER + BETWEEN_REQUESTS_NS + LONGEST_BACKOFF_NS


def test_success_and_hope_forget_the_failures() -> None:
    life = failed(3)
    life.hope()
    assert life.delay_ns(BETWEEN_REQUESTS_NS, JITTER) == JITTER
    life = failed(3)
    life.step(InflowEvent.DUE, 0)
    life.step(InflowEvent.ACCEPTED, 0)
    life.step(InflowEvent.INTERRUPTED, 0)
    assert life.delay_ns(0, JITTER) == JITTER + BETWEEN_REQUESTS_NS


def test_another_origin_is_no_failure() -> None:
    life = failed(0)
    life.step(InflowEvent.DUE, 0)
    life.step(InflowEvent.OTHER_ORIGIN, 0)
    assert life.failures == 0
