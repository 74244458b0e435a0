"""A fast path for the small JSON objects that most requests are: known names with simple values.

A value is simple if every JSON reader agrees on it: ASCII text without escapes, a non-negative integer of
at most 18 digits, true or false, a list of such texts, or an object of the same kind.  Anything else (other
spellings of a name, repeated names, null, fractions, empty lists and objects) is left to `golang.json` and
`field_readers`, which do what Go does.  The fast path takes a third of the time or less and gives the same
result.
"""

import re
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from millstream.golang.time import Time, TimeError, parse_time
from millstream.jsapi.go_types import EMBEDDED_NAME, GoInt, Struct

_LONGEST: Final = 512
_TEXT: Final = rb'"[ !#-\[\]-~]*"'
_VALUE: Final = re.compile(
    rb'\s*"([a-z_]+)"\s*:\s*(?:"([ !#-\[\]-~]*)"|(0|[1-9][0-9]{0,17})|(true|false)'
    rb"|(\[\s*" + _TEXT + rb"(?:\s*,\s*" + _TEXT + rb")*\s*\])|(?=(\{)))"
)
_END: Final = re.compile(rb"\s*([,}])")
_ITEM: Final = re.compile(rb'"([^"]*)"')
_SPACE: Final = b" \t\r\n"
_MOST_PLAIN: Final = 10**18 - 1


def read_plain(text: bytes, kind: type[Struct]) -> dict[str, Any] | None:
    """Return the fields of a `kind` by attribute, or None if the text needs the slow path."""
    if len(text) > _LONGEST or text[:1] != b"{":
        return None
    found = _read_object(text, 1, kind)
    if found is None or text[found[1] :].strip(_SPACE):
        return None
    return found[0]


def _read_object(text: bytes, at: int, kind: type[Struct]) -> tuple[dict[str, Any], int] | None:
    """Return the fields of the object whose first name follows at `at`, and the position after it."""
    known = _plain_fields(kind)
    fields: dict[str, Any] = {}
    while True:
        pair = _VALUE.match(text, at)
        if pair is None:
            return None
        name, words, digits, flag, items, inner = pair.groups()
        wanted = known.get(name)
        if wanted is None or wanted[0] in fields:
            return None
        attribute, type_ = wanted
        at = pair.end()
        if type_ is int and digits is not None:
            fields[attribute] = int(digits)
        elif type_ is str and words is not None:
            fields[attribute] = words.decode()
        elif type_ is bool and flag is not None:
            fields[attribute] = flag == b"true"
        elif type_ is list and items is not None:
            fields[attribute] = [each.decode() for each in _ITEM.findall(items)]
        elif type_ is Time and words is not None:
            try:
                fields[attribute] = parse_time(words.decode())
            except TimeError:
                return None
        elif isinstance(type_, dict) and words in type_:
            fields[attribute] = type_[words]
        elif isinstance(type_, type) and issubclass(type_, Struct) and inner is not None:
            nested = _read_object(text, at + 1, type_)
            if nested is None:
                return None
            fields[attribute], at = type_(**nested[0]), nested[1]
        else:
            return None
        end = _END.match(text, at)
        if end is None:
            return None
        at = end.end()
        if end[1] == b"}":
            return fields, at


@lru_cache(maxsize=256)
def _plain_fields(kind: type[Struct]) -> dict[bytes, tuple[str, type | dict[bytes, Enum]]]:
    """Return attribute and type, or words, of each field that the fast path reads, by name on the wire."""
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for field in msgspec.structs.fields(kind):
        type_ = _plain_type(hints[field.name])
        if type_ is not None and field.encode_name != EMBEDDED_NAME:
            found[field.encode_name.encode()] = (field.name, type_)
    return found


def _plain_type(annotation: Any) -> type | dict[bytes, Enum] | None:
    """Return the type for the fast path, or None; integers need a range that holds 18 digits."""
    if get_origin(annotation) is Annotated:
        _, *notes = get_args(annotation)
        whole = (note for note in notes if isinstance(note, GoInt))
        return int if any(note.most >= _MOST_PLAIN for note in whole) else None
    if get_args(annotation) == (Time, NoneType):
        return Time
    if annotation == list[str]:
        return list
    if not isinstance(annotation, type):
        return None
    if issubclass(annotation, Enum):
        return {str(word.value).encode(): word for word in annotation}
    return annotation if annotation in (str, bool, Time) or issubclass(annotation, Struct) else None
