"""Inputs that are nearly right: a valid one, changed in a few places.

The mutator knows what most inputs are made of: bytes, little and big numbers, decimal digits, lines, JSON,
and the words of a target's language.  Every choice comes from one generator, so a seed repeats a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

MOST_BYTES: Final = 64 * 1024  # of an input
MOST_CHANGES: Final = 6  # of one input

_EDGES: Final = (
    60,
    100,
    126,
    *(2**bits - less for bits in (0, 1, 3, 5, 6, 7, 8, 12, 15, 16) for less in (0, 1)),
)
_LARGE: Final = tuple(2**bits + more for bits in (24, 31, 32, 47, 53, 62, 63, 64) for more in (-1, 0, 1))
_NUMBERS: Final = (*_EDGES, *_LARGE, -1, -(2**31), -(2**63), 10**18, 10**19, 10**30)
_DECIMALS: Final = (
    *(b"%d" % each for each in _NUMBERS),
    b"9" * 5000,
    b"1" + b"0" * 400,
    b"00",
    b"1.5",
    b"1e9",
    b"+1",
    b"-0",
)
_DIGITS: Final = re.compile(rb"[0-9]+")
_BYTES: Final = b"\x00\x01\x09\x0a\x0d\x20\x22\x2a\x2e\x3a\x3e\x5b\x5c\x5d\x7b\x7d\x7f\x80\xbf\xc0\xff"
_VALUES: Final = (
    None, True, False, 0, 1, -1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 10**400, 0.5, 1e300, "", "*",
    ">", "a.>", "a b", "a\r\nb",
    "\x00", "é", "\ud800", "x" * 300, "a." * 200 + "a", "2024-01-01T00:00:00Z", "1h", [], [[]], {},
    {"": None}, ["a", "a"],
)  # fmt: skip
_PIECES: Final = (" ", ".", "*", ">", "\r\n", "\x00", "é", "$", "{{", "9" * 30, "")


class Mutator:
    """Changes inputs; `words` are pieces of the language that the inputs are written in."""

    def __init__(self, random: Random, words: Sequence[bytes] = ()) -> None:
        self.random = random
        self._words = tuple(words)
        self._changes: tuple[Callable[[bytearray, Sequence[bytes]], None], ...] = (
            self._flip, self._byte, self._insert, self._delete, self._repeat, self._splice, self._cut,
            self._number, self._decimal,
            self._lines, self._json, self._json,
        )  # fmt: skip
        if words:
            self._changes += (self._word, self._word)

    def mutate(self, corpus: Sequence[bytes]) -> bytes:
        """One input of `corpus`, changed in one or a few places."""
        data = bytearray(self.random.choice(corpus))
        for _ in range(1 + int(self.random.random() ** 2 * MOST_CHANGES)):
            self.random.choice(self._changes)(data, corpus)
        return bytes(data[:MOST_BYTES])

    def _place(self, data: bytearray) -> int:
        return self.random.randrange(len(data) + 1)

    def _stretch(self, data: bytearray) -> slice:
        start = self._place(data)
        return slice(start, start + self.random.choice((1, 2, 3, 4, 8, 20, 100, 1000)))

    def _flip(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        if data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)

    def _byte(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        if data:
            data[self.random.randrange(len(data))] = self.random.choice((*_BYTES, self.random.randrange(256)))

    def _insert(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        place = self._place(data)
        data[place:place] = self.random.randbytes(self.random.choice((1, 2, 4, 8, 30)))

    def _delete(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        del data[self._stretch(data)]

    def _repeat(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        stretch = self._stretch(data)
        times = self.random.choice((1, 1, 2, 3, 10, 100, 1000))
        data[stretch.start : stretch.start] = (data[stretch] * times)[:MOST_BYTES]

    def _splice(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        other = bytearray(self.random.choice(corpus))
        data[self._stretch(data)] = other[self._stretch(other)]

    def _cut(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        del data[self._place(data) :]

    def _word(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        place = self._place(data)
        replaced = self.random.choice((0, 0, 1, 4))
        data[place : place + replaced] = self.random.choice(self._words)

    def _number(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        """Take some bytes as a binary number and write another one there."""
        size = self.random.choice((1, 2, 4, 8))
        if len(data) < size:
            return
        place = self.random.randrange(len(data) - size + 1)
        order = self.random.choice(("little", "big"))
        value = int.from_bytes(data[place : place + size], order)
        value = self.random.choice(
            (self.random.choice(_NUMBERS), value + self.random.randint(-16, 16), ~value)
        )
        data[place : place + size] = (value % (1 << 8 * size)).to_bytes(size, order)

    def _decimal(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        found = list(_DIGITS.finditer(data))
        if found:
            number = self.random.choice(found)
            near = b"%d" % (int(number[0][:20]) + self.random.randint(-2, 2))
            data[number.start() : number.end()] = self.random.choice((near, self.random.choice(_DECIMALS)))

    def _lines(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        """Lines change their places, go, or come again; one of another input may be among them."""
        lines = bytes(data).splitlines(keepends=True)
        if not lines:
            return
        line = lines.pop(self.random.randrange(len(lines)))
        change = self.random.randrange(4)
        if change == 0:
            lines.insert(self.random.randrange(len(lines) + 1), line)
        elif change == 1:
            lines += [line] * self.random.choice((2, 2, 50))
        elif change == 2:
            others = bytes(self.random.choice(corpus)).splitlines(keepends=True)
            lines[self.random.randrange(len(lines) + 1) :] = others[self.random.randrange(len(others) + 1) :]
        data[:] = b"".join(lines)

    def _json(self, data: bytearray, corpus: Sequence[bytes]) -> None:
        """One value in one of the JSON texts among the lines."""
        lines = bytes(data).split(b"\n")
        places = [number for number, line in enumerate(lines) if b"{" in line]
        if not places:
            return
        chosen = self.random.choice(places)
        before, _, text = lines[chosen].partition(b"{")
        try:
            document, end = json.JSONDecoder().raw_decode("{" + text.decode())
        except (ValueError, RecursionError):
            return
        after = ("{" + text.decode())[end:]
        document = self._changed(document)
        lines[chosen] = before + json.dumps(document).encode() + after.encode()
        data[:] = b"\n".join(lines)

    def _changed(self, value: Any) -> Any:
        """Return `value` with one of its parts, or all of it, replaced."""
        random = self.random
        if value and random.random() < 0.8:
            if isinstance(value, dict):
                key = random.choice(list(value))
                change = random.random()
                if change < 0.1:
                    return {name: each for name, each in value.items() if name != key}
                if change < 0.2:
                    return {**value, random.choice(list(value)): value[key]}
                return {**value, key: self._changed(value[key])}
            if isinstance(value, list):
                place = random.randrange(len(value))
                if random.random() < 0.2:
                    return value * random.choice((0, 2, 50))
                return [*value[:place], self._changed(value[place]), *value[place + 1 :]]
        if isinstance(value, str) and random.random() < 0.5:
            place = random.randrange(len(value) + 1)
            return value[:place] + random.choice(_PIECES) + value[place + 1 :]
        if isinstance(value, int) and random.random() < 0.6:
            return random.choice((value + 1, value - 1, -value, random.choice(_NUMBERS)))
        if random.random() < 0.05:
            nested: Any = value
            for _ in range(random.choice((10, 150, 190, 198, 300))):
                nested = [nested] if random.random() < 0.5 else {"a": nested}
            return nested
        return random.choice(_VALUES)
