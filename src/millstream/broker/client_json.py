"""Parse JSON from clients as leniently as nats-server does.

Bytes that are not UTF-8 and lone surrogates become U+FFFD, numbers of any size are accepted where they are
not used, and ``null`` is an empty object.  Nearly every client sends simple JSON, so the fast reader is tried
first.
"""

from typing import Any

import msgspec

from millstream.base.decimals import read_integer
from millstream.base.errors import MillstreamError
from millstream.golang.json import JsonKind, Value, read_one


class BadJson(MillstreamError):
    """The text is not a JSON object."""


def read_object(text: bytes) -> dict[str, Any]:
    """Return the members of the object in `text`; raise BadJson."""
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
        case JsonKind.OBJECT:
            return {name: _plain(member) for name, member in value.members}
        case JsonKind.ARRAY:
            return [_plain(item) for item in value.items]
        case JsonKind.STRING:
            return value.text
        case JsonKind.NUMBER:
            whole = read_integer(value.raw)
            return whole if whole is not None else float(value.raw)
        case JsonKind.BOOL:
            return value.raw == b"true"
        case JsonKind.NULL:
            return None
