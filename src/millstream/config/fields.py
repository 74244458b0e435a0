"""Blocks of settings: which keys one may have, and how the value of each is read.

A block is described by a table of `Field`s.  `read_block` walks the entries in the order of the file, so
that a later key wins, and gathers results under the names the tables give.  A reader raises
`ConfigError`; the block notes it and goes on, so that a user sees all mistakes at once.

Not here: which fields there are (config.schema and its parts), how results depend on each other
(config.assemble).
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from millstream.base.suggestions import did_you_mean
from millstream.config.duration import parse_duration
from millstream.config.errors import AlreadyNoted, ConfigError, Notes
from millstream.config.settings import Settings, split_host_port
from millstream.config.tree import Block, Entry, Value

Reader: TypeAlias = Callable[[Entry, Notes], Any]


class Field(msgspec.Struct, frozen=True):
    """One setting.  Without `into` the reader gives a dict of several results."""

    names: tuple[str, ...]  # the documented spelling first
    read: Reader
    into: str = ""


def field(names: str, read: Reader, into: str = "") -> Field:
    """`names` are separated by blanks."""
    return Field(tuple(names.split()), read, into)


def read_block(block: Block, fields: Sequence[Field], notes: Notes, *, whole: bool = False) -> Settings:
    """Read the entries of a block; `whole` says that results are of no use if any of them is missing."""
    index = {name: field for field in fields for name in field.names}
    settings = Settings()
    mistakes = len(notes.errors)
    for entry in block.values():
        known = index.get(entry.key.lower())
        if known is None:
            if not entry.used:
                hint = did_you_mean(entry.key.lower(), index)
                notes.error(f'unknown field "{entry.key}"{hint}', entry.at)
            continue
        try:
            result = known.read(entry, notes)
        except ConfigError as error:
            notes.errors.extend(error.problems)
            continue
        results = {known.into: result} if known.into else result
        settings.update(results)
        settings.places.update(dict.fromkeys(results, entry.at))
    if whole and len(notes.errors) > mistakes:
        raise AlreadyNoted
    return settings


def wrong(entry: Entry, expected: str) -> ConfigError:
    """The error for a value of another kind than the key wants."""
    return ConfigError(f"{entry.key}: expected {expected}, got {_describe(entry.value)}", entry.at)


def refused(entry: Entry, reason: str) -> ConfigError:
    return ConfigError(f"{entry.key}: {reason}", entry.at)


def _describe(value: Value) -> str:
    match value.data:
        case bool():
            return "true" if value.data else "false"
        case str():
            return f'"{value.data}"'
        case int() | float():
            return str(value.data)
        case datetime():
            return "a date"
        case list():
            return "a list"
        case _:
            return "a map"


def string(entry: Entry, notes: Notes) -> str:
    if not isinstance(entry.value.data, str):
        raise wrong(entry, "a string (quote it if it looks like a number)")
    return entry.value.data


def secret(entry: Entry, notes: Notes) -> str:
    """A string whose value no message may repeat."""
    if not isinstance(entry.value.data, str):
        raise refused(entry, "expected a string; quote it if it looks like a number")
    return entry.value.data


def boolean(entry: Entry, notes: Notes) -> bool:
    if not isinstance(entry.value.data, bool):
        raise wrong(entry, "true or false")
    return entry.value.data


def integer(entry: Entry, notes: Notes) -> int:
    data = entry.value.data
    if not isinstance(data, int) or isinstance(data, bool):
        raise wrong(entry, "an integer")
    return data


def between(low: int, high: int | None = None) -> Reader:
    """An integer that is at least `low` and at most `high`."""

    def read(entry: Entry, notes: Notes) -> int:
        number = integer(entry, notes)
        if number < low:
            raise refused(entry, f"{number} is too small, the least is {low}")
        if high is not None and number > high:
            raise refused(entry, f"{number} is too big, the most is {high}")
        return number

    return read


port = between(-1, 65535)


def duration(entry: Entry, notes: Notes) -> float:
    """Seconds from a duration; a bare integer means seconds and is warned of."""
    data = entry.value.data
    if isinstance(data, int) and not isinstance(data, bool):
        notes.warn(
            f'invalid use of field "{entry.key}": {entry.key} should be converted to a duration', entry.at
        )
        return float(data)
    return duration_text(entry, notes)


def duration_text(entry: Entry, notes: Notes) -> float:
    """Seconds from a duration that must have a unit."""
    if not isinstance(entry.value.data, str):
        raise wrong(entry, 'a duration such as "90s" or "2m"')
    try:
        return parse_duration(entry.value.data)
    except ValueError as error:
        raise refused(entry, str(error)) from error


def seconds(entry: Entry, notes: Notes) -> float:
    """Seconds from a number or a duration."""
    data = entry.value.data
    if isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    return duration_text(entry, notes)


def positive(read: Reader) -> Reader:
    """The same reader, refusing what is below zero."""

    def checked(entry: Entry, notes: Notes) -> float:
        number: float = read(entry, notes)
        if number < 0:
            raise refused(entry, "must not be negative")
        return number

    return checked


def strings(entry: Entry, notes: Notes) -> tuple[str, ...]:
    """One string or a list of them."""
    if isinstance(entry.value.data, str):
        return (entry.value.data,)
    return tuple(string(item, notes) for item in items(entry, "a string or a list of strings"))


def choice(meanings: dict[str, Any]) -> Reader:
    """One of some words, without case."""

    def read(entry: Entry, notes: Notes) -> Any:
        word = entry.value.data
        if not isinstance(word, str) or word.lower() not in meanings:
            raise wrong(entry, " or ".join(f"'{name}'" for name in meanings))
        return meanings[word.lower()]

    return read


def block(entry: Entry) -> Block:
    """The map that an entry must hold."""
    if not isinstance(entry.value.data, Block):
        raise wrong(entry, "a map")
    return entry.value.data


def items(entry: Entry, expected: str = "a list") -> Iterator[Entry]:
    """The items of the list that an entry must hold, each as an entry at its own place."""
    if not isinstance(entry.value.data, list):
        raise wrong(entry, expected)
    return (Entry(entry.key, value, value.at) for value in entry.value.data)


def listen(prefix: str = "", host: str = "host", port: str = "port") -> Reader:
    """`host:port` or a port, as two results."""

    def read(entry: Entry, notes: Notes) -> dict[str, Any]:
        host_text, number = address(entry)
        return {prefix + host: host_text, prefix + port: number}

    return read


def address(entry: Entry) -> tuple[str, int]:
    data = entry.value.data
    if isinstance(data, int) and not isinstance(data, bool):
        host_text, number = "", data
    elif isinstance(data, str):
        try:
            host_text, number = split_host_port(data)
        except ValueError as error:
            raise refused(entry, str(error)) from error
    else:
        raise wrong(entry, "a port or host:port")
    if not -1 <= number <= 65535:
        raise refused(entry, f"there is no port {number}")
    return host_text, number


def unsupported(reason: str, *, harmless: tuple[Any, ...] = ()) -> Reader:
    """Refuses a setting of nats-server's, except with values that ask for nothing."""

    def read(entry: Entry, notes: Notes) -> dict[str, Any]:
        data = entry.value.data
        # `0 == False`, so the type has to agree as well.
        if any(type(data) is type(value) and data == value for value in harmless):
            return {}
        raise refused(entry, f"not supported by Millstream: {reason}")

    return read
