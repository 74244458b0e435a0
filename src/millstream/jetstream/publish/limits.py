"""The limits of a stream: one tuple that every path to a stored message walks.

Each limit says when it applies, so that messages leave the fast path (``ingest``); what it refuses; and, for
limits that make room by removing old messages, when there is too much.  ``retention`` removes it.

The order is nats-server's, because a publisher is told of the first limit that its message exceeds.
Batches have an order of their own there: ``batch_place``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from millstream.jsapi.enums import DiscardPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import MAX_HEADER_BYTES

if TYPE_CHECKING:
    from millstream.jetstream.publish.candidate import Incoming
    from millstream.jetstream.publish.rules import Ahead
    from millstream.jetstream.stream.stream import Stream
    from millstream.jsapi.stream_types import StreamConfig

Check = Callable[["Stream", "Incoming", int, "Ahead | None"], None]


class LimitStage(Enum):
    """Stages of storing a message at which limits are checked."""

    SIZE = 1  # before the headers are read
    ROOM = 2  # of the server and the account
    COUNT = 3  # of the stream


def _never(_: Stream) -> bool:
    return False


class Limit(msgspec.Struct, frozen=True):
    """One limit.

    `check` raises ApiError.  It gets the bytes that the message takes, or, for a message of a batch, those
    of the batch so far, which `ahead` counts together with the message.
    """

    name: str
    stage: LimitStage
    check: Check
    applies: Callable[[Stream], bool] = _never  # every message of such a stream needs a look
    batch_place: int = 0  # place among the limits for messages of batches
    in_ingest: bool = False  # the fast path of single messages (``ingest``) checks it, too
    is_set: Callable[[StreamConfig], bool] | None = None  # only for limits of the whole stream
    exceeded: Callable[[Stream], bool] | None = None  # likewise: old messages have to go


# -- size ---------------------------------------------------------------------------------------------


def _check_message_size(stream: Stream, message: Incoming, _size: int, _: Ahead | None) -> None:
    if 0 < stream.config.max_msg_size < len(message.block) + len(message.payload):
        raise ApiError(Err.MESSAGE_EXCEEDS_MAXIMUM)


def _check_header_size(_stream: Stream, message: Incoming, _size: int, _: Ahead | None) -> None:
    if len(message.block) > MAX_HEADER_BYTES:
        raise ApiError(Err.HEADER_EXCEEDS_MAXIMUM)


# -- room ---------------------------------------------------------------------------------------------


def _check_room(stream: Stream, _message: Incoming, size: int, _: Ahead | None) -> None:
    stream.account.usage.check_room(stream, size)


def _room_is_limited(stream: Stream) -> bool:
    account, storage = stream.account, stream.config.storage
    return account.usage.limit(storage) >= 0 or account.resources.exhausted(storage)


# -- count --------------------------------------------------------------------------------------------


def _check_per_subject(stream: Stream, message: Incoming, _size: int, ahead: Ahead | None) -> None:
    if not _per_subject_refuses(stream) or message.rollup:
        return
    more = ahead.written[message.subject] if ahead is not None else 1
    if stream.log.count_of(message.subject) + more > stream.config.max_msgs_per_subject:
        raise ApiError(Err.STREAM_STORE_FAILED, err="maximum messages per subject exceeded")


def _per_subject_refuses(stream: Stream) -> bool:
    config = stream.config
    return _discards_new(stream) and config.discard_new_per_subject and config.max_msgs_per_subject > 0


def _check_messages(stream: Stream, message: Incoming, _size: int, ahead: Ahead | None) -> None:
    limit, more = stream.config.max_msgs, ahead.messages if ahead is not None else 1
    if not (_discards_new(stream) and 0 < limit < stream.log.messages + more):
        return
    if not _replaced(stream, message, ahead):
        raise ApiError(Err.STREAM_STORE_FAILED, err="maximum messages exceeded")


def _check_bytes(stream: Stream, message: Incoming, size: int, ahead: Ahead | None) -> None:
    if not (_discards_new(stream) and 0 < stream.config.max_bytes < stream.bytes() + size):
        return
    replaced = _replaced(stream, message, ahead)
    if not replaced or stream.size_of_stored(replaced) < size:
        raise ApiError(Err.STREAM_STORE_FAILED, err="maximum bytes exceeded")


def _discards_new(stream: Stream) -> bool:
    return stream.config.discard is DiscardPolicy.NEW


def _replaced(stream: Stream, message: Incoming, ahead: Ahead | None) -> int:
    """Return the message that goes when this one comes; 0 if there is none, as always for batches."""
    limit = stream.config.max_msgs_per_subject
    if ahead is not None or limit <= 0:
        return 0
    full = stream.log.count_of(message.subject) >= limit
    return stream.log.first_of(message.subject) if full else 0


def _limits_messages(config: StreamConfig) -> bool:
    return config.max_msgs > 0


def _limits_bytes(config: StreamConfig) -> bool:
    return config.max_bytes > 0


LIMITS: tuple[Limit, ...] = (
    Limit(
        "max_msg_size",
        LimitStage.SIZE,
        _check_message_size,
        lambda stream: stream.config.max_msg_size > 0,
        in_ingest=True,
    ),
    Limit("headers", LimitStage.SIZE, _check_header_size),  # the fast path leaves larger ones alone
    Limit("room", LimitStage.ROOM, _check_room, _room_is_limited),
    Limit(
        "max_msgs_per_subject",
        LimitStage.COUNT,
        _check_per_subject,
        _per_subject_refuses,
        batch_place=3,
        in_ingest=True,
    ),
    Limit(
        "max_msgs",
        LimitStage.COUNT,
        _check_messages,
        lambda stream: _discards_new(stream) and _limits_messages(stream.config),
        batch_place=1,
        in_ingest=True,
        is_set=_limits_messages,
        exceeded=lambda stream: stream.log.messages > stream.config.max_msgs,
    ),
    Limit(
        "max_bytes",
        LimitStage.COUNT,
        _check_bytes,
        lambda stream: _discards_new(stream) and _limits_bytes(stream.config),
        batch_place=2,
        in_ingest=True,
        is_set=_limits_bytes,
        exceeded=lambda stream: stream.bytes() > stream.config.max_bytes,
    ),
)


class LimitBook:
    """Limits, arranged for the paths that walk them."""

    def __init__(self, limits: tuple[Limit, ...]) -> None:
        self._conditional = tuple(limit for limit in limits if limit.applies is not _never)
        self._whole = tuple(limit for limit in limits if limit.is_set is not None)
        self._size, self._room, self._count = (
            tuple(limit.check for limit in limits if limit.stage is stage) for stage in LimitStage
        )
        in_order = sorted(limits, key=lambda limit: limit.batch_place)
        self._batched = tuple(limit.check for limit in in_order if limit.stage is LimitStage.COUNT)

    def applying(self, stream: Stream) -> list[Limit]:
        """Return the limits that need a look at every message of the stream."""
        return [limit for limit in self._conditional if limit.applies(stream)]

    def check_size(self, stream: Stream, message: Incoming) -> None:
        """Raise ApiError if the message is too large for the stream."""
        for check in self._size:
            check(stream, message, 0, None)

    def check_room(self, stream: Stream, message: Incoming, size: int) -> None:
        """Raise ApiError if the server or the account has no room for `size` bytes."""
        for check in self._room:
            check(stream, message, size, None)

    def check_count(self, stream: Stream, message: Incoming, size: int, ahead: Ahead | None = None) -> None:
        """Raise ApiError if the stream is full and discards new messages."""
        for check in self._count if ahead is None else self._batched:
            check(stream, message, size, ahead)

    def bounds(self, stream: Stream) -> tuple[int, int, int, bool]:
        """Return how many messages, bytes and messages of a subject the stream takes; 0: it refuses none.

        The last value is True if a message may replace another one instead of being refused.
        """
        config = stream.config
        if config.discard is DiscardPolicy.OLD:
            return 0, 0, 0, False
        of_subject = max(config.max_msgs_per_subject, 0)
        if _per_subject_refuses(stream):
            return max(config.max_msgs, 0), max(config.max_bytes, 0), of_subject, False
        return max(config.max_msgs, 0), max(config.max_bytes, 0), 0, of_subject > 0

    def whole(self, config: StreamConfig) -> tuple[Callable[[Stream], bool], ...]:
        """Return the limits of the whole stream that are set, each as a test whether there is too much."""
        return tuple(
            limit.exceeded
            for limit in self._whole
            if limit.is_set is not None and limit.exceeded is not None and limit.is_set(config)
        )


book = LimitBook(LIMITS)
