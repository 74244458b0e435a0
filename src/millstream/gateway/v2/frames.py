"""The two framings of a stream of messages: a JSON object on each line, or Server-Sent Events.

    NDJSON   {"stream":"ORDERS","seq":7,…}\\n          {"problem":{…}}\\n at the end, if it did not end well
    SSE      id: 7\\ndata: {"stream":…}\\n\\n          event: problem\\ndata: {…}\\n\\n, and `: ping` every 15
    s

Proxies and load balancers close idle connections; comments keep them open.  NDJSON has no comments, so it has
`{"ping":true}` lines on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from millstream.gateway.v2.operations import EVENTS, NDJSON
from millstream.gateway.v2.payload import Message, to_json
from millstream.gateway.v2.problems import problem_of

PING_S: Final = 15.0
RETRY_MS: Final = 2000

_line_encoder: Final = msgspec.json.Encoder()


class Framing(Protocol):
    """Encodes messages; `ping_s` is 0 if there are no pings."""

    media_type: str
    ping_s: float

    def opening(self) -> bytes: ...

    def messages(self, messages: Sequence[Message]) -> bytes: ...

    def ping(self) -> bytes: ...

    def ending(self, error: BaseException) -> bytes: ...


class Lines:
    """NDJSON: a JSON object on each line."""

    media_type = NDJSON

    def __init__(self, ping_s: float) -> None:
        self.ping_s = ping_s

    def opening(self) -> bytes:
        return b""

    def messages(self, messages: Sequence[Message]) -> bytes:
        return _line_encoder.encode_lines(messages)

    def ping(self) -> bytes:
        return b'{"ping":true}\n'

    def ending(self, error: BaseException) -> bytes:
        return b'{"problem":%b}\n' % to_json(problem_of(error))


class Events:
    """Server-Sent Events; the id of an event is the sequence of its message."""

    media_type = EVENTS

    def __init__(self, ping_s: float) -> None:
        self.ping_s = ping_s

    def opening(self) -> bytes:
        return b"retry: %d\n\n" % RETRY_MS

    def messages(self, messages: Sequence[Message]) -> bytes:
        encode = _line_encoder.encode
        return b"".join([b"id: %d\ndata: %b\n\n" % (message.seq, encode(message)) for message in messages])

    def ping(self) -> bytes:
        return b": ping\n\n"

    def ending(self, error: BaseException) -> bytes:
        return b"event: problem\ndata: %b\n\n" % to_json(problem_of(error))


def framing_of(media_type: str, ping_s: float | None) -> Framing:
    """Return the framing of a media type; without `ping_s`, events have pings and lines have none."""
    if media_type == EVENTS:
        return Events(PING_S if ping_s is None else ping_s)
    return Lines(ping_s or 0.0)
