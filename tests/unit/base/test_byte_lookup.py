"""Looking for things in bytes, compiled or not."""

import pytest

from millstream.base.buffer import has_line

BLOCK = b"NATS/1.0\r\nA: 1\r\nNats-X: 2\r\n\r\npayload\r\nNats-X: not a header"


@pytest.mark.parametrize(
    ("beginning", "there"),
    [
        (b"A:", True),
        (b"Nats-X:", True),
        (b"NATS", False),  # in the first line
        (b"ats-X:", False),
        (b"payload", False),  # behind the end
        (b"\r\n", True),
        (b"B", False),
        (BLOCK, False),
    ],
)
def test_lines_are_found_by_their_beginning(beginning: bytes, there: bool) -> None:
    start = b"HPUB a 10 20\r\n"
    end = len(start) + BLOCK.index(b"payload")
    assert has_line(start + BLOCK, len(start), end, beginning) is there


@pytest.mark.parametrize("cut", range(len(b"NATS/1.0\r\nA: 1\r\n")))
def test_a_line_has_to_be_there_as_far_as_it_is_asked_for(cut: int) -> None:
    assert has_line(BLOCK, 0, cut, b"A: 1") is (cut >= len(b"NATS/1.0\r\nA: 1"))
