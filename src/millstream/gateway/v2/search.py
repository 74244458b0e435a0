"""Search for a text in the messages of a stream.

There is no index, so a search reads the messages, and the work of one call is bounded: it ends with a full
page, or after a number of messages, bytes or seconds, and returns the position to continue at.
"""

from __future__ import annotations

import time
from typing import Final

from millstream.gateway.link import CallerLink
from millstream.link.stored import Stored, next_message

_MOST_LOOKED_AT: Final = 5_000
_MOST_BYTES: Final = 32 * 1024 * 1024
_MOST_SECONDS: Final = 2.0
_ANSWER_BYTES: Final = 4 * 1024 * 1024


async def find_messages(
    link: CallerLink, stream: str, subject: str, text: str, *, seq: int, limit: int
) -> tuple[list[Stored], int | None]:
    """Return messages from a sequence on that have `text` in subject, headers or body, ignoring case, and the
    sequence to continue at; None after the last message."""
    wanted = text.lower()
    found: list[Stored] = []
    size = looked_at = looked_bytes = 0
    give_up = time.monotonic() + _MOST_SECONDS
    while True:
        stored = await next_message(link, stream, seq, subject)
        if stored is None:
            return found, None
        if len(found) == limit or (found and size + len(stored.payload) > _ANSWER_BYTES):
            return found, stored.seq
        if has_text(stored, wanted):
            found.append(stored)
            size += len(stored.payload)
        seq = stored.seq + 1
        looked_at += 1
        looked_bytes += len(stored.payload)
        if looked_at >= _MOST_LOOKED_AT or looked_bytes >= _MOST_BYTES or time.monotonic() > give_up:
            return found, seq


def has_text(stored: Stored, wanted: str) -> bool:
    """Return whether a message contains a text, which is given in lower case."""
    return (
        wanted in stored.subject.lower()
        or any(wanted in f"{name}: {value}".lower() for name, value in stored.pairs)
        or wanted in stored.payload.decode("utf-8", "replace").lower()
    )
