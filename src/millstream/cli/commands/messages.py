"""Messages of streams and subjects: reading a range without a consumer, and printing.

    async for message in stored_range(link, "JOBS", StreamPlace(seq=1), limit=10): …

Messages are requested one by one, so nothing is consumed: this works on work queues, and leaves no consumer
behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from millstream.cli.output.tables import CommandOutput
from millstream.cli.output.texts import header_fields, payload_fields, payload_text, safe, time_text
from millstream.golang.time import format_time
from millstream.link.link import Link
from millstream.link.stored import Stored, first_since, next_message
from millstream.protocol.headers import Pairs


class StreamPlace(NamedTuple):
    """The position to start reading at: a sequence, or a time."""

    seq: int = 1
    time: str = ""  # RFC 3339; takes precedence unless it is empty


async def next_stored(link: Link, stream: str, place: StreamPlace, subject: str = ">") -> Stored | None:
    """Return the first message from a place on that matches; None if there is none."""
    if place.time:
        return await first_since(link, stream, place.time, subject)
    return await next_message(link, stream, place.seq, subject)


async def stored_range(
    link: Link, stream: str, place: StreamPlace, subject: str = ">", limit: int = 10
) -> AsyncIterator[Stored]:
    """Yield at most `limit` messages from a place on."""
    for _ in range(limit):
        message = await next_stored(link, stream, place, subject)
        if message is None:
            return
        yield message
        place = StreamPlace(message.seq + 1)


def document_of(stream: str, message: Stored) -> dict[str, Any]:
    """Return a message for JSON, in the shape of the gateway's API."""
    found: dict[str, Any] = {
        "stream": stream,
        "seq": message.seq,
        "subject": message.subject,
        "time": format_time(message.time),
    }
    if message.pairs:
        found["headers"] = header_fields(message.pairs)
    return found | payload_fields(message.payload)


def show_stored(
    output: CommandOutput, stream: str, message: Stored, *, raw: bool = False, most: int = 0
) -> None:
    """Print a message: a line with its place, its headers, its payload."""
    if raw:
        output.raw(message.payload + b"\n")
        return
    text = f"[{message.seq}] {time_text(format_time(message.time))} {safe(message.subject)}"
    show_message(output, document_of(stream, message), text, message.pairs, message.payload, most)


def show_message(
    output: CommandOutput, document: dict[str, Any], text: str, headers: Pairs, payload: bytes, most: int = 0
) -> None:
    """Print one message; with JSON, one line for each."""
    output.event(document, f"{text}  {payload_text(payload, most)}" if payload else text)
    if not output.json:
        for name, value in headers:
            output.line(f"    {safe(name)}: {safe(value)}", escape=False)
