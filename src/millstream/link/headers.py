"""Headers of messages as NATS writes them: a first line, perhaps with a status, and `Name: value` lines.

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
    """The names and values of a block, in their order; a name may come more than once."""
    found: Pairs = []
    for line in block.split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon and not line.startswith(_FIRST_LINE):
            found.append((_text(name), _text(value).strip()))
    return found


def header_block(headers: bytes | Mapping[str, str] | Iterable[tuple[str, str]]) -> bytes:
    """The block of names and values; bytes are one already.  BadMessage for what would break out of it."""
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
