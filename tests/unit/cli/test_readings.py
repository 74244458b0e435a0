"""Values as people type them in flags."""

import time

import pytest

from millstream.cli.endings import UsageError
from millstream.cli.output.readings import (
    SECOND,
    check_name,
    read_duration,
    read_headers_given,
    read_limit,
    read_list,
    read_moment,
    read_pairs,
    read_size,
)
from millstream.golang.time import parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("1h30m", 5400),
        ("7d", 604_800),
        ("2 weeks", 1_209_600),
        ("250ms", 0.25),
        ("5", 5),
        ("1y", 31_536_000),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_duration(text, "--x") == seconds * SECOND


@pytest.mark.parametrize("text", ["", "soon", "1h30", "-5s", "1x", "5 5", "1e99", "nan", "inf"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--x: .* is no duration; write 30s"):
        read_duration(text, "--x")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("64KB", 65_536),
        ("64KiB", 65_536),
        ("1.5g", 1_610_612_736),
        ("unlimited", -1),
        ("10 MB", 10 << 20),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text, "--x") == size


@pytest.mark.parametrize("text", ["", "much", "-5", "1XB", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no size"):
        read_size(text, "--x")


def test_limits() -> None:
    assert [read_limit(text, "--x") for text in ("10", "1,000", "none", "-1")] == [10, 1000, -1, -1]
    for text in ("", "x", "-2", "1.5"):
        with pytest.raises(UsageError, match="is no number"):
            read_limit(text, "--x")


def test_moments() -> None:
    assert read_moment("2026-11-18T06:00:00Z", "--x") == "2026-11-18T06:00:00Z"
    assert parse_time(read_moment("2026-11-18T06:00+01:00", "--x")) == parse_time("2026-11-18T05:00:00Z")
    before, after = parse_time(read_moment("1h", "--x")), parse_time(read_moment("1h", "--x", ahead=True))
    assert abs(time.time_ns() - before - 3600 * SECOND) < 60 * SECOND
    assert abs(after - time.time_ns() - 3600 * SECOND) < 60 * SECOND
    for text in ("", "yesterday", "2026-13-45", "2026-11-18T99:00", "9999999999y"):
        with pytest.raises(UsageError, match="is no time"):
            read_moment(text, "--x")


def test_lists_pairs_and_headers() -> None:
    assert read_list(["a, b", "c", ""]) == ["a", "b", "c"]
    assert read_pairs(["a=b=c"], "--x") == {"a": "b=c"}
    assert read_headers_given(["A: b:c", "D:"]) == [("A", "b:c"), ("D", "")]
    for bad in ("no", "=x"):
        with pytest.raises(UsageError):
            read_pairs([bad], "--x")
    for bad in ("no", ": x"):
        with pytest.raises(UsageError):
            read_headers_given([bad])


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a*", ">", "a/b", "a\\b", "a\nb", "\x1b[2J", "x" * 256])
def test_names_that_no_server_takes_are_refused_and_shown_harmlessly(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_name(name, "stream")
    assert str(refused.value).isprintable()
