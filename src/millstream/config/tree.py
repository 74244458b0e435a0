"""A parsed configuration file: maps, lists and scalars that remember where they stood.

Keys keep their spelling, because some of them are names (accounts, subjects, headers); who reads a
block of settings compares them without case.
"""

from datetime import datetime
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from millstream.config.errors import Location

Scalar: TypeAlias = str | int | float | bool | datetime
Plain: TypeAlias = "Scalar | list[Plain] | dict[str, Plain]"


class Value(msgspec.Struct):
    data: "Scalar | list[Value] | Block"
    at: Location

    def moved(self, at: Location) -> "Value":
        """The same content, as if it had been written at another place."""
        return replace(self, at=at)


class Entry(msgspec.Struct):
    """One `key: value`; `at` is where the key begins."""

    key: str
    value: Value
    at: Location
    used: bool = False  # referred to as `$key`, so it may be a name that no schema knows


class Block(dict[str, Entry]):
    """The entries of a map in the order in which they take effect: of equal keys the later stays."""

    def put(self, entry: Entry) -> None:
        self.pop(entry.key, None)
        self[entry.key] = entry


def plain(value: "Value | Block") -> Plain:
    """The bare content, without places: what a JSON reader would have returned."""
    data = value.data if isinstance(value, Value) else value
    if isinstance(data, Block):
        return {key: plain(entry.value) for key, entry in data.items()}
    if isinstance(data, list):
        return [plain(item) for item in data]
    return data
