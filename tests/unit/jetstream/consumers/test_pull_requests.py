"""Bodies of pull requests, and what they mean."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.jetstream.consumers.pull_request import UNRANKED, PullRefused, PullRequest, parse_pull

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
LARGEST = 2**63 - 1

FIELDS = [
    "reply",
    "left",
    "bytes_left",
    "delivered",
    "expires_ns",
    "heartbeat_ns",
    "heartbeat_due_ns",
    "no_wait",
    "formal",
    "group",
    "min_pending",
    "min_ack_pending",
    "priority",
    "pin_id",
    "waiting",
]


def parsed(body: bytes | str | dict[str, Any], headers: bytes = b"") -> PullRequest:
    if isinstance(body, dict):
        body = json.dumps(body)
    return parse_pull(b"inbox", body if isinstance(body, bytes) else body.encode(), headers, NOW)


def refused(body: bytes | str | dict[str, Any], headers: bytes = b"") -> bytes:
    with pytest.raises(PullRefused) as refusal:
        parsed(body, headers)
    return refusal.value.status


def fields(request: PullRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in FIELDS}


def outcome(body: bytes, parse: Any) -> Any:
    try:
        return fields(parse(body))
    except PullRefused as refusal:
        return refusal.status


def test_an_empty_body_asks_for_one_message_and_waits_for_it() -> None:
    assert fields(parsed("")) == {
        "reply": b"inbox",
        "left": 1,
        "bytes_left": 0,
        "delivered": 0,
        "expires_ns": 0,
        "heartbeat_ns": 0,
        "heartbeat_due_ns": 0,
        "no_wait": False,
        "formal": False,
        "group": "",
        "min_pending": 0,
        "min_ack_pending": 0,
        "priority": UNRANKED,
        "pin_id": "",
        "waiting": False,
    }


def test_an_object_fills_every_field() -> None:
    body = {
        "batch": 5,
        "expires": 10 * SECOND,
        "max_bytes": 1000,
        "no_wait": True,
        "idle_heartbeat": 2 * SECOND,
        "group": "A",
        "min_pending": 3,
        "min_ack_pending": 4,
        "priority": 7,
        "id": "pin",
    }
    assert fields(parsed(body)) == {
        "reply": b"inbox",
        "left": 5,
        "bytes_left": 1000,
        "delivered": 0,
        "expires_ns": NOW + 10 * SECOND,
        "heartbeat_ns": 2 * SECOND,
        "heartbeat_due_ns": NOW + 2 * SECOND,
        "no_wait": True,
        "formal": True,
        "group": "A",
        "min_pending": 3,
        "min_ack_pending": 4,
        "priority": 7,
        "pin_id": "pin",
        "waiting": False,
    }


@pytest.mark.parametrize(
    ("body", "batch"),
    [
        (b"1", 1),
        (b"250", 250),
        (b"0", 0),
        (b"007", 7),
        (b"+5", 5),
        (b"-5", -5),
        (b" 12\r\n", 12),
        (b"\xc2\xa012\xe3\x80\x80", 12),  # no-break and ideographic space
        (b"\x1c12", 1),  # blank for Python alone
        (b"9223372036854775807", LARGEST),
        (b"9223372036854775808", 1),
        (b"9" * 5000, 1),
        (b"1_000", 1),
        (b"1.5", 1),
        (b"1e3", 1),
        (b"0x10", 1),
        ("٣".encode(), 1),  # a digit, but not one of ours
        (b"--5", 1),
        (b"five", 1),
        (b"[1]", 1),
        (b'"7"', 1),
        (b"null", 1),
        (b"\xff\xfe", 1),
        (b"   ", 1),
    ],
)
def test_other_bodies_are_a_number_or_ask_for_one(body: bytes, batch: int) -> None:
    request = parsed(body)
    assert (request.left, request.formal) == (batch, False)


@pytest.mark.parametrize(
    ("body", "batch"),
    [
        (b"{}", 0),
        (b' \t{"batch":3}\n', 3),
        (b'\x0b{"batch":3}\x0c', 3),
        (b'\xe2\x80\x83{"batch":3}', 3),
        (b'{"BATCH":3}', 3),
        (b'{"batch":3,"unknown":[{}]}', 3),
        (b'{"batch":2,"batch":3}', 3),
        (b'{"batch":null}', 0),
        (b'{"batch":-3}', -3),
        (b'{"batch":9223372036854775807}', LARGEST),
        (b'{"batch":-9223372036854775808}', -LARGEST),  # one of it can be delivered
    ],
)
def test_objects_are_read_as_go_reads_them(body: bytes, batch: int) -> None:
    request = parsed(body)
    assert (request.left, request.formal) == (batch, True)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("{", "unexpected end of JSON input"),
        ("{nope", "invalid character 'n' looking for beginning of object key string"),
        ('{"batch":1}}', "invalid character '}' after top-level value"),
        ('{"batch":"1"}', "json: cannot unmarshal string into Go struct field .batch of type int"),
        ('{"batch":1.5}', "json: cannot unmarshal number 1.5 into Go struct field .batch of type int"),
        (
            '{"expires":"1s"}',
            "json: cannot unmarshal string into Go struct field .expires of type time.Duration",
        ),
        ('{"no_wait":1}', "json: cannot unmarshal number into Go struct field .no_wait of type bool"),
        ('{"idle_heartbeat":1}', "heartbeat value too large"),
        ('{"idle_heartbeat":6,"expires":11}', "heartbeat value too large"),
        ('{"idle_heartbeat":1,"expires":-5}', "heartbeat value too large"),
    ],
)
def test_what_can_not_be_read_is_refused_with_the_reason(body: str, why: str) -> None:
    assert refused(body) == b"NATS/1.0 400 Bad Request - %b\r\n\r\n" % why.encode()


def test_a_heartbeat_may_be_half_of_the_time_to_wait() -> None:
    assert parsed({"idle_heartbeat": 5, "expires": 10}).heartbeat_due_ns == NOW + 5


def test_a_negative_heartbeat_is_none_but_is_remembered() -> None:
    request = parsed({"idle_heartbeat": -5, "expires": 10})
    assert (request.heartbeat_ns, request.heartbeat_due_ns) == (-5, 0)


def test_times_that_are_too_far_away_stay_in_range() -> None:
    request = parsed({"expires": LARGEST, "idle_heartbeat": LARGEST})  # twice that is -2 in Go
    assert (request.expires_ns, request.heartbeat_ns) == (LARGEST, 2**62)


def test_a_negative_time_to_wait_is_over_already() -> None:
    assert parsed({"expires": -1}).expires_ns == NOW - 1
    assert parsed({"expires": -NOW}).expires_ns == 1  # not 0, which is never


@pytest.mark.parametrize("level", ["6", "99", "x", "4.5", "--1"])
def test_an_api_level_that_is_not_there_is_refused(level: str) -> None:
    block = f"NATS/1.0\r\nNats-Required-Api-Level: {level}\r\n\r\n".encode()
    assert refused("1", block) == b"NATS/1.0 412 Required Api Level\r\n\r\n"


@pytest.mark.parametrize("line", ["Nats-Required-Api-Level: 5", "Nats-Required-Api-Level: -1", "Other: 9"])
def test_other_headers_change_nothing(line: str) -> None:
    assert parsed("7", f"NATS/1.0\r\n{line}\r\n\r\n".encode()).left == 7


_KNOWN = ["batch", "expires", "no_wait", "max_bytes", "idle_heartbeat", "group", "id", "priority"]
_NAMES = st.sampled_from([*_KNOWN, "min_pending", "min_ack_pending", "Batch", "other"])
_VALUES = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**65), 2**65),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
)


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=6), st.integers(0, 200), st.binary(max_size=2))
def test_the_short_way_has_no_opinion_of_its_own(
    members: list[tuple[str, Any]], at: int, noise: bytes
) -> None:
    text = (
        b"{"
        + b",".join(json.dumps(name).encode() + b":" + json.dumps(value).encode() for name, value in members)
        + b"}"
    )
    for body in (text, text[:at] + noise + text[at + 1 :]):
        # A blank that JSON does not know is for the long way alone.
        long_way = outcome(b"\v" + body, lambda odd: parsed(odd))
        assert outcome(body, lambda plain: parsed(plain)) == long_way
