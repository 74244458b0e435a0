"""A fast path for the small JSON objects that most requests are: known names with simple values.

A value is simple if every JSON reader agrees on it: ASCII text without escapes, a non-negative integer of
at most 18 digits, true or false.  Anything else (other spellings of a name, repeated names, null,
fractions, nested values) is left to `golang.json` and `field_readers`, which do what Go does.  The fast path
takes a tenth of the time and gives the same result.
"""

import re
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from millstream.golang.time import Time, TimeError, parse_time
from millstream.jsapi.go_types import GoInt, Struct

_LONGEST: Final = 512
_PAIR: Final = re.compile(
    rb'\s*"([a-z_]+)"\s*:\s*(?:"([ !#-\[\]-~]*)"|(0|[1-9][0-9]{0,17})|(true|false))\s*([,}])'
)
_SPACE: Final = b" \t\r\n"
_MOST_PLAIN: Final = 10**18 - 1


def read_plain(text: bytes, kind: type[Struct]) -> dict[str, Any] | None:
    """Return the fields of a `kind` by attribute, or None if the text needs the slow path."""
    if len(text) > _LONGEST or text[:1] != b"{":
        return None
    known = _plain_fields(kind)
    fields: dict[str, Any] = {}
    at = 1
    while True:
        pair = _PAIR.match(text, at)
        if pair is None:
            return None
        name, words, digits, flag, end = pair.groups()
        wanted = known.get(name)
        if wanted is None or wanted[0] in fields:
            return None
        attribute, type_ = wanted
        if type_ is int and digits is not None:
            fields[attribute] = int(digits)
        elif type_ is str and words is not None:
            fields[attribute] = words.decode()
        elif type_ is bool and flag is not None:
            fields[attribute] = flag == b"true"
        elif type_ is Time and words is not None:
            try:
                fields[attribute] = parse_time(words.decode())
            except TimeError:
                return None
        else:
            return None
        at = pair.end()
        if end == b"}":
            return fields if not text[at:].strip(_SPACE) else None


@lru_cache(maxsize=256)
def _plain_fields(kind: type[Struct]) -> dict[bytes, tuple[str, type]]:
    """Return attribute and type of each field that the fast path reads, by name on the wire."""
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for field in msgspec.structs.fields(kind):
        type_ = _plain_type(hints[field.name])
        if type_ is not None:
            found[field.encode_name.encode()] = (field.name, type_)
    return found


def _plain_type(annotation: Any) -> type | None:
    """Return the Python type for the fast path, or None; integers need a range that holds 18 digits."""
    if get_origin(annotation) is Annotated:
        _, *notes = get_args(annotation)
        whole = (note for note in notes if isinstance(note, GoInt))
        return int if any(note.most >= _MOST_PLAIN for note in whole) else None
    if get_args(annotation) == (Time, NoneType):
        return Time
    return annotation if annotation in (str, bool, Time) else None
