"""Times read and written as Go does it; complaints were seen in answers of nats-server or are Go's own."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.golang.time import ZERO_TIME, Time, TimeError, format_time, parse_time

LAYOUT = '"2006-01-02T15:04:05Z07:00"'

WRITTEN = {
    "1970-01-01T00:00:00Z": 0,
    "1970-01-01T00:00:01.5Z": 1_500_000_000,
    "1970-01-01T00:00:00.000000001Z": 1,
    "1969-12-31T23:59:59.999999999Z": -1,
    "2020-01-01T00:00:00.12Z": 1_577_836_800_120_000_000,
    "9999-12-31T23:59:59.999999999Z": 253_402_300_799_999_999_999,
    "0001-01-01T00:00:00Z": -62_135_596_800_000_000_000,
    "0000-01-01T00:00:00Z": -62_167_219_200_000_000_000,
}

ALSO_READ = {
    "2020-01-01T00:00:00.1234567899Z": "2020-01-01T00:00:00.123456789Z",
    "2020-01-01T00:00:00,5Z": "2020-01-01T00:00:00.5Z",
    "2020-01-01T00:00:00.500Z": "2020-01-01T00:00:00.5Z",
    "2020-01-01T0:00:00Z": "2020-01-01T00:00:00Z",
    "2020-01-01T00:00:00-00:00": "2020-01-01T00:00:00Z",
    "2020-01-01T00:00:00.5+01:00": "2020-01-01T00:00:00.5+01:00",
    "2020-01-01T00:00:00-09:30": "2020-01-01T00:00:00-09:30",
    "2020-02-29T00:00:00Z": "2020-02-29T00:00:00Z",
}

REFUSED = {
    "": f'parsing time "" as {LAYOUT}: cannot parse "" as "2006"',
    "202": f'parsing time "202" as {LAYOUT}: cannot parse "202" as "2006"',
    "2020-": f'parsing time "2020-" as {LAYOUT}: cannot parse "" as "01"',
    "2020-01-01": f'parsing time "2020-01-01" as {LAYOUT}: cannot parse "" as "T"',
    "2020-01-01T00": f'parsing time "2020-01-01T00" as {LAYOUT}: cannot parse "" as ":"',
    "2020-01-01t00:00:00Z": (
        f'parsing time "2020-01-01t00:00:00Z" as {LAYOUT}: cannot parse "t00:00:00Z" as "T"'
    ),
    "2020-1-01T00:00:00Z": (
        f'parsing time "2020-1-01T00:00:00Z" as {LAYOUT}: cannot parse "1-01T00:00:00Z" as "01"'
    ),
    "2020-01-01T00:00:00": f'parsing time "2020-01-01T00:00:00" as {LAYOUT}: cannot parse "" as "Z07:00"',
    "2020-01-01T00:00:00+0100": (
        f'parsing time "2020-01-01T00:00:00+0100" as {LAYOUT}: cannot parse "+0100" as "Z07:00"'
    ),
    "2020-13-01T00:00:00Z": 'parsing time "2020-13-01T00:00:00Z": month out of range',
    "2020-01-00T00:00:00Z": 'parsing time "2020-01-00T00:00:00Z": day out of range',
    "2021-02-29T00:00:00Z": 'parsing time "2021-02-29T00:00:00Z": day out of range',
    "2020-01-01T24:00:00Z": 'parsing time "2020-01-01T24:00:00Z": hour out of range',
    "2020-01-01T00:60:00Z": 'parsing time "2020-01-01T00:60:00Z": minute out of range',
    "2020-01-01T00:00:60Z": 'parsing time "2020-01-01T00:00:60Z": second out of range',
    "2020-01-01T00:00:00+25:00": (
        'parsing time "2020-01-01T00:00:00+25:00": time zone offset hour out of range'
    ),
    "2020-01-01T00:00:00+01:61": (
        'parsing time "2020-01-01T00:00:00+01:61": time zone offset minute out of range'
    ),
    "2020-01-01T00:00:00ZZ": 'parsing time "2020-01-01T00:00:00ZZ": extra text: "Z"',
    'x"é\n': rf'parsing time "x\"\xc3\xa9\x0a" as {LAYOUT}: cannot parse "x\"\xc3\xa9\x0a" as "2006"',
}


@pytest.mark.parametrize(("text", "nanoseconds"), WRITTEN.items())
def test_time_is_written_and_read(text: str, nanoseconds: int) -> None:
    assert format_time(nanoseconds) == text
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize(("text", "again"), ALSO_READ.items())
def test_other_spellings_are_read(text: str, again: str) -> None:
    assert format_time(parse_time(text)) == again


@pytest.mark.parametrize(("text", "complaint"), REFUSED.items())
def test_complaint_says_what_go_says(text: str, complaint: str) -> None:
    with pytest.raises(TimeError) as refused:
        parse_time(text)
    assert str(refused.value) == complaint


def test_zero_time_means_never() -> None:
    assert format_time(ZERO_TIME) == "0001-01-01T00:00:00Z"
    assert parse_time("0001-01-01T00:00:00Z") == ZERO_TIME


def test_zone_is_remembered_but_does_not_count() -> None:
    here, there = parse_time("2020-01-01T00:00:00Z"), parse_time("2020-01-01T02:00:00+02:00")
    assert here == there
    assert (here.offset_s, there.offset_s) == (0, 7200)
    assert format_time(copy.copy(there)) == "2020-01-01T02:00:00+02:00"
    assert repr(there) == "Time(2020-01-01T02:00:00+02:00)"


@given(
    st.integers(min_value=int(ZERO_TIME) + 10**14, max_value=253_402_300_799_999_999_999 - 10**14),
    st.integers(min_value=-23 * 60, max_value=23 * 60),
)
def test_every_time_survives_being_written(nanoseconds: int, offset_minutes: int) -> None:
    moment = Time(nanoseconds, offset_minutes * 60)
    again = parse_time(format_time(moment))
    assert (again, again.offset_s) == (moment, moment.offset_s)
