"""Answers of known length that are sent in pieces, as a whole or a range, and the request headers for them.

If a piece cannot be read, the connection is cut, so that no caller takes a part for the whole.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from millstream.gateway.errors import BadRequest, Disconnected, PreconditionFailed, RangeNotSatisfiable
from millstream.gateway.exchange import Exchange
from millstream.gateway.v2.calls import Call, Headers, start

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class Part(NamedTuple):
    """The bytes from `start` up to, but not including, `end`."""

    start: int
    end: int


class Download:
    """Sends `pieces`, which are `size` bytes together; they are closed when the caller goes away."""

    def __init__(
        self, status: int, size: int, media_type: str, pieces: AsyncGenerator[bytes, None], headers: Headers
    ) -> None:
        self._status = status
        self._size = size
        self._media_type = media_type
        self._pieces = pieces
        self._headers = headers

    async def respond(self, exchange: Exchange) -> None:
        headers = [
            ("Content-Type", self._media_type),
            ("Content-Length", str(self._size)),
            ("Accept-Ranges", "bytes"),
            *self._headers,
        ]
        try:
            if exchange.is_head or not self._size:
                await exchange.send(start(self._status, headers))
                await exchange.send({"type": "http.response.body", "body": b""})
                return
            # an error before the first piece is still answered with its status
            first = await anext(self._pieces)
            async with exchange.while_there() as presence:
                await exchange.send(start(self._status, headers))
                await exchange.send({"type": "http.response.body", "body": first, "more_body": True})
                async for piece in self._pieces:
                    await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
                    if presence is not None and presence.is_gone:
                        return
                    await asyncio.sleep(0)  # neither side may have waited: let other tasks run
                await exchange.send({"type": "http.response.body", "body": b""})
        except (Disconnected, OSError):
            pass
        finally:
            await self._pieces.aclose()


def part_of(call: Call, size: int, etag: str) -> Part | None:
    """Return the part that a request asks for; None for all of it, 416 if it does not exist.

    Requests for several ranges, or for other units than bytes, get everything, as HTTP allows.
    """
    wanted = call.header("range")
    condition = call.header("if-range")
    if not wanted or (condition and condition != etag):
        return None
    found = _RANGE.fullmatch(wanted.replace(" ", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        length = int(found[2])
        if not length or not size:
            raise RangeNotSatisfiable(size)
        return Part(max(size - length, 0), size)
    first = int(found[1])
    last = int(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return Part(first, min(last + 1, size))


def tags_in(condition: str) -> list[str]:
    """Return the ETags that a condition names; 400 if one is invalid."""
    tags = [tag.strip() for tag in condition.split(",")]
    for tag in tags:
        if tag != "*" and not (len(tag) > 2 and tag.removeprefix("W/").startswith('"') and tag.endswith('"')):
            raise BadRequest(f"{tag[:100]!r} is no ETag")
    return tags


def is_known(call: Call, etag: str) -> bool:
    """Return whether the caller of a GET has this version; 412 if If-Match names another one."""
    match, none_match = call.header("if-match"), call.header("if-none-match")
    if match and "*" not in tags_in(match) and etag not in tags_in(match):
        raise PreconditionFailed("it is not what If-Match names")
    if not none_match:
        return False
    tags = [tag.removeprefix("W/") for tag in tags_in(none_match)]
    return "*" in tags or etag in tags
