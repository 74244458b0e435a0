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


class TreeValue(msgspec.Struct):
    data: "Scalar | list[TreeValue] | Block"
    at: Location

    def moved(self, at: Location) -> "TreeValue":
        """Return a copy at another location."""
        return replace(self, at=at)


class TreeEntry(msgspec.Struct):
    """One `key: value`; `at` is where the key begins."""

    key: str
    value: TreeValue
    at: Location
    used: bool = False  # referred to as `$key`, so the schema need not know it


class Block(dict[str, TreeEntry]):
    """The entries of a map in the order in which they take effect; of equal keys only the last is kept."""

    def put(self, entry: TreeEntry) -> None:
        self.pop(entry.key, None)
        self[entry.key] = entry


def plain(value: "TreeValue | Block") -> Plain:
    """Return the content without locations, as a JSON reader would."""
    data = value.data if isinstance(value, TreeValue) else value
    if isinstance(data, Block):
        return {key: plain(entry.value) for key, entry in data.items()}
    if isinstance(data, list):
        return [plain(item) for item in data]
    return data
