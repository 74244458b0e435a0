"""The slow path for messages of another stream: those with headers, or for streams with rules.

The origin has already checked the message, so headers that a publisher may not use here are stored unchanged:
a TTL where TTLs are off, a rollup where it is not allowed, an increment where nothing is counted.  Headers
that refer to the origin's past are removed: expectations, batches, and the origin's own source.

Not here: messages without anything special (``intake``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from millstream.jetstream.publish import limits, rules, ttl
from millstream.jetstream.publish.candidate import MARK_SOURCE, Incoming
from millstream.jetstream.sourcing.counters import count_sourced
from millstream.jsapi import headers as names
from millstream.jsapi.errors import ApiError
from millstream.protocol import headers

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_OURS: Final = b"\r\nNats-"
_MSG_ID: Final = names.MSG_ID.encode()
_ROLLUP: Final = names.ROLLUP.encode()
_SOURCE: Final = names.STREAM_SOURCE.encode() + b":"
_FOR_THE_ORIGIN: Final = (names.EXPECTED_PREFIX.encode(), names.BATCH_PREFIX.encode())
_REQUEST_INFO: Final = names.REQUEST_INFO.encode() + b":"


def store_mirrored(
    stream: Stream, subject: bytes, block: bytes, payload: bytes, seq: int, timestamp: int
) -> bool:
    """Store a message with the sequence and time of its origin; return False if it is refused."""
    message = Incoming(subject, b"", _without(block, *_FOR_THE_ORIGIN), payload)
    log = stream.log
    try:
        rules.book.check_entry(stream, message)
        _prepare(stream, message)
    except ApiError as error:
        _tell(stream, seq, error)
        return False
    if seq > log.last_seq + 1:
        log.skip_to(seq - 1, timestamp)
    stream.publishing.store(message, timestamp)
    return True


def store_sourced(stream: Stream, subject: bytes, block: bytes, payload: bytes, line: bytes) -> bool:
    """Store a message with a header that names its origin; return False if it is refused.

    A duplicate, by its id, counts as stored.
    """
    block = _without(block, _SOURCE, *_FOR_THE_ORIGIN)
    block = (block[:-2] or headers.START) + line + b"\r\n"
    message = Incoming(subject, b"", block, payload, marks=MARK_SOURCE)
    try:
        rules.book.check_entry(stream, message)
        message.message_id = headers.find(block, _MSG_ID) or b""
        if (
            message.message_id
            and stream.dedupe.window_ns
            and stream.dedupe.find(message.message_id, stream.world.now_ns())
        ):
            return True
        _prepare(stream, message)
    except ApiError as error:
        _tell(stream, 0, error)
        return False
    stream.publishing.store(message)
    return True


def _without(block: bytes, *prefixes: bytes) -> bytes:
    if _OURS not in block:
        return block
    return headers.remove(block, _REQUEST_INFO, *prefixes)


def _prepare(stream: Stream, message: Incoming) -> None:
    """Read the headers and check the limits; raise ApiError if the message cannot be stored now."""
    config = stream.config
    if message.block:
        message.message_id = message.message_id or headers.find(message.block, _MSG_ID) or b""
        message.rollup = _rollup_of(stream, message.block)
    if config.allow_msg_counter:
        message.sum = count_sourced(stream, message)
    limits.book.check_size(stream, message)
    if not stream.has_interest(message.subject):
        return
    size = stream.size_of(message.subject, message.block, message.payload)
    limits.book.check_room(stream, message, size)
    if config.allow_msg_ttl:
        ttl.take_ttl(stream, message)
    limits.book.check_count(stream, message, size)


def _rollup_of(stream: Stream, block: bytes) -> bytes:
    value = (headers.find(block, _ROLLUP) or b"").lower()
    allowed = stream.config.allow_rollup_hdrs and not stream.config.deny_purge
    return value if allowed and value in (b"sub", b"all") else b""


def _tell(stream: Stream, seq: int, error: ApiError) -> None:
    where = f"message {seq} of its origin" if seq else "a message of a source"
    _log.warning("stream %s: %s is not stored: %s", stream.name, where, error)
