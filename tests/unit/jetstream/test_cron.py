"""Times of schedules; the accepted patterns are those of nats-server 2.15.1."""

from __future__ import annotations

from datetime import datetime

import pytest

from millstream.golang.time import format_time, parse_time
from millstream.jetstream.publish.cron import ScheduleError, next_due, zone_of

NOON = int(parse_time("2026-03-15T12:00:00.25Z"))  # a Sunday


def due(pattern: str, after: str | int = NOON, zone: str | None = None) -> str:
    moment = after if isinstance(after, int) else int(parse_time(after))
    return format_time(next_due(pattern, zone_of(zone) if zone else None, moment, moment).time)


@pytest.mark.parametrize(
    ("pattern", "time"),
    [
        ("@at 2090-01-01T00:00:00Z", "2090-01-01T00:00:00Z"),
        ("@at 2020-01-01T00:00:00.5+02:00", "2020-01-01T00:00:00.5+02:00"),
        ("@every 1s", "2026-03-15T12:00:01Z"),
        ("@every 1.5s", "2026-03-15T12:00:01.5Z"),
        ("@every 1h", "2026-03-15T13:00:00Z"),
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("@annually", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-04-01T00:00:00Z"),
        ("@weekly", "2026-03-22T00:00:00Z"),
        ("@daily", "2026-03-16T00:00:00Z"),
        ("@midnight", "2026-03-16T00:00:00Z"),
        ("@hourly", "2026-03-15T13:00:00Z"),
        ("* * * * * *", "2026-03-15T12:00:01Z"),
        ("? ? ? ? ? ?", "2026-03-15T12:00:01Z"),
        ("*/5 * * * * *", "2026-03-15T12:00:05Z"),
        ("5/10 * * * * *", "2026-03-15T12:00:05Z"),
        ("*/61 * * * * *", "2026-03-15T12:01:00Z"),
        ("30-40/7 * * * * *", "2026-03-15T12:00:30Z"),
        ("40,20,, * * * * *", "2026-03-15T12:00:20Z"),
        ("*-5 * * * * *", "2026-03-15T12:00:01Z"),
        ("0 30 8,20 * * *", "2026-03-15T20:30:00Z"),
        ("0 0 0 1 JAN *", "2027-01-01T00:00:00Z"),
        ("0 0 0 1 Apr-jun *", "2026-04-01T00:00:00Z"),
        ("0 0 0 * * mon-fri", "2026-03-16T00:00:00Z"),
        ("0 0 0 * * 6", "2026-03-21T00:00:00Z"),
        ("0 0 0 20 * MON", "2026-03-16T00:00:00Z"),
        ("0 0 0 1-31/9 * *", "2026-03-19T00:00:00Z"),
        ("0 0 0 29 2 *", "2028-02-29T00:00:00Z"),
        ("  0 0\t0 * * *", "2026-03-16T00:00:00Z"),
    ],
)
def test_a_pattern_says_when(pattern: str, time: str) -> None:
    assert due(pattern) == time


@pytest.mark.parametrize(
    "pattern",
    [
        "@at 2090", "@at  2090-01-01T00:00:00Z", "@every 999ms", "@every x", "@foo", "0 0 0 * *",
        "0 0 0 * * * *",
        "60 * * * * *", "0 60 * * * *", "0 0 24 * * *", "0 0 0 0 * *", "0 0 0 32 * *", "0 0 0 1 0 *",
        "0 0 0 1 13 *", "0 0 0 * * 7", "5-1 * * * * *", "*/0 * * * * *", "a * * * * *", "-1 * * * * *",
        "0 0 0 30 2 *", "1- * * * * *", "TZ=UTC 0 0 0 * * *", "CRON_TZ=UTC 0 0 0 * * *", "0 0 0 L * *",
        "1-5/ * * * * *", "1-2-3 * * * * *", "1/2/3 * * * * *", ", * * * * *", "1_0 * * * * *",
    ],
)  # fmt: skip
def test_everything_else_is_refused(pattern: str) -> None:
    with pytest.raises(ScheduleError):
        due(pattern)


def test_fields_are_in_the_time_zone_and_the_others_refuse_one() -> None:
    assert due("0 0 8 * * *", zone="Europe/Berlin") == "2026-03-16T08:00:00+01:00"
    assert due("0 30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Berlin") == "2026-03-30T02:30:00+02:00"
    assert due("0 30 2 * * *", "2026-10-24T12:00:00Z", "Europe/Berlin") == "2026-10-25T02:30:00+02:00"
    for pattern in ("@at 2090-01-01T00:00:00Z", "@every 1h"):
        with pytest.raises(ScheduleError):
            due(pattern, zone="Europe/Berlin")


@pytest.mark.parametrize("name", ["Nope", "europe/berlin", "../etc", "Europe", "/etc/localtime", "\0"])
def test_there_are_no_other_time_zones(name: str) -> None:
    assert zone_of(name) is None


def test_the_local_time_zone_is_one() -> None:
    zone = zone_of("Local")
    assert zone is not None
    assert datetime.fromtimestamp(0, zone).utcoffset() is not None


@pytest.mark.parametrize(
    ("pattern", "time"), [("@every 10s", "2026-03-15T12:00:10Z"), ("*/5 * * * * *", "2026-03-15T12:00:05Z")]
)
def test_what_was_missed_is_not_made_up_for(pattern: str, time: str) -> None:
    hour_ago = NOON - 3600 * 1_000_000_000
    assert format_time(next_due(pattern, None, hour_ago, NOON).time) == time
