"""Messages of streams and subjects: how they are read without a consumer, and how they are shown.

    async for message in stored(api, "JOBS", Place(seq=1), limit=10): …

`stored` asks for one message after the other (STREAM.MSG.GET), so nothing is consumed: it works on work
queues, and leaves no consumer behind.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from millstream.cli.output.tables import Output
from millstream.cli.output.texts import header_fields, payload_fields, payload_text, safe, time_text
from millstream.jsapi.errors import Err
from millstream.link.errors import ApiError
from millstream.link.headers import read_headers
from millstream.transfer.answers import checked_message
from millstream.transfer.api import JetStreamApi

Pairs = list[tuple[str, str]]


class Stored(NamedTuple):
    """A message of a stream."""

    stream: str
    seq: int
    subject: str
    time: str  # RFC 3339
    headers: Pairs
    payload: bytes

    @property
    def document(self) -> dict[str, Any]:
        """Return the message for JSON, in the shape of the gateway's API."""
        found: dict[str, Any] = {
            "stream": self.stream,
            "seq": self.seq,
            "subject": self.subject,
            "time": self.time,
        }
        if self.headers:
            found["headers"] = header_fields(self.headers)
        return found | payload_fields(self.payload)


class Place(NamedTuple):
    """Where to begin to read: at a sequence, or at a time."""

    seq: int = 1
    time: str = ""  # RFC 3339; it counts if it is not empty


async def next_stored(api: JetStreamApi, stream: str, place: Place, subject: str = ">") -> Stored | None:
    """Return the first message from a place on that matches; None if there is none."""
    request: dict[str, Any] = {"next_by_subj": subject}
    request |= {"start_time": place.time} if place.time else {"seq": max(place.seq, 1)}
    return await get_stored(api, stream, request)


async def get_stored(api: JetStreamApi, stream: str, request: dict[str, Any]) -> Stored | None:
    """Return the message that a request is for; None if there is none."""
    try:
        answer = await api.look(f"STREAM.MSG.GET.{stream}", request)
    except ApiError as error:
        if error.err is Err.NO_MESSAGE_FOUND:
            return None
        raise
    fields = answer.get("message") or {}
    checked_message(fields, fields.get("seq", 0))
    headers = read_headers(base64.b64decode(fields.get("hdrs") or ""))
    payload = base64.b64decode(fields.get("data") or "")
    return Stored(stream, fields["seq"], fields["subject"], fields["time"], headers, payload)


async def stored(
    api: JetStreamApi, stream: str, place: Place, subject: str = ">", limit: int = 10
) -> AsyncIterator[Stored]:
    """Yield at most `limit` messages from a place on."""
    for _ in range(limit):
        message = await next_stored(api, stream, place, subject)
        if message is None:
            return
        yield message
        place = Place(message.seq + 1)


def show_stored(output: Output, message: Stored, *, raw: bool = False, most: int = 0) -> None:
    """Print a message: a line with its place, its headers, its payload."""
    if raw:
        output.raw(message.payload + b"\n")
        return
    text = f"[{message.seq}] {time_text(message.time)} {safe(message.subject)}"
    show_message(output, message.document, text, message.headers, message.payload, most)


def show_message(
    output: Output, document: dict[str, Any], text: str, headers: Pairs, payload: bytes, most: int = 0
) -> None:
    """Print one message; with JSON, one line for each."""
    output.event(document, f"{text}  {payload_text(payload, most)}" if payload else text)
    if not output.json:
        for name, value in headers:
            output.line(f"    {safe(name)}: {safe(value)}", escape=False)
