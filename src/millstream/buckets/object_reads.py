"""Reading of an object or a part of it, chunk by chunk.

Chunks are read by direct requests, a few ahead of the reader, so a slow reader takes little memory here and
none on the server.  If only one writer was active, the chunks of an object have consecutive sequences, and
all but the last have the same size.  Where first chunk, last chunk and description prove that, the position
of a chunk is computed; otherwise the chunks are read in order to find it.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from millstream.buckets.errors import DigestMismatch
from millstream.buckets.object_info import ObjectInfo
from millstream.buckets.pages import read_page
from millstream.link.link import Link
from millstream.link.stored import Stored, last_message, message_at, next_message

_AHEAD_BYTES: Final = 1024 * 1024
_MOST_AHEAD: Final = 16  # chunks
_INDEX_PAGE: Final = 4096  # chunks whose sizes are read together


class _Layout(NamedTuple):
    """The layout of consecutive chunks: the sequence of the first, and the size of all but the last."""

    first: int
    size: int


async def read_object(
    link: Link, stream: str, info: ObjectInfo, start: int, length: int | None
) -> AsyncIterator[bytes]:
    """Yield `length` bytes from `start` on; raises DigestMismatch if they differ from what was stored."""
    end = info.size if length is None else min(start + length, info.size)
    if start >= end:
        return
    subject = f"$O.{info.bucket}.C.{info.nuid}"
    layout = await _layout(link, stream, subject, info)
    if layout is not None:
        offset = start // layout.size * layout.size
        last = layout.first + (end - 1) // layout.size
        chunks = _by_sequence(link, stream, subject, layout.first + start // layout.size, last, layout.size)
    else:
        seq, offset = await _position(link, stream, subject, start)
        chunks = _by_subject(link, stream, subject, seq)
    digest = hashlib.sha256() if start == 0 and end == info.size and info.sha256 else None
    async for chunk in chunks:
        if digest is not None:
            digest.update(chunk)
        piece = chunk[max(start - offset, 0) : end - offset]
        offset += len(chunk)
        if offset >= end and digest is not None and digest.digest() != info.sha256:
            raise DigestMismatch(f"the bytes of {info.name!r} are not those that were stored")
        if piece:
            yield piece
        if offset >= end:
            return
    raise DigestMismatch(f"chunks of {info.name!r} are missing: {offset} of {info.size} bytes are there")


async def _layout(link: Link, stream: str, subject: str, info: ObjectInfo) -> _Layout | None:
    """Return the layout of the chunks, or None if it cannot be proved."""
    size = info.max_chunk_size
    if not size or not info.chunks:
        return None
    first = await next_message(link, stream, 1, subject)
    last = await last_message(link, stream, subject)
    if first is None or last is None or last.seq - first.seq + 1 != info.chunks:
        return None
    if info.chunks == 1:
        return _Layout(first.seq, max(size, len(first.payload)))
    if len(first.payload) != size or info.size - len(last.payload) != (info.chunks - 1) * size:
        return None
    return _Layout(first.seq, size)


async def _position(link: Link, stream: str, subject: str, start: int) -> tuple[int, int]:
    """Return the sequence of the chunk that has byte `start`, and the number of bytes before that chunk."""
    if start == 0:
        return 1, 0
    following, offset = 1, 0
    while True:
        page = await read_page(link, stream, subject, start=following, limit=_INDEX_PAGE, headers_only=True)
        for stored in page.messages:
            size = _size(stored)
            if offset + size > start:
                return stored.seq, offset
            offset += size
            following = stored.seq + 1
        if not page.messages or not page.pending:
            return following, offset


def _size(stored: Stored) -> int:
    text = stored.header("Nats-Msg-Size")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else len(stored.payload)


async def _by_sequence(
    link: Link, stream: str, subject: str, first: int, last: int, size: int
) -> AsyncIterator[bytes]:
    """Yield chunks of consecutive sequences, requesting some ahead."""
    ahead = max(1, min(_AHEAD_BYTES // max(size, 1), _MOST_AHEAD))
    asked: deque[asyncio.Task[Stored | None]] = deque()
    following = first
    loop = asyncio.get_running_loop()
    try:
        while asked or following <= last:
            while len(asked) < ahead and following <= last:
                asked.append(loop.create_task(_chunk_at(link, stream, following)))
                following += 1
            stored = await asked[0]
            asked.popleft()
            if stored is None or stored.subject != subject:
                return
            yield stored.payload
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _chunk_at(link: Link, stream: str, seq: int) -> Stored | None:
    """Return a chunk, even if the replica that answers first does not have it yet."""
    found = await message_at(link, stream, seq)
    return found or await message_at(link, stream, seq, of_leader=True)


async def _by_subject(link: Link, stream: str, subject: str, seq: int) -> AsyncIterator[bytes]:
    """Yield chunks from a sequence on, with any gaps between them."""
    while True:
        stored = await next_message(link, stream, seq, subject)
        if stored is None:
            return
        seq = stored.seq + 1
        yield stored.payload
