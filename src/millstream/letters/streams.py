"""Streams that have dead letters, and reading of the letters.

Only its messages show that a stream has letters.  A look into every stream would cost a request each, so only
streams are checked whose name, subjects, description or metadata suggest dead letters.  Callers can name any
other stream.
"""

import asyncio
import re
from typing import Final

import msgspec

from millstream.letters.letter import Letter, letter_of
from millstream.link.errors import LinkError
from millstream.link.link import Link
from millstream.link.listing import ListedConfig, ListedStream, stream_page
from millstream.link.stored import last_message, message_at, next_message

METADATA: Final = "millstream.dead_letters"  # a stream with this key in its metadata is checked
_SPEAKS_OF: Final = re.compile(r"dlq|dead", re.IGNORECASE)
_MOST_STREAMS: Final = 256
_AT_ONCE: Final = 16
_MOST_LOOKED_AT: Final = 1000
_MOST_BYTES: Final = 4 * 1024 * 1024


class LetterStream(msgspec.Struct, frozen=True):
    """A stream that has dead letters."""

    stream: str
    messages: int
    first_seq: int
    last_seq: int
    last_time: str
    last_reason: str


class LetterPage(msgspec.Struct, frozen=True):
    """Letters in stream order; `next` is the start of the next page, 0 after the last."""

    letters: list[Letter]
    next: int


def may_hold_letters(config: ListedConfig) -> bool:
    """Return whether a stream's configuration suggests dead letters."""
    words = (config.name, config.description, *(config.subjects or ()))
    return METADATA in (config.metadata or {}) or any(_SPEAKS_OF.search(word) for word in words)


async def letter_streams(link: Link) -> list[LetterStream]:
    """Return the streams that have dead letters, among those whose configuration suggests it."""
    candidates: list[ListedStream] = []
    offset = 0
    while len(candidates) < _MOST_STREAMS:
        page = await stream_page(link, offset=offset)
        streams = page.streams or []
        candidates += [each for each in streams if may_hold_letters(each.config)]
        offset += len(streams)
        if not streams or offset >= page.total:
            break
    return await confirmed(link, candidates[:_MOST_STREAMS])


async def confirmed(link: Link, candidates: list[ListedStream]) -> list[LetterStream]:
    """Return the streams whose last message is a letter."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def look(info: ListedStream) -> LetterStream | None:
        if not info.state.messages:
            return None
        async with turn:
            try:
                last = await last_message(link, info.config.name)
            except LinkError:
                return None
        letter = letter_of(last) if last is not None else None
        if letter is None:
            return None
        state = info.state
        return LetterStream(
            info.config.name,
            state.messages,
            state.first_seq,
            state.last_seq,
            state.last_ts,
            letter.reason,
        )

    found = await asyncio.gather(*(look(info) for info in candidates))
    return [each for each in found if each is not None]


async def read_letter(link: Link, stream: str, seq: int) -> Letter | None:
    """Return one letter; None if there is no message, or it is no letter."""
    stored = await message_at(link, stream, seq)
    return letter_of(stored) if stored is not None else None


async def read_letters(link: Link, stream: str, *, start: int = 1, limit: int = 100) -> LetterPage:
    """Return letters from a sequence on; a page ends early after a bounded number of messages."""
    letters: list[Letter] = []
    size = 0
    for _ in range(_MOST_LOOKED_AT):
        stored = await next_message(link, stream, start)
        if stored is None:
            return LetterPage(letters, 0)
        if len(letters) == limit or (letters and size + len(stored.payload) > _MOST_BYTES):
            return LetterPage(letters, stored.seq)
        letter = letter_of(stored)
        if letter is not None:
            letters.append(letter)
            size += len(stored.payload)
        start = stored.seq + 1
    return LetterPage(letters, start)
