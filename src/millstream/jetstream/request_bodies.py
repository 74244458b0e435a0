"""Read the bodies of API requests."""

import re
from typing import Final, TypeVar

from millstream.jsapi.codec import JsonError, decode_lenient, decode_strict
from millstream.jsapi.go_types import Struct

Body = TypeVar("Body", bound=Struct)

_LARGEST: Final = 1024 * 1024  # bytes
_EMPTY: Final = re.compile(rb"|[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*")


def is_empty(body: bytes) -> bool:
    """Return True for an empty body or an empty object."""
    return _EMPTY.fullmatch(body) is not None


class Bodies:
    """Reads bodies; unless it is strict, unknown names are ignored."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def read(self, body: bytes, kind: type[Body]) -> Body:
        """Decode a body; raise JsonError, also if it is larger than any request needs to be."""
        if len(body) > _LARGEST:
            raise JsonError(f"the request is larger than {_LARGEST} bytes")
        try:
            return decode_strict(body, kind)
        except JsonError:
            if self._strict:
                raise
            return decode_lenient(body, kind)

    def read_optional(self, body: bytes, kind: type[Body]) -> Body:
        """Decode a body like `read`, but ignore one that does not even begin like JSON."""
        return self.read(body, kind) if body.lstrip()[:1] in (b"{", b"[") else kind()
