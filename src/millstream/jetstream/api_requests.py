"""Read API requests: the API level that they require, and their bodies."""

import re
from typing import Final, TypeVar

from millstream.jsapi import headers as names
from millstream.jsapi.codec import JsonError, decode_lenient, decode_strict
from millstream.jsapi.go_types import Struct
from millstream.jsapi.limits import API_LEVEL
from millstream.protocol import headers

Body = TypeVar("Body", bound=Struct)

_REQUIRED_LEVEL: Final = names.REQUIRED_API_LEVEL.encode()
_NUMBER: Final = re.compile(rb"([+-]?)0*([0-9]{1,19})")
_SMALLEST: Final = -(2**63)
_LARGEST: Final = 1024 * 1024  # bytes
_EMPTY: Final = re.compile(rb"|[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*")


def beyond_ours(block: bytes) -> bool:
    """Return True if the headers require an API level that this server lacks, or an invalid one."""
    wanted = headers.find(block, _REQUIRED_LEVEL) if block else None
    if not wanted:
        return False
    number = _NUMBER.fullmatch(wanted)
    return number is None or not _SMALLEST <= int(number[1] + number[2]) <= API_LEVEL


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
