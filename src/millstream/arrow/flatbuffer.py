"""The part of FlatBuffers that Arrow's messages need: tables, vectors, strings.

A tree of values is written from its root, each table after its slots and before what it refers to:

    | root u32 | slots of the root | root | slots of a child | child | text | …

References are distances forward, so their targets come later; a table finds its slots by a distance
backward.  Numbers are aligned to their size.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

import msgspec


class Number(msgspec.Struct, frozen=True):
    """A number in a table: a format character of ``struct`` and a value."""

    form: str
    value: int


class Structs(msgspec.Struct, frozen=True):
    """A vector of structs of `width` 64-bit numbers each."""

    width: int
    values: Sequence[int]


class Vector(msgspec.Struct, frozen=True):
    """A vector of tables."""

    items: Sequence[Table]


class Table(msgspec.Struct, frozen=True):
    """Values by slot; missing ones have their default."""

    slots: dict[int, Value]


Value: TypeAlias = "Number | Structs | Vector | Table | str"


def encode(root: Table) -> bytes:
    """Return the whole buffer, a multiple of 8 bytes."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, _put_table(out, root))
    _pad(out, 8)
    return bytes(out)


def _put(out: bytearray, value: Structs | Vector | Table | str) -> int:
    """Write a value that can be referred to; return its position."""
    match value:
        case Table():
            return _put_table(out, value)
        case str():
            text = value.encode()
            _pad(out, 4)
            at = len(out)
            out += struct.pack("<I", len(text)) + text + b"\0"
            return at
        case Structs():
            _pad(out, 4)
            if len(out) % 8 == 0:
                out += bytes(4)  # so that the numbers after the count are aligned to 8
            at = len(out)
            out += struct.pack(f"<I{len(value.values)}q", len(value.values) // value.width, *value.values)
            return at
        case Vector():
            _pad(out, 4)
            at = len(out)
            out += struct.pack("<I", len(value.items)) + bytes(4 * len(value.items))
            for index, item in enumerate(value.items):
                _refer(out, at + 4 + 4 * index, _put_table(out, item))
            return at


def _put_table(out: bytearray, table: Table) -> int:
    slots = table.slots
    places: dict[int, int] = {}
    size = 4  # the distance to the slots
    # Large numbers first, so that padding is needed at most once.
    for slot in sorted(slots, key=lambda each: -_size_of(slots[each])):
        width = _size_of(slots[slot])
        size += -size % width
        places[slot] = size
        size += width
    count = max(slots, default=-1) + 1
    _pad(out, 8)
    while (len(out) + 4 + 2 * count) % 8:
        out += b"\0"
    slots_at = len(out)
    out += struct.pack("<HH", 4 + 2 * count, size)
    out += b"".join(struct.pack("<H", places.get(slot, 0)) for slot in range(count))
    at = len(out)
    out += struct.pack("<i", at - slots_at) + bytes(size - 4)
    for slot, value in slots.items():
        if isinstance(value, Number):
            struct.pack_into("<" + value.form, out, at + places[slot], value.value)
        else:
            _refer(out, at + places[slot], _put(out, value))
    return at


def _size_of(value: Value) -> int:
    return struct.calcsize("<" + value.form) if isinstance(value, Number) else 4


def _refer(out: bytearray, at: int, target: int) -> None:
    struct.pack_into("<I", out, at, target - at)


def _pad(out: bytearray, multiple: int) -> None:
    out += bytes(-len(out) % multiple)
