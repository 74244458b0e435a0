"""Read blocks of settings: which keys a block may have and how each value is read.

A table of `SettingField`s describes a block.  `read_block` walks the entries in file order, so a later key
wins, and collects results under the names that the table gives.  A reader raises `ConfigError`; `read_block`
notes it and continues, so that a user sees all mistakes at once.

Not here: which fields exist (config.schema and its parts), how results depend on each other
(config.assemble).
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from millstream.base.suggestions import did_you_mean
from millstream.config.errors import AlreadyNoted, ConfigError, Notes
from millstream.config.settings import FoundSettings, split_host_port
from millstream.config.tree import Block, TreeEntry, TreeValue
from millstream.golang.duration import DurationError, parse_duration

Reader: TypeAlias = Callable[[TreeEntry, Notes], Any]


class SettingField(msgspec.Struct, frozen=True):
    """One setting.  If `into` is empty, the reader returns a dict of several results."""

    names: tuple[str, ...]  # the documented spelling first
    read: Reader
    into: str = ""


def field(names: str, read: Reader, into: str = "") -> SettingField:
    """Return a Field; `names` are separated by spaces, the documented spelling first."""
    return SettingField(tuple(names.split()), read, into)


def read_block(
    block: Block, fields: Sequence[SettingField], notes: Notes, *, whole: bool = False
) -> FoundSettings:
    """Read the entries of a block.

    `whole`: raise AlreadyNoted if any entry is invalid, because the other results are useless without it.
    """
    index = {name: field for field in fields for name in field.names}
    settings = FoundSettings()
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


def wrong(entry: TreeEntry, expected: str) -> ConfigError:
    """Return the error for a value of the wrong type."""
    return ConfigError(f"{entry.key}: expected {expected}, got {_describe(entry.value)}", entry.at)


def refused(entry: TreeEntry, reason: str) -> ConfigError:
    return ConfigError(f"{entry.key}: {reason}", entry.at)


def _describe(value: TreeValue) -> str:
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


def string(entry: TreeEntry, notes: Notes) -> str:
    if not isinstance(entry.value.data, str):
        raise wrong(entry, "a string (quote it if it looks like a number)")
    return entry.value.data


def secret(entry: TreeEntry, notes: Notes) -> str:
    """Read a string that error messages must not repeat."""
    if not isinstance(entry.value.data, str):
        raise refused(entry, "expected a string; quote it if it looks like a number")
    return entry.value.data


def boolean(entry: TreeEntry, notes: Notes) -> bool:
    if not isinstance(entry.value.data, bool):
        raise wrong(entry, "true or false")
    return entry.value.data


def integer(entry: TreeEntry, notes: Notes) -> int:
    data = entry.value.data
    if not isinstance(data, int) or isinstance(data, bool):
        raise wrong(entry, "an integer")
    return data


def between(low: int, high: int | None = None) -> Reader:
    """Return a reader of integers from `low` to `high`, both included."""

    def read(entry: TreeEntry, notes: Notes) -> int:
        number = integer(entry, notes)
        if number < low:
            raise refused(entry, f"{number} is too small, the least is {low}")
        if high is not None and number > high:
            raise refused(entry, f"{number} is too big, the most is {high}")
        return number

    return read


port = between(-1, 65535)


def duration(entry: TreeEntry, notes: Notes) -> float:
    """Read a duration in seconds.  A bare integer means seconds and adds a warning."""
    data = entry.value.data
    if isinstance(data, int) and not isinstance(data, bool):
        notes.warn(
            f'invalid use of field "{entry.key}": {entry.key} should be converted to a duration', entry.at
        )
        return float(data)
    return duration_text(entry, notes)


def duration_text(entry: TreeEntry, notes: Notes) -> float:
    """Read a duration in seconds; a unit is required."""
    text = entry.value.data
    if not isinstance(text, str):
        raise wrong(entry, 'a duration such as "90s" or "2m"')
    try:
        return parse_duration(text) / 1e9
    except DurationError as error:
        if error.too_long:
            raise refused(entry, f'the duration "{text}" is too long') from error
        raise refused(entry, f'"{text}" is not a duration such as "90s", "1h30m" or "500ms"') from error


def seconds(entry: TreeEntry, notes: Notes) -> float:
    """Read seconds from a number or a duration."""
    data = entry.value.data
    if isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    return duration_text(entry, notes)


def positive(read: Reader) -> Reader:
    """Return a reader that also refuses negative values."""

    def checked(entry: TreeEntry, notes: Notes) -> float:
        number: float = read(entry, notes)
        if number < 0:
            raise refused(entry, "must not be negative")
        return number

    return checked


def strings(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
    """Read one string or a list of strings."""
    if isinstance(entry.value.data, str):
        return (entry.value.data,)
    return tuple(string(item, notes) for item in items(entry, "a string or a list of strings"))


def choice(meanings: dict[str, Any]) -> Reader:
    """Return a reader of the words in `meanings`, in any case."""

    def read(entry: TreeEntry, notes: Notes) -> Any:
        word = entry.value.data
        if not isinstance(word, str) or word.lower() not in meanings:
            raise wrong(entry, " or ".join(f"'{name}'" for name in meanings))
        return meanings[word.lower()]

    return read


def block(entry: TreeEntry) -> Block:
    """Return the map that the entry holds; raise ConfigError if it holds something else."""
    if not isinstance(entry.value.data, Block):
        raise wrong(entry, "a map")
    return entry.value.data


def items(entry: TreeEntry, expected: str = "a list") -> Iterator[TreeEntry]:
    """Return the items of the list that the entry holds, each as an entry with its own location."""
    if not isinstance(entry.value.data, list):
        raise wrong(entry, expected)
    return (TreeEntry(entry.key, value, value.at) for value in entry.value.data)


def listen(prefix: str = "", host: str = "host", port: str = "port") -> Reader:
    """Return a reader of `host:port` or a bare port, which gives two results."""

    def read(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
        host_text, number = address(entry)
        return {prefix + host: host_text, prefix + port: number}

    return read


def address(entry: TreeEntry) -> tuple[str, int]:
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
    """Return a reader that refuses a setting of nats-server, except with values that change nothing."""

    def read(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
        data = entry.value.data
        # `0 == False`, so compare the types too.
        if any(type(data) is type(value) and data == value for value in harmless):
            return {}
        raise refused(entry, f"not supported by Millstream: {reason}")

    return read
