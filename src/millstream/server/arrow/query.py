"""The query of a request.

    /arrow/v1/streams/ORDERS?from=1&to=1000&subjects=orders.eu,orders.us&columns=seq,data

Unknown parameters are refused, because a client may rely on a parameter that would be ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from millstream.arrow.schema import COLUMNS, DEFAULT_COLUMNS
from millstream.base.suggestions import nearest
from millstream.server.arrow.problem import ArrowProblem
from millstream.subjects.tokens import valid_subject

PATH: Final = "/arrow/v1/streams/"
_MAX_SEQUENCE: Final = 2**63 - 1
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_PARAMETERS: Final = ("from", "to", "subjects", "columns")

T = TypeVar("T")


class RangeQuery(msgspec.Struct, frozen=True):
    """A range of a stream, including both ends."""

    stream: str
    first: int = 1
    last: int | None = None  # None: the last message at the time of the request
    subjects: tuple[bytes, ...] = ()  # none: all
    columns: tuple[str, ...] = DEFAULT_COLUMNS


def read_target(target: str) -> RangeQuery:
    """Parse the target of a request line; raises Problem."""
    path, _, query = target.partition("?")
    if not path.startswith(PATH):
        raise ArrowProblem(HTTPStatus.NOT_FOUND, f"there is nothing here; streams are at {PATH}<stream>")
    name = _decoded(unquote_to_bytes(path[len(PATH) :]), "the name of the stream")
    if not name or "/" in name:
        raise ArrowProblem(HTTPStatus.NOT_FOUND, f"{path}: not the path of a stream, which is {PATH}<stream>")
    given = _parameters(query)
    first = _number(given, "from") or 1
    last = _number(given, "to")
    if last is not None and last < first:
        raise _bad(f"to: {last} is below from, which is {first}")
    return RangeQuery(
        stream=name,
        first=first,
        last=last,
        subjects=_list(given, "subjects", _subject),
        columns=_columns(given),
    )


def _parameters(query: str) -> dict[str, list[str]]:
    """Return the raw values by name."""
    given: dict[str, list[str]] = {}
    for part in query.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        name = _text(name, "the name of a parameter")
        if name not in _PARAMETERS:
            raise _bad(f"unknown parameter {name!r}{_hint(name, _PARAMETERS)}")
        given.setdefault(name, []).append(value)
    return given


def _number(given: dict[str, list[str]], name: str) -> int | None:
    values = given.get(name)
    if values is None:
        return None
    if len(values) > 1:
        raise _bad(f"{name}: given {len(values)} times")
    text = _text(values[0], name)
    number = int(text) if _DIGITS.fullmatch(text) else 0
    if not 1 <= number <= _MAX_SEQUENCE:
        raise _bad(f"{name}: {text!r} is not a sequence, which is a number from 1 on")
    return number


def _columns(given: dict[str, list[str]]) -> tuple[str, ...]:
    columns = _list(given, "columns", _column)
    for name in columns:
        if columns.count(name) > 1:
            raise _bad(f"columns: {name} is named twice")
    return columns or DEFAULT_COLUMNS


def _column(name: str) -> str:
    name = _text(name, "columns")
    if name not in COLUMNS:
        raise _bad(f"columns: unknown column {name!r}{_hint(name, COLUMNS)}")
    return name


def _hint(name: str, known: Collection[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else f"; there are {', '.join(known)}"


def _subject(text: str) -> bytes:
    subject = _bytes(text)
    if not valid_subject(subject):
        raise _bad(f"subjects: {subject.decode('utf-8', 'replace')!r} is not a subject")
    return subject


def _list(given: dict[str, list[str]], name: str, read: Callable[[str], T]) -> tuple[T, ...]:
    """Return comma-separated items of one or several values; a comma in an item is written as `%2C`."""
    return tuple(read(item) for value in given.get(name, ()) for item in value.split(",") if value)


def _bytes(text: str) -> bytes:
    """Decode a query value, in which a plus is a blank."""
    return unquote_to_bytes(text.replace("+", " "))


def _text(text: str, what: str) -> str:
    return _decoded(_bytes(text), what)


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _bad(f"{what}: not UTF-8") from None


def _bad(text: str) -> ArrowProblem:
    return ArrowProblem(HTTPStatus.BAD_REQUEST, text)
