"""The transport that is chosen for a stream."""

import logging

import pytest

from millstream.tables.errors import OptionError
from millstream.tables.streams import StreamFacts, facts_of
from millstream.tables.transports import choose


def facts(**more: object) -> StreamFacts:
    return StreamFacts("S", "then", 1, 11, 10, 100, **more)  # type: ignore[arg-type]


def auto(stream: StreamFacts, *, arrow: bool = False) -> tuple[str, str]:
    return choose(stream, "auto", arrow_offered=arrow)


def test_a_plain_stream_is_pulled() -> None:
    assert auto(facts()) == auto(facts(allow_direct=True)) == ("pull", "")


@pytest.mark.parametrize(
    "stream",
    [
        facts(retention="workqueue", allow_direct=True),
        facts(retention="interest", allow_direct=True),
        facts(subjects=("$JS.EVENT.ADVISORY.>",), allow_direct=True),
        facts(subjects=(">",), allow_direct=True),
    ],
)
def test_streams_that_a_consumer_would_disturb_are_read_directly(stream: StreamFacts) -> None:
    assert auto(stream) == ("direct", "")


def test_what_is_left_without_direct_gets(caplog: pytest.LogCaptureFixture) -> None:
    assert auto(facts(retention="interest")) == ("pull", "")
    assert not caplog.records
    assert auto(facts(retention="workqueue")) == ("get", "")
    assert "one by one, which is slow" in caplog.text
    assert auto(facts(subjects=("$JS.EVENT.METRIC.>",))) == ("pull", "")
    assert "never idle" in caplog.text


def test_arrow_is_taken_where_it_is_offered_with_the_wire_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert auto(facts(), arrow=True) == ("arrow", "pull")
    assert auto(facts(retention="workqueue"), arrow=True) == ("arrow", "get")
    assert choose(facts(), "arrow", arrow_offered=True) == ("arrow", "")
    assert not caplog.records


@pytest.mark.parametrize(
    ("wanted", "stream", "text"),
    [
        ("arrow", facts(), "does not offer it"),
        ("pull", facts(retention="workqueue"), "is a work queue"),
        ("direct", facts(), "does not have allow_direct"),
    ],
)
def test_a_transport_that_cannot_work_is_refused(wanted: str, stream: StreamFacts, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        choose(stream, wanted, arrow_offered=False)


def info(first: int, last: int, messages: int) -> StreamFacts:
    state = {"first_seq": first, "last_seq": last, "messages": messages, "bytes": 10 * messages}
    return facts_of({"config": {"name": "S"}, "created": "then", "state": state})


def test_the_bounds_of_a_stream_are_never_backwards() -> None:
    assert (info(0, 0, 0).first, info(0, 0, 0).after_last) == (1, 1)  # new
    assert (info(8, 7, 0).first, info(8, 7, 0).after_last) == (8, 8)  # purged
    assert (info(3, 9, 5).first, info(3, 9, 5).after_last) == (3, 10)
    assert [info(0, 0, 0).is_dense, info(3, 9, 7).is_dense, info(3, 9, 5).is_dense] == [True, True, False]
    assert info(3, 9, 5).average_bytes == 10
    assert info(0, 0, 0).average_bytes == 0
