"""Messages that a subscription holds and has in flight, without a clock and without NATS."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.gateway.v1.delivery import HttpDelivery
from millstream.gateway.v1.window import Window


def delivery(stream_seq: int, consumer_seq: int | None = None, size: int = 10) -> HttpDelivery:
    return HttpDelivery(None, "reply", "S", 1, stream_seq, consumer_seq or stream_seq, 0, 0.0, size)


def taken(window: Window, now: float = 0.0) -> list[int]:
    """Take all messages that may be sent now."""
    found = []
    while (next_one := window.next(now)) is not None:
        found.append(next_one.stream_seq)
    return found


def test_no_more_than_the_limit_is_in_flight() -> None:
    window = Window(2, 30)
    for sequence in (1, 2, 3):
        window.take(delivery(sequence))
    assert taken(window) == [1, 2]
    assert window.acked(1) is not None
    assert taken(window) == [3]


def test_limit_zero_is_no_limit() -> None:
    window = Window(0, 30)
    for sequence in range(1, 100):
        window.take(delivery(sequence))
    assert taken(window) == list(range(1, 100))


def test_a_new_attempt_replaces_the_one_that_is_held() -> None:
    window = Window(1, 30)
    window.take(delivery(1, size=10))
    window.take(delivery(1, consumer_seq=5, size=20))
    assert (window.held, window.held_bytes) == (1, 20)
    found = window.next(0)
    assert found is not None
    assert found.consumer_seq == 5


def test_a_new_attempt_of_a_message_in_flight_goes_again() -> None:
    window = Window(1, 30)
    window.take(delivery(1))
    assert taken(window) == [1]
    window.take(delivery(1, consumer_seq=2))
    assert taken(window) == [1]
    assert window.in_flight == 1


def test_a_place_is_free_again_when_the_time_is_over() -> None:
    window = Window(1, 30)
    window.take(delivery(1))
    window.take(delivery(2))
    assert taken(window, 0) == [1]
    assert window.next_deadline() == 30
    assert taken(window, 29) == []
    assert taken(window, 30) == [2]
    assert window.acked(1) is None


def test_an_old_deadline_does_not_end_a_new_attempt() -> None:
    window = Window(1, 30)
    window.take(delivery(1))
    assert taken(window, 0) == [1]
    window.take(delivery(1, consumer_seq=2))
    assert taken(window, 20) == [1]
    window.expire(30)
    assert window.in_flight == 1
    assert window.next_deadline() == 50


def test_what_was_never_written_can_be_acknowledged_too() -> None:
    window = Window(1, 30)
    window.take(delivery(1, size=7))
    assert window.acked(1) is not None
    assert (window.held, window.held_bytes) == (0, 0)


@given(
    limit=st.integers(0, 3),
    steps=st.lists(st.tuples(st.sampled_from(["take", "next", "ack", "wait"]), st.integers(1, 6))),
)
def test_bytes_and_places_are_counted_right(limit: int, steps: list[tuple[str, int]]) -> None:
    window, now = Window(limit, 5), 0.0
    for number, (step, argument) in enumerate(steps):
        match step:
            case "take":
                window.take(delivery(argument, consumer_seq=number + 1, size=argument * 10))
            case "next":
                window.next(now)
            case "ack":
                window.acked(argument)
            case "wait":
                now += argument
                window.expire(now)
        assert window.held_bytes == sum(held.size for held in window.waiting())
        assert not limit or window.in_flight <= limit
        sequences = [*window._in_flight, *(one.stream_seq for one in window.waiting())]
        assert len(sequences) == len(set(sequences)) == window.held + window.in_flight


def test_without_a_limit_what_nobody_acknowledges_is_forgotten_in_time() -> None:
    window = Window(0, 5)
    for sequence in range(1, 1001):
        window.take(delivery(sequence))
        window.next(float(sequence))
    assert window.in_flight <= 6


def test_without_a_limit_what_is_acknowledged_leaves_nothing_behind() -> None:
    window = Window(0, 5)
    for sequence in range(1, 1001):
        window.take(delivery(sequence))
        window.next(0.0)
        window.acked(sequence)
    assert (window.in_flight, len(window._deadlines)) == (0, 1)
