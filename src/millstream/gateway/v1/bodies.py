"""Bodies of requests, read as leniently as httpmq reads them.

The first JSON value counts, with any content type.  Names of fields may be in any case, unknown fields are
ignored, and null counts as absent.  A value of the wrong type is an error.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from millstream.gateway.errors import BadRequest

_INT64: Final = (-(2**63), 2**63 - 1)
_INT32: Final = (-(2**31), 2**31 - 1)
_UINT64: Final = (0, 2**64 - 1)


class Unreadable(BadRequest):
    """Raised if a body is not valid."""


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"invalid character {text[0]!r} looking for beginning of value")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


class Fields:
    """The fields of the object in a body."""

    def __init__(self, body: bytes) -> None:
        text = body.decode("utf-8", errors="replace").lstrip(" \t\r\n")
        if not text:
            raise Unreadable("EOF")
        try:
            value, _ = _DECODER.raw_decode(text)
        except (ValueError, RecursionError) as error:
            raise Unreadable(str(error)) from None
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise Unreadable(f"json: cannot unmarshal {_kind(value)} into Go value")
        self._values: dict[str, Any] = {name.lower(): item for name, item in value.items()}

    def text(self, name: str) -> str:
        """Return a string; empty if it is absent."""
        value = self._values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._mismatch(name, value, "string")
        return value

    def texts(self, name: str) -> list[str] | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self._mismatch(name, value, "[]string")
        for item in value:
            if item is not None and not isinstance(item, str):
                raise self._mismatch(name, item, "string")
        return [item or "" for item in value]

    def integer(self, name: str, *, bits: int = 64) -> int | None:
        return self._integer(name, _INT64 if bits == 64 else _INT32, f"int{bits}")

    def unsigned(self, name: str) -> int | None:
        return self._integer(name, _UINT64, "uint64")

    def _integer(self, name: str, bounds: tuple[int, int], kind: str) -> int | None:
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not bounds[0] <= value <= bounds[1]:
            raise self._mismatch(name, value, kind)
        return value

    def _mismatch(self, name: str, value: object, kind: str) -> Unreadable:
        return Unreadable(f"json: cannot unmarshal {_kind(value)} into Go struct field {name} of type {kind}")


def _kind(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return f"number {value}"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
