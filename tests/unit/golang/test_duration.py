"""Durations in Go's spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.golang.duration import DurationError, format_duration, format_seconds, parse_duration

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (100_000_000, "100ms"),
        (SECOND, "1s"),
        (1_500_000_000, "1.5s"),
        (2 * SECOND + 1, "2.000000001s"),
        (60 * SECOND, "1m0s"),
        (65 * SECOND + 1_000_000, "1m5.001s"),
        (3600 * SECOND, "1h0m0s"),
        (22 * 3600 * SECOND + 90 * SECOND, "22h1m30s"),
        (2**63 - 1, "2562047h47m16.854775807s"),
        (-1_500_000, "-1.5ms"),
        (-90 * SECOND, "-1m30s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@given(st.integers(-(2**62), 2**62))
def test_what_is_printed_can_be_read(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@given(st.integers(0, 10**9))
def test_whole_seconds_are_printed_alike(seconds: int) -> None:
    assert format_seconds(seconds) == format_duration(seconds * SECOND)


@pytest.mark.parametrize("text", ["", "1", "s", "1x", "1s ", "--1s", "9223372036854775808ns"])
def test_texts_that_are_no_durations_are_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)
