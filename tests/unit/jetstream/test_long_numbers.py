"""Numbers of thousands of digits wherever a client can send one: an answer, and the account goes on."""

import contextlib
import json

import pytest

from millstream.golang.duration import DurationError, parse_duration
from millstream.jetstream.consumers.pull_request import PullRefused, parse_pull
from millstream.jetstream.publish.ttl import parse_ttl
from millstream.jsapi.errors import ApiError
from millstream.subjects.functions import _integer
from millstream.subjects.transform import SubjectTransform, TransformError
from tests.kits.jetstream.stream import Site

LONG = [
    pytest.param("9" * 5_000, id="5,000 digits"),
    pytest.param("0" * 5_000 + "1", id="5,000 zeros"),
    pytest.param("-" + "9" * 5_000, id="negative"),
    pytest.param("9" * 60_000, id="60,000 digits"),
]
HEADERS = [
    "Nats-TTL",
    "Nats-Expected-Last-Sequence",
    "Nats-Expected-Last-Subject-Sequence",
    "Nats-Required-Api-Level",
    "Nats-Incr",
    "Nats-Schedule",
    "Nats-Schedule-TTL",
    "Nats-Msg-Size",
]


@pytest.mark.parametrize("number", LONG)
@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("counting", [False, True])
def test_a_header_with_a_long_number_is_answered(name: str, number: str, counting: bool) -> None:
    site = Site()
    if counting:
        site.create(allow_msg_counter=True, allow_direct=True)
    else:
        site.create(allow_msg_ttl=True, allow_msg_schedules=True, allow_atomic=True)
    assert "stream" in site.publish("s.1", b"", **{name.replace("-", "_"): number})
    if name == "Nats-Incr" and counting and not number.startswith("-"):
        assert site.publish("s.1", b"", Nats_Incr="1")["seq"] == 2
    assert site.ask("STREAM.INFO.S")["state"]["messages"] >= 0


@pytest.mark.parametrize("number", LONG)
def test_a_batch_with_a_long_number_is_answered(number: str) -> None:
    site = Site()
    site.create(allow_atomic=True)
    answer = site.world.request(
        b"s.1",
        b"x",
        b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: %b\r\n\r\n" % number.encode(),
    )
    assert not answer or "error" in json.loads(answer)


@pytest.mark.parametrize("number", LONG)
@pytest.mark.parametrize("unit", ["h", "ns", ".5s", "s1h", ""])
def test_durations_are_read_or_refused(number: str, unit: str) -> None:
    text = number + unit
    with contextlib.suppress(DurationError):
        assert abs(parse_duration(text)) < 2**63
    fraction = parse_duration("0." + number.lstrip("-") + "s")
    assert 0 <= fraction <= 1_000_000_000
    with contextlib.suppress(ApiError):
        assert parse_ttl(text) < 2**63


def test_seconds_to_live_wrap_around_as_in_nats_server() -> None:
    assert parse_ttl(str(2**64 + 7)) == 7
    assert parse_ttl("0" * 5_000 + "7") == 7


@pytest.mark.parametrize("number", LONG)
def test_sampling_frequencies_are_read_or_refused(number: str) -> None:
    site = Site()
    site.create()
    answer = site.ask(
        "CONSUMER.CREATE.S.c",
        {"stream_name": "S", "config": {"name": "c", "durable_name": "c", "sample_freq": number}},
    )
    assert ("error" in answer) == (set(number) != {"0", "1"})


@pytest.mark.parametrize("number", LONG)
def test_pull_requests_are_read_or_refused(number: str) -> None:
    level = b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\n\r\n" % number.encode()
    parse_pull(b"me", number.encode(), b"", 0)
    with contextlib.suppress(PullRefused):
        parse_pull(b"me", b"1", level, 0)
    with contextlib.suppress(PullRefused):
        parse_pull(b"me", b'{"batch":%b}' % number.encode(), b"", 0)


@pytest.mark.parametrize("number", LONG)
@pytest.mark.parametrize("function", ["partition(%s,1)", "left(1,%s)", "wildcard(%s)", "random(%s)"])
def test_functions_of_mappings_are_read_or_refused(function: str, number: str) -> None:
    with contextlib.suppress(TransformError):
        SubjectTransform("a.*", "b.{{" + function % number + "}}").apply(b"a.c")
    assert _integer("0" * 5_000 + "3") == 3


@pytest.mark.parametrize("number", LONG)
@pytest.mark.parametrize("field", ["max_msgs", "max_age", "first_seq", "duplicate_window"])
def test_numbers_in_requests_are_read_or_refused(field: str, number: str) -> None:
    site = Site()
    body = b'{"name":"S","subjects":["s"],"%b":%b}' % (field.encode(), number.encode())
    assert site.error("STREAM.CREATE.S", body)[0] == 400
