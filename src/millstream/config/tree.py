"""A parsed configuration file: maps, lists and scalars with their locations.

Keys keep their spelling because some of them are names (accounts, subjects, headers).  Readers of settings
ignore the case of keys.
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
        """Return a copy at another location."""
        return replace(self, at=at)


class Entry(msgspec.Struct):
    """One `key: value`; `at` is where the key begins."""

    key: str
    value: Value
    at: Location
    used: bool = False  # referred to as `$key`, so the schema need not know it


class Block(dict[str, Entry]):
    """The entries of a map in the order in which they take effect; of equal keys only the last is kept."""

    def put(self, entry: Entry) -> None:
        self.pop(entry.key, None)
        self[entry.key] = entry


def plain(value: "Value | Block") -> Plain:
    """Return the content without locations, as a JSON reader would."""
    data = value.data if isinstance(value, Value) else value
    if isinstance(data, Block):
        return {key: plain(entry.value) for key, entry in data.items()}
    if isinstance(data, list):
        return [plain(item) for item in data]
    return data
