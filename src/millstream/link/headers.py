"""Message headers in NATS's format: a first line, which may have a status, and `Name: value` lines.

NATS/1.0\\r\\nNats-Msg-Id: 7\\r\\n\\r\\n
NATS/1.0 408 Request Timeout\\r\\n\\r\\n
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from millstream.link.errors import BadMessage

Pairs = list[tuple[str, str]]

_FIRST_LINE: Final = b"NATS/1.0"
_NAME: Final = re.compile(r"[!-9;-~]+")  # printable ASCII without the colon
_NOT_IN_VALUES: Final = frozenset("\r\n\0")


def read_headers(block: bytes) -> Pairs:
    """Return the names and values of a block in order; a name may be repeated."""
    found: Pairs = []
    for line in block.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and not line.startswith(_FIRST_LINE):
            found.append((_text(name), _text(value).strip()))
    return found


def header_block(headers: bytes | Mapping[str, str] | Iterable[tuple[str, str]]) -> bytes:
    """Return a header block; bytes are one already.  Raises BadMessage for line breaks and bad names."""
    if isinstance(headers, bytes):
        return headers
    lines = ["NATS/1.0\r\n"]
    for name, value in headers.items() if isinstance(headers, Mapping) else headers:
        if not _NAME.fullmatch(name) or not _NOT_IN_VALUES.isdisjoint(value):
            raise BadMessage(f"the header {name!r} has a character that no header may have")
        lines.append(f"{name}: {value}\r\n")
    if len(lines) == 1:
        return b""
    lines.append("\r\n")
    return "".join(lines).encode(errors="surrogatepass")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
