"""Counters: every message adds to its subject's sum and is stored as the sum.

    Nats-Incr: -5      ──▶   the same header, and the body {"val":"37"}

The sum of a subject is in its last message, so removing messages resets a counter to an earlier value.
Uncommitted messages cannot be read; their sums are kept in memory until they are committed.

Not here: sums of other streams (`sourcing.counters`); their header `Nats-Counter-Sources` is copied.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.golang.json import FEW_VALUES
from millstream.jetstream.publish.candidate import Incoming
from millstream.jsapi import headers as names
from millstream.jsapi.codec import JsonError, decode_lenient
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.publish_types import CounterValue, pub_ack_counter_end
from millstream.protocol import headers
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream

_INCREMENT: Final = names.COUNTER_INCREMENT.encode()
_SOURCES: Final = names.COUNTER_SOURCES.encode()
_INCOMPATIBLE: Final = (
    names.ROLLUP.encode(),
    names.EXPECTED_STREAM.encode(),
    names.EXPECTED_LAST_MSG_ID.encode(),
    names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT.encode(),
    names.EXPECTED_LAST_SEQUENCE.encode(),
    names.EXPECTED_LAST_SUBJECT_SEQUENCE.encode(),
)
NUMBER: Final = re.compile(rb"[+-]?[0-9]+")
_KEPT: Final = 4096  # sums kept although their messages could be read from the log
_MOST_DIGITS: Final = 64 * 1024  # of a sum: an increment is in a header
_DIGITS: Final = 4000  # Python converts at most 4300 at once
_STEP: Final = 10**_DIGITS


class Sum(NamedTuple):
    """The sum in the last message of a subject."""

    total: int = 0
    sources: bytes = b""  # its header about sums of other streams, unparsed


def increment_of(stream: Stream, message: Incoming) -> int | None:
    """Return the increment of a message, or None if it has none; raise ApiError if it is not allowed."""
    text = headers.find(message.block, _INCREMENT)
    if not text:
        return None
    if NUMBER.fullmatch(text) is None:
        raise ApiError(Err.MESSAGE_COUNTER_INCREMENT_INVALID)
    if not stream.config.allow_msg_counter:
        raise ApiError(Err.MESSAGE_COUNTER_DISABLED)
    if message.payload:
        raise ApiError(Err.MESSAGE_COUNTER_HAS_PAYLOAD)
    if any(headers.find(message.block, key) for key in _INCOMPATIBLE):
        raise ApiError(Err.MESSAGE_COUNTER_INCREMENT_INVALID)
    return parse_number(text)


class Counters:
    """The sums of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._recent: dict[int, Sum] = {}  # by sequence, ascending
        self._record = Record()

    def apply(self, message: Incoming, increment: int, staged: dict[bytes, Sum] | None = None) -> Sum:
        """Turn an increment into the sum; `staged` has the sums of messages stored before this one."""
        before = staged.get(message.subject) if staged is not None else None
        if before is None:
            before = self.last(message.subject)
        if _has_parts(before.sources):
            message.block = headers.replace(message.block, _SOURCES, before.sources)
        after = Sum(before.total + increment, headers.find(message.block, _SOURCES) or b"")
        text = format_number(after.total)
        message.payload = b'{"val":"%b"}' % text
        message.ack_end = pub_ack_counter_end(text.decode())
        if staged is not None:
            staged[message.subject] = after
        return after

    def stored(self, seq: int, value: Sum) -> None:
        """Record the sum of a message made by `apply`, which is now in the log."""
        self._recent[seq] = value
        while len(self._recent) > _KEPT:
            oldest = next(iter(self._recent))
            if oldest > self._stream.log.committed:
                return
            del self._recent[oldest]

    def last(self, subject: bytes) -> Sum:
        """Return the sum of a subject, from its last message, committed or not."""
        log = self._stream.log
        seq = log.last_of(subject)
        known = self._recent.get(seq)
        if known is not None:
            return known
        if not seq or not log.get(seq, self._record):
            return Sum()
        return _read(self._record.headers(), self._record.payload())


def _read(block: bytes, payload: bytes) -> Sum:
    """Read the sum from a stored message; raise ApiError if there is none."""
    try:
        value = decode_lenient(payload, CounterValue, FEW_VALUES).val.encode()
    except JsonError:
        raise ApiError(Err.MESSAGE_COUNTER_BROKEN) from None
    sources = headers.find(block, _SOURCES) if block else None
    if len(value) > _MOST_DIGITS:
        raise ApiError(Err.MESSAGE_COUNTER_BROKEN)
    return Sum(parse_number(value) if NUMBER.fullmatch(value) else 0, sources or b"")


def _has_parts(sources: bytes) -> bool:
    """Return True if the header has sums of other streams; raise ApiError if it is invalid."""
    if not sources:
        return False
    try:
        parts = json.loads(sources)
    except (ValueError, RecursionError):
        raise ApiError(Err.MESSAGE_COUNTER_BROKEN) from None
    if not isinstance(parts, dict) or not all(isinstance(each, dict) for each in parts.values()):
        raise ApiError(Err.MESSAGE_COUNTER_BROKEN)
    return bool(parts)


def parse_number(text: bytes) -> int:
    """Parse an integer of any length."""
    digits = text.lstrip(b"+-")
    total = 0
    for at in range(0, len(digits), _DIGITS):
        part = digits[at : at + _DIGITS]
        total = total * 10 ** len(part) + int(part)
    return -total if text.startswith(b"-") else total


def format_number(number: int) -> bytes:
    """Format an integer of any length."""
    rest, parts = abs(number), []
    while rest >= _STEP:
        rest, part = divmod(rest, _STEP)
        parts.append(b"%0*d" % (_DIGITS, part))
    parts.append(b"%d" % rest)
    return (b"-" if number < 0 else b"") + b"".join(reversed(parts))
