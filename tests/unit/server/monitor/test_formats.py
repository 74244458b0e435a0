"""Times, durations and JSON as Go writes them; expected values were taken from Go's own output."""

import json

import pytest

from millstream.golang.duration import format_duration
from millstream.golang.time import format_time
from millstream.server.monitor import formats

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_794_773_628_151_505_875, "2026-11-15T20:13:48.151505875Z"),
        (1_794_773_628_212_897_830, "2026-11-15T20:13:48.21289783Z"),
        (1_794_773_628_500_000_000, "2026-11-15T20:13:48.5Z"),
        (1_794_773_628_000_000_001, "2026-11-15T20:13:48.000000001Z"),
    ],
)
def test_timestamps_have_as_many_decimals_as_needed(nanoseconds: int, expected: str) -> None:
    assert format_time(nanoseconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (0.999, "0s"),
        (59, "59s"),
        (60, "1m0s"),
        (136, "2m16s"),
        (3600, "1h0m0s"),
        (93784, "1d2h3m4s"),
        (365 * 86400, "1y0d0h0m0s"),
        (400 * 86400 + 61, "1y35d0h1m1s"),
        (-5, "0s"),
    ],
)
def test_uptime_shows_whole_seconds_and_no_leading_units(seconds: float, expected: str) -> None:
    assert formats.uptime(int(seconds * SECOND)) == expected


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1µs"),
        (525_000, "525µs"),
        (1_027_397, "1.027397ms"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (245 * SECOND, "4m5s"),
        (245 * SECOND + 1_000_000, "4m5.001s"),
        (5 * 3600 * SECOND + 6 * 60 * SECOND + 7_001_000_000, "5h6m7.001s"),
        (480 * SECOND + 1, "8m0.000000001s"),
        (-525_000, "-525µs"),
    ],
)
def test_durations_are_written_like_go(nanoseconds: int, expected: str) -> None:
    assert format_duration(nanoseconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, "0s"), (0.000_525_731, "525µs"), (0.001_027_397, "1.027397ms"), (0.000_000_9, "900ns")],
)
def test_short_round_trips_are_cut_to_microseconds(seconds: float, expected: str) -> None:
    assert formats.round_trip(seconds) == expected


def test_numbers_without_a_fraction_have_no_decimal_point() -> None:
    assert formats.compact({"a": formats.number(2.0), "b": formats.number(0.25)}) == b'{"a":2,"b":0.25}'


def test_angle_brackets_are_escaped_and_mean_the_same() -> None:
    document = {"subject": "a.>", "html": "<b>&amp;</b>"}
    text = formats.pretty(document)
    assert b"a.\\u003e" in text
    assert not set(b"<>&") & set(text)
    assert json.loads(text) == document


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert formats.text_of(b"a.\xff") == "a.�"
