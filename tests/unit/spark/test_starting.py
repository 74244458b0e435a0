"""Start and end of a query: by word, sequence, count, JSON, time."""

import pytest

from millstream.spark.option_values import moment
from millstream.spark.start_position import EndPoint, StartPoint
from millstream.tables.errors import OptionError

NOW = 1_800_000_000_000_000_000
FIRST, AFTER_LAST = 11, 111


def start(text: str | None = None, *, streaming: bool = True, stream: str = "S", **more: str) -> int:
    given = dict(more) if text is None else {"startingOffsets": text, **more}
    point = StartPoint.parse(given, streaming=streaming)
    return point.resolve(stream, FIRST, AFTER_LAST, NOW, lambda at: 50 if at <= NOW - 60 * 10**9 else None)


def end(stream: str = "S", **given: str) -> int:
    point = EndPoint.parse(given)
    return point.resolve(stream, AFTER_LAST, NOW, lambda at: 60 if at <= NOW else None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", 11),
        ("latest", 111),
        ("LATEST", 111),
        ("42", 42),
        ("-100", 11),
        ("-10", 101),
        ("-5000", 11),
        ('{"S": 33}', 33),
        ('{"S": -2}', 11),
        ('{"S": -1, "T": 5}', 111),
    ],
)
def test_a_start_is_found(text: str, expected: int) -> None:
    assert start(text) == expected


def test_a_time_becomes_the_first_message_of_that_time() -> None:
    assert start(startingTimestamp="-10 minutes") == 50
    assert start(startingTimestamp="2020-01-01T00:00:00Z") == 50


def test_a_time_that_nothing_reaches_is_an_error_unless_latest_is_wanted() -> None:
    with pytest.raises(OptionError, match="stream S has no message as late as startingTimestamp=-1 second"):
        start(startingTimestamp="-1 second")
    assert start(startingTimestamp="-1 second", startingOffsetsByTimestampStrategy="latest") == 111


@pytest.mark.parametrize(
    "text", ["0", "soon", "{", '{"S": "x"}', '{"S": -3}', '{"S": true}', "{}", "--1", ""]
)
def test_other_texts_are_no_start(text: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets"):
        start(text)


def test_json_has_to_name_the_stream() -> None:
    with pytest.raises(OptionError, match="says nothing of stream S"):
        start('{"T": 5}')


def test_a_batch_does_not_start_at_latest() -> None:
    for text in ("latest", '{"S": -1}'):
        with pytest.raises(OptionError, match="reads nothing"):
            start(text, streaming=False)


def test_start_and_time_exclude_each_other() -> None:
    with pytest.raises(OptionError, match="both say the start"):
        start("earliest", startingTimestamp="0")
    with pytest.raises(OptionError, match="both say the end"):
        end(endingOffsets="latest", endingTimestamp="0")


def test_times_are_given_by_stream_as_for_kafka() -> None:
    assert start(startingOffsetsByTimestamp='{"S": "-10 minutes", "T": 5}') == 50
    assert start(startingOffsetsByTimestamp='{"S": {"0": 1577836800000}}') == 50
    assert end(endingOffsetsByTimestamp='{"S": 1577836800000}') == 60
    late = '{"S": "-1 second"}'
    with pytest.raises(OptionError, match="no message as late as startingTimestamp=-1 second"):
        start(startingOffsetsByTimestamp=late)
    assert start(startingOffsetsByTimestamp=late, startingOffsetsByTimestampStrategy="latest") == 111


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[1]", "names no stream"),
        ('{"S": true}', "gives stream S no time"),
        ('{"S": {"1": 5}}', "stream S has only the partition 0"),
        ('{"S": "soon"}', "milliseconds since 1970"),
        ('{"T": 5}', "says nothing of stream S"),
    ],
)
def test_other_texts_are_no_times_by_stream(text: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        start(startingOffsetsByTimestamp=text)
    with pytest.raises(OptionError, match=problem):
        end(endingOffsetsByTimestamp=text)


def test_an_end_is_found_and_never_lies_beyond_the_last_message() -> None:
    assert end() == end(endingOffsets="latest") == end(endingOffsets='{"S": -1}') == 111
    assert end(endingOffsets="80") == 80
    assert end(endingOffsets="8000") == 111
    assert end(endingOffsets='{"S": 70}') == 70
    assert end(endingTimestamp="-1 hour") == 60
    assert end(endingTimestamp="2100-01-01") == 111


@pytest.mark.parametrize("text", ["earliest", "-5", "0", '{"S": -2}', "[]"])
def test_other_texts_are_no_end(text: str) -> None:
    with pytest.raises(OptionError):
        end(endingOffsets=text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000123", 1_700_000_000_123_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
        ("2023-11-14 22:13:20.000001", 1_700_000_000_000_001_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000_000_000),
        ("-90s", NOW - 90_000_000_000),
        ("-1.5 hours", NOW - 5_400_000_000_000),
    ],
)
def test_moments_are_read(text: str, expected: int) -> None:
    assert moment("x", text, NOW) == expected


@pytest.mark.parametrize("text", ["yesterday", "-ten minutes", "2023-13-01", "-5 moons"])
def test_other_moments_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="option x"):
        moment("x", text, NOW)
