"""Find streams that hold dead letters, and read the letters.

Nothing marks a stream as one of letters but what is in it.  Looking into every stream costs a request each,
so those are looked into whose name, subjects, description or metadata speak of dead letters; any other can be
named by the caller.
"""

import asyncio
import re
from typing import Final

import msgspec

from millstream.golang.time import format_time
from millstream.jsapi.stream_types import StreamConfig, StreamInfo
from millstream.letters.letter import Letter, letter_of
from millstream.link.errors import LinkError
from millstream.link.link import Link
from millstream.link.stored import last_message, message_at, next_message
from millstream.link.verbs import STREAM_LIST

METADATA: Final = "millstream.dead_letters"  # a stream with this key in its metadata is looked into
_SPEAKS_OF: Final = re.compile(r"dlq|dead", re.IGNORECASE)
_MOST_STREAMS: Final = 256
_AT_ONCE: Final = 16
_MOST_LOOKED_AT: Final = 1000
_MOST_BYTES: Final = 4 * 1024 * 1024


class LetterStream(msgspec.Struct, frozen=True):
    """A stream that holds dead letters."""

    stream: str
    messages: int
    first_seq: int
    last_seq: int
    last_time: str
    last_reason: str


class LetterPage(msgspec.Struct, frozen=True):
    """Letters in stream order; `next` is where the next page begins, 0 after the last."""

    letters: list[Letter]
    next: int


def may_hold_letters(config: StreamConfig) -> bool:
    """Return whether a stream's configuration speaks of dead letters."""
    words = (config.name, config.description, *config.subjects)
    return METADATA in config.metadata or any(_SPEAKS_OF.search(word) for word in words)


async def letter_streams(link: Link) -> list[LetterStream]:
    """Return the streams that hold dead letters; see the module for where they are looked for."""
    candidates: list[StreamInfo] = []
    offset = 0
    while len(candidates) < _MOST_STREAMS:
        told = await link.ask(STREAM_LIST, request={"offset": offset})
        candidates += [info for info in told.streams if may_hold_letters(info.config)]
        offset += len(told.streams)
        if not told.streams or offset >= told.total:
            break
    return await confirmed(link, candidates[:_MOST_STREAMS])


async def confirmed(link: Link, candidates: list[StreamInfo]) -> list[LetterStream]:
    """Return those of the streams whose last message is a letter."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def look(info: StreamInfo) -> LetterStream | None:
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
            format_time(state.last_ts),
            letter.reason,
        )

    found = await asyncio.gather(*(look(info) for info in candidates))
    return [each for each in found if each is not None]


async def read_letter(link: Link, stream: str, seq: int) -> Letter | None:
    """Return one letter; None if there is no message, or one that is no letter."""
    stored = await message_at(link, stream, seq)
    return letter_of(stored) if stored is not None else None


async def read_letters(link: Link, stream: str, *, start: int = 1, limit: int = 100) -> LetterPage:
    """Return letters from a sequence on; a page ends early when it has looked at much."""
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
