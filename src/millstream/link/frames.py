"""Frames of single operations, as bytes.

Text that contains a line break is refused, so a caller's text can never become another command.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from millstream.link.errors import BadMessage, MessageTooLarge
from millstream.protocol.headers import make_text

LONGEST_SUBJECT: Final = 3072  # bytes; a line has 4,096 by default, and also holds a reply subject and sizes
_NAME: Final = re.compile(r"[!-9;-~]+")  # printable ASCII without the colon
_NOT_IN_VALUES: Final = frozenset("\r\n\0")
_BREAKS: Final = frozenset(" \t\r\n\f\0")

Headers = bytes | Mapping[str, str] | Iterable[tuple[str, str]]


def check_subject(subject: str) -> None:
    """Raise BadMessage for a subject that contains blanks or line breaks or is too long for a server."""
    if not subject or not _BREAKS.isdisjoint(subject):
        raise BadMessage(f"{subject[:256]!r} is no subject")
    if len(subject) * 4 > LONGEST_SUBJECT and len(subject.encode(errors="surrogatepass")) > LONGEST_SUBJECT:
        raise BadMessage(f"a subject has at most {LONGEST_SUBJECT} bytes: {subject[:64]!r}…")


def header_block(headers: Headers) -> bytes:
    """Return the block of names and values; bytes are one already.

    Raises BadMessage for text that would break out of its line.
    """
    if isinstance(headers, bytes):
        return headers
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    for name, value in pairs:
        if not _NAME.fullmatch(name) or not _NOT_IN_VALUES.isdisjoint(value):
            raise BadMessage(f"the header {name!r} has a character that no header may have")
    return make_text(pairs)


def message_frame(
    subject: str, payload: bytes, reply: str = "", headers: Headers = b"", max_payload: int = 0
) -> bytes:
    """Return a PUB, or an HPUB if there are headers; raises BadMessage for what no server accepts."""
    check_subject(subject)
    if reply:
        check_subject(reply)
    block = header_block(headers)
    size = len(block) + len(payload)
    if max_payload and size > max_payload:
        raise MessageTooLarge(f"the message has {size} bytes, the server takes {max_payload}")
    try:
        line = (f"{subject} {reply} " if reply else f"{subject} ").encode()
    except UnicodeEncodeError:
        raise BadMessage(f"{subject[:256]!r} is no subject") from None
    if block:
        return b"HPUB %b%d %d\r\n%b%b\r\n" % (line, len(block), size, block, payload)
    return b"PUB %b%d\r\n%b\r\n" % (line, size, payload)


def subscription_frame(subject: str, queue: str, sid: int) -> bytes:
    """Return a SUB, with a queue group if one is named."""
    check_subject(subject)
    if queue:
        check_subject(queue)
    return (f"SUB {subject} {queue} {sid}\r\n" if queue else f"SUB {subject} {sid}\r\n").encode()


def end_frame(sid: int, after: int = 0) -> bytes:
    """Return an UNSUB that acts at once or after `after` messages."""
    return b"UNSUB %d %d\r\n" % (sid, after) if after else b"UNSUB %d\r\n" % sid
