"""The arithmetic of flow control, rates and the original pace."""

from millstream.jetstream.consumers.flow import FlowWindow, OriginalPace, Rate

MIB = 1024 * 1024
SECOND = 1_000_000_000


def test_a_window_asks_at_half_and_blocks_when_it_is_used_up() -> None:
    window = FlowWindow()
    assert not window.sent(MIB)
    assert window.sent(1)
    window.ask(b"x")
    assert not window.sent(MIB - 1)
    assert not window.is_blocked()
    assert not window.sent(1)
    assert window.is_blocked()


def test_an_answer_frees_what_was_out_when_it_was_asked_for() -> None:
    window = FlowWindow()
    window.sent(MIB + 1)
    window.ask(b"x")
    window.sent(MIB)
    assert not window.answer(b"y")
    assert window.answer(b"x")
    assert not window.answer(b"x")
    assert (window.outstanding, window.window) == (MIB, 4 * MIB)


def test_a_window_grows_to_its_largest() -> None:
    window = FlowWindow()
    for _ in range(10):
        window.ask(b"x")
        window.answer(b"x")
    assert window.window == 32 * MIB


def test_a_rate_lets_a_burst_go_and_then_waits_for_each_message() -> None:
    rate = Rate(8 * 1000, 500)
    assert rate.room(SECOND) == 500
    rate.sent(500)
    assert rate.room(SECOND) == 0
    assert rate.wait_ns(250) == SECOND // 4
    assert rate.room(SECOND + SECOND // 4) == 250
    assert rate.wait_ns(250) == 0


def test_a_burst_never_grows_beyond_its_size() -> None:
    rate = Rate(8 * 1000, 500)
    rate.room(SECOND)
    assert rate.room(100 * SECOND) == 500


def test_a_message_larger_than_the_burst_goes_with_a_full_one() -> None:
    rate = Rate(8 * 1000, 500)
    rate.room(SECOND)
    assert rate.wait_ns(9000) == 0
    rate.sent(9000)
    assert rate.wait_ns(1) == 8501 * SECOND // 1000


def test_the_original_pace_keeps_pauses_and_ignores_short_ones() -> None:
    pace = OriginalPace(9)
    assert pace.wait_ns(SECOND, 50 * SECOND) == 0
    pace.sent(SECOND)
    assert pace.wait_ns(SECOND + 1_000_000, 50 * SECOND) == 0
    assert pace.wait_ns(3 * SECOND, 50 * SECOND) == 2 * SECOND
    assert pace.wait_ns(3 * SECOND, 51 * SECOND) == SECOND
    assert pace.wait_ns(3 * SECOND, 52 * SECOND) == 0
