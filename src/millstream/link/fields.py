"""The declaration of one connection option: its kind, and its name in every place where it can be given.

`options.LinkOptions` has one declaration for each field.  Flags, environment variables, options of Spark,
keys of files, keys of NATS contexts and the tables of the documentation are made from it.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from millstream.base.durations import read_seconds

NO_LIMIT_S: Final = 86_400.0  # the meaning of zero seconds
_NAMES: Final = "names"


class OptionKind(Enum):
    """The kinds of option values, which decide how their text is read."""

    TEXT = auto()
    SERVERS = auto()  # addresses; a list, or a text with commas and blanks
    FILE = auto()  # a path; ~ is the home folder
    SUBJECT = auto()  # the beginning of subjects; a dot at its end is left out
    SECONDS = auto()
    SWITCH = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of one option; an empty name means that it cannot be given there."""

    kind: OptionKind
    help: str  # without a capital and without a full stop: a row of a table, or a line of help
    metavar: str = ""  # what the help calls the value
    flags: tuple[str, ...] = ()
    variable: str = ""  # of the environment
    spark: str = ""
    key: str = ""  # of files; with a dot for a key of a table
    also: tuple[str, ...] = ()  # further keys of files, which mean the same
    context: str = ""  # key of a NATS context
    secret: bool = False
    choice: tuple[str, str] = ("", "")  # what is chosen among options that exclude each other, and how


def declared(default: Any, names: Names) -> Any:
    """Return a dataclass field; a secret is left out of the `repr`."""
    return dataclasses.field(default=default, repr=not names.secret, metadata={_NAMES: names})


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field; `path` has a dot if it is a field of a field."""

    path: str
    default: Any
    names: Names

    @property
    def default_text(self) -> str:
        """The default as a user would write it, or an empty string."""
        if self.names.kind is OptionKind.SECONDS:
            return f"{self.default:g}s"
        if self.names.kind is OptionKind.SWITCH:
            return str(self.default).lower()
        return self.default if isinstance(self.default, str) else ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key for this option in files."""
        return (self.names.key, *self.names.also) if self.names.key else ()


def fields_of(kind: type, nested: Mapping[str, type]) -> Iterator[Field]:
    """Yield the declared fields of a dataclass and of its nested dataclasses."""
    for field in dataclasses.fields(kind):
        if field.name in nested:
            for inner in fields_of(nested[field.name], {}):
                yield Field(f"{field.name}.{inner.path}", inner.default, inner.names)
        elif _NAMES in field.metadata:
            yield Field(field.name, field.default, field.metadata[_NAMES])


def read_value(kind: OptionKind, raw: object) -> Any:
    """Return the value of a raw text; raises ValueError whose text completes "this option …"."""
    match kind, raw:
        case OptionKind.SWITCH, bool():
            return raw
        case OptionKind.SWITCH, str() if raw.strip().lower() in ("true", "false"):
            return raw.strip().lower() == "true"
        case OptionKind.SWITCH, _:
            raise ValueError(f"is true or false, not {raw!r}")
        case OptionKind.SECONDS, (int() | float() | str()) if not isinstance(raw, bool):
            return _limit(read_seconds(raw) if isinstance(raw, str) else float(raw), raw)
        case OptionKind.SERVERS, (list() | tuple()) if all(isinstance(each, str) for each in raw):
            return ",".join(raw)
        case _, str() if kind is not OptionKind.SECONDS:
            return _read_text(kind, raw)
    raise ValueError(f"is a text, not {raw!r}")


def _read_text(kind: OptionKind, raw: str) -> str:
    match kind:
        case OptionKind.FILE:
            return os.path.expanduser(raw)
        case OptionKind.SUBJECT:
            raw = raw.rstrip(".")
    if not is_sendable(raw):
        raise ValueError("is no text in UTF-8")
    return raw


def is_sendable(text: str) -> bool:
    """Return whether a text is valid UTF-8; environment variables may hold other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _limit(seconds: float, raw: object) -> float:
    if not 0 <= seconds <= NO_LIMIT_S:
        raise ValueError(f"is a time of at most a day, not {raw!r}")
    return seconds or NO_LIMIT_S
