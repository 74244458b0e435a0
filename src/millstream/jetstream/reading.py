"""Looking messages up so that what was found can be read as soon as it is durable.

A message counts as stored, and what it replaces as gone, the moment it is appended; it can be read only
when its commit has ended.  A reader that looks for the last message of a subject in between must get
neither nothing nor the old one's absence: it looks at what is stored, and reads what it found when that is
durable (``when_durable``), even if the next message has replaced it by then.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from millstream.store.errors import StoreError
from millstream.store.record import Record
from millstream.subjects.tokens import is_literal

if TYPE_CHECKING:
    from millstream.jetstream.stream import Stream
    from millstream.jsapi.responses import Response
    from millstream.store.log import Log

_log = logging.getLogger("millstream.jetstream")

_EVERYTHING = (b"", b">")

_FEW_SUBJECTS: Final = 1024


class Later(msgspec.Struct):
    """An answer that can be given after the next commit of a stream, or what else takes its time."""

    stream: Commits
    finish: Callable[[], Response]


class Commits(Protocol):
    """What becomes durable by and by."""

    def after_outcome(self, callback: Callable[[StoreError | None], None]) -> None: ...


class Durable(msgspec.Struct):
    """An answer to give when a change is durable, perhaps under headers.

    Before it is given `then` is done, or `undo` if the change is refused because it can not be kept.
    """

    commits: Commits
    response: Response
    headers: bytes | None = None
    then: Callable[[], None] | None = None
    undo: Callable[[], None] | None = None


def last_of(log: Log, pattern: bytes) -> int:
    """The last sequence whose subject falls under `pattern`; 0 if there is none."""
    if is_literal(pattern):
        return log.last_of(pattern)
    subjects = [subject for subject, _ in itertools.islice(log.index.match(pattern), _FEW_SUBJECTS + 1)]
    if len(subjects) > _FEW_SUBJECTS:  # then one of them is not far from the end
        return log.last_match(log.last_seq, pattern)
    return max((log.last_of(subject) for subject in subjects), default=0)


def last_of_each(log: Log, patterns: Iterable[bytes], up_to: int, most: int) -> list[int] | None:
    """The last sequence, not above `up_to`, of every subject under one of the patterns, in order.

    None if there are more than `most`.
    """
    subjects: dict[bytes, int] = {}
    early = 0  # subjects that have a message up to there, as far as that is known
    for pattern in patterns:
        for subject, node in log.index.match(pattern):
            if subject in subjects:
                continue
            subjects[subject] = node.last
            early += node.first_exact and node.first <= up_to
            if early > most:
                return None
    found = (
        log.last_of(subject) if last <= up_to else log.last_match(up_to, subject)
        for subject, last in subjects.items()
    )
    seqs = sorted(seq for seq in found if seq)
    return seqs if len(seqs) <= most else None


def next_of(log: Log, seq: int, pattern: bytes) -> int:
    """The first sequence not below `seq` whose subject falls under `pattern`; 0 if there is none."""
    return log.next_seq(seq) if pattern in _EVERYTHING else log.next_match(seq, pattern)


def first_at_or_after(log: Log, timestamp: int) -> int:
    """The first sequence stored at or after `timestamp`; the next to be given out if there is none."""
    if timestamp > log.last_timestamp:
        return log.last_seq + 1
    return log.seq_at_time(max(timestamp, 0)) or log.last_seq + 1


def when_durable(stream: Stream, seq: int, callback: Callable[[], None]) -> None:
    """Call back when everything up to `seq` can be read: now, or after a commit.

    If that fails, too: then there is still all that was durable before.
    """
    if seq <= stream.log.committed:
        callback()
    else:
        stream.after_outcome(lambda _: callback())


def read(log: Log, seq: int, record: Record) -> bool:
    """Point `record` at a durable message that was there a moment ago; False if it cannot be read."""
    try:
        return _read(log, seq, record)
    except StoreError as error:  # the disk; the message may be readable another time
        _log.error("%s", error)
        return False


def _read(log: Log, seq: int, record: Record) -> bool:
    return log.get(seq, record) or log.peek_removed(seq, record)
