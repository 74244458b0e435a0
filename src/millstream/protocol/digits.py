"""Read decimal digits in place.

The numbers of protocol lines, ack subjects, headers and acks are read here and nowhere else.  Compiled,
because every message has some: then `p` is a pointer, and nothing is checked.  Not here: writing them
(``base.buffer.GrowingBuffer.put_number``).
"""

_ZERO = ord("0")
_NINE = ord("9")
_MOST_DIGITS = 19  # digits that surely fit into 64 bits
_LARGEST = 2**63 - 1


def read_number(p: bytes | bytearray, start: int, end: int) -> int:
    """Return the value of ``p[start:end]``; -1 if that is empty, no number, or more than 63 bits."""
    if end <= start or end - start > _MOST_DIGITS:
        return -1
    value = 0
    for index in range(start, end):
        digit = p[index]
        if digit < _ZERO or digit > _NINE:
            return -1
        value = value * 10 + (digit - _ZERO)
    return -1 if value > _LARGEST else value


def digits_end(p: bytes | bytearray, at: int, end: int) -> int:
    """Return where the digits end that begin at `at`; `at` if there are none."""
    while at < end and p[at] >= _ZERO and p[at] <= _NINE:
        at += 1
    return at
