"""Decimal digits and ack subjects, which every compiled module reads with the same code."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.ack_subject import AckNumbers, ack_start, read_ack_subject
from millstream.protocol.digits import digits_end, read_number
from tests.kits.paths import SOURCE

LARGEST = 2**63 - 1


@given(st.integers(0, LARGEST), st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_wherever_it_stands(value: int, before: bytes, after: bytes) -> None:
    text = before + b"%d" % value + after
    assert read_number(text, len(before), len(text) - len(after)) == value


@pytest.mark.parametrize(
    "text", [b"", b"-1", b"+1", b" 1", b"1 ", b"1a", b"/", b":", b"%d" % (LARGEST + 1), b"0" * 20]
)
def test_other_text_is_no_number(text: bytes) -> None:
    assert read_number(text, 0, len(text)) == -1


def test_leading_zeros_count_as_digits() -> None:
    assert read_number(b"0000000000000000042", 0, 19) == 42


@given(st.binary(max_size=12), st.integers(0, 12))
def test_digits_end_where_the_first_other_byte_is(text: bytes, start: int) -> None:
    start = min(start, len(text))
    found = re.match(rb"[0-9]*", text[start:])
    assert found is not None
    assert digits_end(text, start, len(text)) == start + found.end()


def test_numbers_of_both_forms_are_found() -> None:
    numbers = AckNumbers()
    for subject in (b"$JS.ACK.S.c.1.22.333.4444.5", b"$JS.ACK.hub.acc.S.c.1.22.333.4444.5.x.y"):
        text = b"PUB " + subject + b" 0"
        at = numbers.find(text, 4, 4 + len(subject))
        assert text[at:].startswith(b"1.22.")
        assert numbers.read(text, at, 4 + len(subject))
        found = (numbers.delivered, numbers.stream_seq, numbers.consumer_seq, numbers.timestamp_ns)
        assert (*found, numbers.pending) == (1, 22, 333, 4444, 5)


def test_three_numbers_are_enough_where_only_those_are_wanted() -> None:
    numbers = AckNumbers()
    assert numbers.read(b"1.22.333.x.y", 0, 12, 3)
    assert (numbers.delivered, numbers.stream_seq, numbers.consumer_seq) == (1, 22, 333)
    assert not numbers.read(b"1.22.333.x.y", 0, 12)


@pytest.mark.parametrize("subject", [b"", b"$JS.ACK.S.c.1.2.3.4", b"$JS.ACK.S.c.1.2.3.4.5.6"])
def test_a_subject_with_another_number_of_tokens_has_no_numbers(subject: bytes) -> None:
    assert AckNumbers().find(subject, 0, len(subject)) == -1


def test_an_invalid_number_is_told_and_the_others_are_read() -> None:
    numbers = AckNumbers()
    assert not numbers.read(b"1.x.3.4.5", 0, 9)
    assert (numbers.stream_seq, numbers.consumer_seq, numbers.pending) == (-1, 3, 5)


def test_what_is_written_is_read() -> None:
    subject = ack_start(b"S", b"c") + b"1.2.3.4.5"
    parts = read_ack_subject(subject.decode())
    assert parts is not None
    assert parts.short_form.encode() == subject


def places(pattern: str) -> set[str]:
    found = re.compile(pattern)
    return {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(found.search(line) for line in path.read_text().splitlines())
    }


def test_digits_are_read_in_one_module() -> None:
    assert places(r"\w+ \* 10 \+ ") == {"protocol/digits.py"}


def test_the_first_line_of_headers_is_written_in_one_module() -> None:
    assert places(r"""f?b?["']NATS/1\.0""") == {"protocol/headers.py"}


def test_the_prefix_of_acks_is_written_in_one_module() -> None:
    assert places(r"""f?b?["']\$JS\.ACK\.""") == {"protocol/ack_subject.py"}
