"""What may be sent over a link that callers share: nothing for which a server closes the connection.

A server ends a connection whose line or message is too long, and with it the requests of everybody who
shares it.  Names, subjects, headers and bodies come from callers, so whatever is made of them is measured
here, once, before it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from millstream.gateway.errors import BadRequest, PayloadTooLarge

LONGEST_SUBJECT: Final = 3072  # bytes; a line has 4,096, and also holds a reply subject and sizes
_HEADER_LINE: Final = len(b"NATS/1.0\r\n\r\n")
_BETWEEN: Final = len(b": \r\n")


def check_frame(subject: str, payload_size: int, headers: Mapping[str, str] | None, max_payload: int) -> None:
    """BadRequest or PayloadTooLarge for what a server would not take."""
    try:
        if len(subject) > LONGEST_SUBJECT or len(subject.encode()) > LONGEST_SUBJECT:
            raise BadRequest(f"a subject has at most {LONGEST_SUBJECT} bytes: {subject[:64]!r}…")
        size = payload_size
        if headers:
            size += _HEADER_LINE
            for name, value in headers.items():
                size += len(name) + len(value.encode()) + _BETWEEN
    except UnicodeEncodeError:
        raise BadRequest("a subject or header is not Unicode text") from None
    if size > max_payload:
        raise PayloadTooLarge
