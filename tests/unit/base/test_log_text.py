"""Text of strangers in log lines, and lines that must not be too many."""

import pytest

from millstream.base.rarely import Rarely, Sparingly
from millstream.golang.quote import quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain.subject", '"plain.subject"'),
        ("", '""'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("a\r\nb\t\v\f\a\b", '"a\\r\\nb\\t\\v\\f\\a\\b"'),
        ("\x1b[31m\x00\x7f", '"\\x1b[31m\\x00\\x7f"'),
        (b"\xff\xc3\xa4", '"\\xffä"'),
        ("\u2028\u202e\ufeff", '"\\u2028\\u202e\\ufeff"'),
        ("\U000e0001", '"\\U000e0001"'),
        ("\ud800", '"\\ud800"'),
        ("grüße 日本", '"grüße 日本"'),
    ],
)
def test_text_is_quoted_as_go_does(text: str | bytes, shown: str) -> None:
    assert quoted(text) == shown


def test_no_byte_makes_a_line_of_its_own() -> None:
    everything = quoted(bytes(range(256)) + "".join(map(chr, range(0x2000, 0x2100))).encode())
    assert len(everything.splitlines()) == 1
    assert everything.isprintable()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bound_is_told_at_once_and_then_now_and_then() -> None:
    clock = Clock()
    rarely = Rarely(10, clock)
    assert [rarely.due() for _ in range(5)] == [1, 0, 0, 0, 0]
    clock.now = 10.0
    assert rarely.due() == 5
    assert rarely.due() == 0


def test_lines_beyond_a_number_are_counted() -> None:
    clock = Clock()
    sparingly = Sparingly(3, clock)
    assert [sparingly.admit() for _ in range(6)] == [1, 1, 1, 0, 0, 0]
    clock.now = 1.0
    assert [sparingly.admit() for _ in range(2)] == [4, 1]
