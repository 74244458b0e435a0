"""`Nats-Stream-Source`: the origin of a message in a stream with sources.

    <origin> <sequence there> <filters> <destinations> <subject there>[ <identity of the origin>]

The first, third and fourth field identify one source of the stream; lists in them are joined by form feeds.
Older servers wrote only the first two fields, or the reply subject of the delivery:

    <origin> <sequence>
    $JS.ACK.<origin>.<consumer>.<deliveries>.<sequence>.…
"""

from __future__ import annotations

from typing import NamedTuple

from millstream.protocol.ack_subject import ACK_PREFIX, read_ack_subject


class SourcePosition(NamedTuple):
    """The content of the header."""

    origin: str
    index_name: str  # identifies the source; empty in old headers
    seq: int
    identity: str = ""


def parse(value: str) -> SourcePosition | None:
    """Parse the header; return None if it is invalid."""
    if value.startswith(ACK_PREFIX):
        delivery = read_ack_subject(value)
        return None if delivery is None else SourcePosition(delivery.stream, "", delivery.stream_seq)
    fields = value.split(" ")
    if len(fields) == 2:
        return SourcePosition(fields[0], "", _number(fields[1]))
    if len(fields) < 4:
        return None
    identity = fields[5] if len(fields) >= 6 else ""
    return SourcePosition(fields[0], f"{fields[0]} {fields[2]} {fields[3]}", _number(fields[1]), identity)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
