"""Look up messages so that they can be read as soon as they are durable.

A message counts as stored, and what it replaces as removed, when it is appended; it can be read only when its
commit has ended.  A reader that looks for the last message of a subject in between must get neither nothing
nor a missing old one: it looks up what is stored, and reads it when that is durable (``when_durable``), even
if the next message has replaced it by then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from millstream.store.errors import StoreError
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.stream.stream import Stream
    from millstream.jsapi.responses import Response
    from millstream.store.log import Log

_log = logging.getLogger("millstream.jetstream")

_EVERYTHING = (b"", b">")


class Later(msgspec.Struct):
    """A response that can be given after the next commit of a stream, or other work."""

    stream: PendingCommit
    finish: Callable[[], Response]


class PendingCommit(Protocol):
    """A stream or journal whose changes become durable with its next commit."""

    def on_outcome(self, callback: Callable[[StoreError | None], None]) -> None: ...


class Durable(msgspec.Struct):
    """A response to send when a change is durable, optionally with headers.

    Before it is sent, `then` is called, or `undo` if the change could not be made durable.
    """

    commits: PendingCommit
    response: Response
    headers: bytes | None = None
    then: Callable[[], None] | None = None
    undo: Callable[[], None] | None = None


def next_of(log: Log, seq: int, pattern: bytes) -> int:
    """Return the first sequence not below `seq` whose subject matches `pattern`; 0 if there is none."""
    return log.next_seq(seq) if pattern in _EVERYTHING else log.next_match(seq, pattern)


def first_at_or_after(log: Log, timestamp: int) -> int:
    """Return the first sequence stored at or after `timestamp`; the next new one if there is none."""
    if timestamp > log.last_timestamp:
        return log.last_seq + 1
    return log.seq_at_time(max(timestamp, 0)) or log.last_seq + 1


def when_durable(stream: Stream, seq: int, callback: Callable[[], None]) -> None:
    """Call back when everything up to `seq` can be read: now, or after a commit.

    Also calls back if the commit fails: everything durable before can still be read.
    """
    if seq <= stream.log.committed:
        callback()
    else:
        stream.on_outcome(lambda _: callback())


def is_refused(stream: Stream, seq: int) -> bool:
    """Return True if a message that was waited for is not durable, because the disk refuses it.

    What it replaces is as good as removed, so nobody can say that there is nothing.
    """
    return seq > stream.log.committed and stream.failure is not None


def read(log: Log, seq: int, record: Record) -> bool:
    """Point `record` at a durable message that existed a moment ago; return False if it is unreadable."""
    try:
        return _read(log, seq, record)
    except StoreError as error:  # the disk; the message may be readable another time
        _log.error("%s", error)
        return False


def _read(log: Log, seq: int, record: Record) -> bool:
    return log.get(seq, record) or log.peek_removed(seq, record)
