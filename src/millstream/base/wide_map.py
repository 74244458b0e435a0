"""A map with bytes as keys that grows without a pause.

A full dict is copied as a whole: with a million entries that blocks the event loop for 40 ms.  This map is
one dict while it is small and becomes 64 dicts, each for a part of the keys, when it grows.  Its entries are
in insertion order only while it is one dict.

The garbage collector does not see its content; see ``untracked``.
"""

from collections.abc import Iterator
from typing import Any

import cython

from millstream.base.untracked import keep

_SPLIT_AT = 16_384  # entries
_PARTS = 64
_MASK = _PARTS - 1
_DROPPED_AT_ONCE = 256  # entries
_SHIFT = 32  # the low bits of a hash choose the slot within a dict, higher ones choose the dict


class WideMap:
    """Values by keys of bytes."""

    def __init__(self) -> None:
        self._first: dict[bytes, Any] = {}
        self._parts: list[dict[bytes, Any]] | None = None  # used instead of `_first` once the map has grown
        self._count = 0
        self._last = _MASK  # parts after this one are empty

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: bytes) -> bool:
        return key in self._part(key)

    def __getitem__(self, key: bytes) -> Any:
        return self._part(key)[key]

    def __iter__(self) -> Iterator[bytes]:
        for part in self._all():
            yield from part

    def get(self, key: bytes) -> Any:
        """Return the value, or None."""
        return self._part(key).get(key)

    def put(self, key: bytes, value: object) -> None:
        """Add an entry whose key is new."""
        if self._count == _SPLIT_AT and self._parts is None:
            self._split()
        keep(self._part(key), key, value)
        self._last = _MASK
        self._count += 1

    def remove(self, key: bytes) -> None:
        """Remove an entry; raise KeyError if it does not exist."""
        del self._part(key)[key]
        self._count -= 1

    def take_one(self) -> Any:
        """Remove the newest entry of some part and return its value; raise KeyError if the map is empty."""
        part = self._first
        if self._parts is not None and self._count > 0:
            while not self._parts[self._last]:
                self._last -= 1
            part = self._parts[self._last]
        value = part.popitem()[1]
        self._count -= 1
        return value

    def drop_some(self) -> int:
        """Remove some entries; return how many, 0 if there are none."""
        count = min(self._count, _DROPPED_AT_ONCE)
        for _ in range(count):
            self.take_one()
        return count

    def values(self) -> Iterator[Any]:
        """Yield all values; the map must not change meanwhile."""
        for part in self._all():
            yield from part.values()

    def list_values(self, part: int) -> list[Any]:
        """Return the values of one of the ``parts``; the map may change between two calls."""
        parts = self._all()
        return list(parts[part].values()) if part < len(parts) else []

    def list_keys(self, part: int) -> list[bytes]:
        """Return the keys of one of the ``parts``."""
        parts = self._all()
        return list(parts[part]) if part < len(parts) else []

    def part(self, number: int) -> dict[bytes, Any]:
        """Return one of the ``parts``, which must not be changed; empty if it is gone."""
        parts = self._all()
        return parts[number] if number < len(parts) else {}

    def parts(self) -> int:
        return len(self._all())

    def clear(self) -> None:
        self._first = {}
        self._parts = None
        self._count = 0
        self._last = _MASK

    def _all(self) -> list[dict[bytes, Any]]:
        return [self._first] if self._parts is None else self._parts

    def _part(self, key: bytes) -> dict[bytes, Any]:
        if self._parts is None:
            return self._first
        bits: int = cython.cast("size_t", hash(key)) if cython.compiled else hash(key)
        return self._parts[(bits >> _SHIFT) & _MASK]

    def _split(self) -> None:
        entries = self._first
        self._parts = [{} for _ in range(_PARTS)]
        self._first = {}
        for key, value in entries.items():
            keep(self._part(key), key, value)
