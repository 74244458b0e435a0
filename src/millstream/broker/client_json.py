"""JSON that clients send, read as forgivingly as the reference reads it.

Bytes that are no UTF-8 and halves of surrogate pairs stand for U+FFFD, numbers of any size pass where nobody
looks at them, and ``null`` is an object that says nothing.  Nearly every client sends plain JSON, so the
fast reader is asked first.
"""

from typing import Any

import msgspec

from millstream.base.decimals import read_integer
from millstream.base.errors import MillstreamError
from millstream.golang.json import Kind, Value, read_one


class BadJson(MillstreamError):
    """The text is no JSON object."""


def read_object(text: bytes) -> dict[str, Any]:
    """The members of the object in `text`."""
    try:
        read = msgspec.json.decode(text)
    except ValueError:
        try:
            read = _plain(read_one(text))
        except MillstreamError as error:
            raise BadJson(str(error)) from None
    except RecursionError:
        raise BadJson("nested too deep") from None
    if read is None:
        return {}
    if not isinstance(read, dict):
        raise BadJson(f"a {type(read).__name__} where an object was expected")
    return read


def _plain(value: Value) -> Any:
    match value.kind:
        case Kind.OBJECT:
            return {name: _plain(member) for name, member in value.members}
        case Kind.ARRAY:
            return [_plain(item) for item in value.items]
        case Kind.STRING:
            return value.text
        case Kind.NUMBER:
            whole = read_integer(value.raw)
            return whole if whole is not None else float(value.raw)
        case Kind.BOOL:
            return value.raw == b"true"
        case Kind.NULL:
            return None
