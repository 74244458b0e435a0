"""Counters with sources: the sum of each origin is a part of the sum here.

A message of an origin contains the origin's whole sum, so only the difference to its previous sum is added.
A header records the last sum of each origin:

    Nats-Counter-Sources: {"<origin>":{"<subject there>":"<its sum>"}}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from millstream.golang.json import FEW_VALUES, escape_html
from millstream.jetstream.publish.counter import NUMBER, Sum, format_number, parse_number
from millstream.jsapi import headers as names
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.publish_types import CounterValue
from millstream.protocol import headers

if TYPE_CHECKING:
    from millstream.jetstream.publish.candidate import Incoming
    from millstream.jetstream.stream.stream import Stream

_INCREMENT: Final = names.COUNTER_INCREMENT.encode()
_SOURCES: Final = names.COUNTER_SOURCES.encode()
_STREAM_SOURCE: Final = names.STREAM_SOURCE.encode()


def count_sourced(stream: Stream, message: Incoming) -> Sum:
    """Convert an origin's sum to ours; raise ApiError if the message is not a valid counter message."""
    text = headers.find(message.block, _INCREMENT)
    if not text:
        raise ApiError(Err.MESSAGE_COUNTER_INCREMENT_MISSING)
    if NUMBER.fullmatch(text) is None:
        raise ApiError(Err.MESSAGE_COUNTER_INCREMENT_INVALID)
    before = stream.counters.last(message.subject)
    parts = _parts(before.sources)
    origin, subject = _where_from(message)
    told = _value(message.payload)
    known = parts.setdefault(origin, {})
    increment = told - _number(known.get(subject, ""))
    known[subject] = format_number(told).decode()
    after = Sum(before.total + increment, _written(parts))
    block = _set(message.block, _INCREMENT, format_number(increment))
    message.block = _set(block, _SOURCES, after.sources)
    message.payload = b'{"val":"%b"}' % format_number(after.total)
    return after


def _set(block: bytes, key: bytes, value: bytes) -> bytes:
    """Return the block with this value for `key`, at the position of the old value."""
    known = headers.find(block, key)
    if known is None:
        return headers.put(block, key, value)
    start = block.index(b"\r\n" + key + b":")
    end = block.index(b"\r\n", start + 2)
    return b"%b\r\n%b: %b%b" % (block[:start], key, value, block[end:])


def _where_from(message: Incoming) -> tuple[str, str]:
    """Return the origin and the subject there, from the header added on arrival."""
    fields = (headers.find(message.block, _STREAM_SOURCE) or b"").decode(errors="replace").split(" ")
    subject = fields[4] if len(fields) >= 5 else message.subject.decode(errors="replace")
    return fields[0], subject


def _parts(sources: bytes) -> dict[str, dict[str, str]]:
    try:
        parts: Any = json.loads(sources) if sources else {}
    except (ValueError, RecursionError):
        raise ApiError(Err.MESSAGE_COUNTER_BROKEN) from None
    if not isinstance(parts, dict) or not all(isinstance(each, dict) for each in parts.values()):
        raise ApiError(Err.MESSAGE_COUNTER_BROKEN)
    return {
        origin: {subject: str(value) for subject, value in each.items()} for origin, each in parts.items()
    }


def _value(payload: bytes) -> int:
    try:
        return _number(decode_lenient(payload, CounterValue, FEW_VALUES).val)
    except JsonError:
        raise ApiError(Err.MESSAGE_COUNTER_BROKEN) from None


def _number(text: str) -> int:
    digits = text.encode()
    return parse_number(digits) if NUMBER.fullmatch(digits) else 0


def _written(parts: dict[str, dict[str, str]]) -> bytes:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return escape_html(text.encode())
