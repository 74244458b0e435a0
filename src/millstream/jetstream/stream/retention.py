"""Enforce the limits of a stream by number, size, age and subject; and purge.

Limits are enforced as messages are stored, age by a timer that fires when the oldest message is due.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from millstream.base import guard, slices
from millstream.base.build import pure_requested
from millstream.base.slices import Pieces, finish
from millstream.jetstream.publish import limits
from millstream.jetstream.publish.ttl import NEVER, ttl_of
from millstream.jsapi.enums import DiscardPolicy
from millstream.jsapi.errors import ApiError
from millstream.store import purge
from millstream.store.errors import StoreError
from millstream.store.record import Record

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel
    from millstream.jetstream.stream.stream import Stream
    from millstream.jsapi.stream_types import StreamConfig

_log = logging.getLogger("millstream.jetstream")

_NS: Final = 1_000_000_000
_SHORTEST_TIMER_S: Final = 0.05
_LONGEST_TIMER_S: Final = 60.0  # the clock may be set forward meanwhile
_READ_AGAIN_S: Final = 5.0  # after an error of the disk
_ROOM_AT_ONCE: Final = 256  # messages that one that is stored displaces at once; the rest goes in slices
_ROOM_WHILE_ENFORCING: Final = 2  # since the slices remove the rest
_PIECE: Final = 2 if pure_requested() else 16  # messages that are removed or replaced one by one
_READ_COST: Final = 4  # times what it costs to remove a message: to find out how old it is


class Retention:
    """The limits of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._whole: tuple[Callable[[Stream], bool], ...] = ()  # limits for all messages together
        self._timer: Cancel | None = None
        self._aged = 0  # what is there below is to be kept for ever
        self._expiring = False  # old messages are removed in slices
        self._record = Record()
        self._troubled = False  # it was told that the disk cannot be read
        self._enforcing = False  # limits are enforced in slices
        self._stopped = False
        self._waiting: list[Callable[[StoreError | None], None]] = []  # for that to end

    def configure(self) -> None:
        """Apply the limits of the stream's configuration."""
        self._whole = limits.book.whole(self._stream.config)

    @property
    def limited(self) -> bool:
        """Return True if storing a message may remove another."""
        return self.whole_limited or self._stream.config.max_msgs_per_subject > 0

    @property
    def whole_limited(self) -> bool:
        """Return True if a limit for all messages together may remove some."""
        return bool(self._whole) and self._stream.config.discard is DiscardPolicy.OLD

    # -- after storing ----------------------------------------------------------------------------

    def stored(self, subject: bytes) -> None:
        """Remove messages beyond the limits after one was stored.

        If that needs an unreadable part of the log, it is left to the next message: this one is stored, and
        its publisher gets its ack.
        """
        try:
            self._make_room(subject)
            self._troubled = False
        except StoreError as error:
            self._tell_trouble(error)

    def _tell_trouble(self, error: StoreError) -> None:
        """Say once that a part of the log cannot be read, until a limit is enforced again."""
        if not self._troubled:
            _log.error("stream %s: a limit could not be enforced: %s", self._stream.name, error)
        self._troubled = True

    def _make_room(self, subject: bytes) -> None:
        log, left = self._stream.log, _ROOM_WHILE_ENFORCING if self._enforcing else _ROOM_AT_ONCE
        while self._has_excess(subject) and left:
            log.remove(log.first_of(subject))
            left -= 1
        while self._excess() and left:
            log.remove(log.first_seq)
            left -= 1
        if not left:
            self.enforce_soon()

    def _has_excess(self, subject: bytes) -> bool:
        """Return True if a subject has more messages than allowed."""
        limit = self._stream.config.max_msgs_per_subject
        return limit > 0 and self._stream.log.count_of(subject) > limit

    def _excess(self) -> bool:
        """Return True if a limit of the whole stream is exceeded."""
        stream = self._stream
        if stream.config.discard is not DiscardPolicy.OLD or not stream.log.messages:
            return False  # what is there stays, and nothing comes
        for exceeded in self._whole:  # noqa: SIM110 - asked for each message
            if exceeded(stream):
                return True
        return False

    def enforce_soon(self) -> None:
        """Enforce all limits, the first slice now and the others in turn, unless that is in progress."""
        if self._enforcing:
            return
        self._enforcing = True
        slices.begin(self._stream.world, "limits of a stream", self._enforce_alone())

    def _enforce_alone(self) -> Pieces[None]:
        try:
            yield from self.enforce()
        except StoreError as error:
            _log.error("stream %s: a limit could not be enforced: %s", self._stream.name, error)
        finally:
            self._enforcing = False
            waiting, self._waiting = self._waiting, []
            for callback in waiting:
                guard.alone("telling that limits are enforced", callback, None)

    def on_outcome(self, callback: Callable[[StoreError | None], None]) -> None:
        """Call back when limits are enforced; see ``reading.Commits``."""
        if self._enforcing:
            self._waiting.append(callback)
        else:
            callback(None)

    def enforce(self) -> Pieces[None]:
        """Remove messages beyond the current limits, after they changed or at a start."""
        config = None
        while config is not self._stream.config and not self._stopped:  # it may change again meanwhile
            config = self._stream.config
            yield from self._enforce_while(config)

    def _enforce_while(self, config: StreamConfig) -> Pieces[None]:
        """Remove messages beyond the limits, as long as this is the stream's configuration."""
        stream = self._stream
        before = stream.log.messages
        for items in itertools.chain(self._enforce_per_subject(), self._enforce_in_all()):
            if stream.log.messages != before:
                stream.account.committer.dirty(stream)
            yield items
            if self._stopped or stream.config is not config:
                return
            before = stream.log.messages

    def _enforce_per_subject(self) -> Iterator[int]:
        if self._stream.config.max_msgs_per_subject > 0:
            yield from purge.excess(self._stream.log, self._stream.config.max_msgs_per_subject)

    def _enforce_in_all(self) -> Iterator[int]:
        stream = self._stream
        log = stream.log
        while self._excess():
            config = stream.config
            spare = stream.bytes() - config.max_bytes if config.max_bytes > 0 else 0
            if 0 < config.max_msgs < log.messages:
                yield from purge.oldest(log, log.messages - config.max_msgs)
            elif not (yield from purge.oldest_file(log, spare)):
                for _ in range(_PIECE):
                    if self._excess():
                        log.remove(log.first_seq)
                yield _PIECE

    # -- age --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the age limit, possibly with another age than before."""
        self.stop()
        self._stopped = False
        self._aged = 0
        self._expire()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def committed(self) -> None:
        """Start the timer if there may be a first message with an age limit."""
        if self._stream.config.max_age and self._timer is None and not (self._expiring or self._stopped):
            self._plan()

    def _plan(self) -> None:
        stream = self._stream
        seq = self._next_to_age()
        if not stream.config.max_age or not seq:
            return
        try:
            is_there = stream.log.get(seq, self._record)
        except StoreError as error:
            self._tell_trouble(error)
            self._expire_after(_READ_AGAIN_S)
            return
        if is_there:
            due_ns = self._record.timestamp + stream.config.max_age - stream.world.now_ns()
        else:
            due_ns = stream.config.max_age  # not committed yet, so it is new
        self._expire_after(min(max(due_ns / _NS, _SHORTEST_TIMER_S), _LONGEST_TIMER_S))

    def _expire_after(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._stream.world.call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self._stream.config.max_age and not self._expiring:
            self._expiring = True
            slices.begin(self._stream.world, "old messages", self._expire_alone())

    def _expire_alone(self) -> Pieces[None]:
        """Remove messages that are too old, then set the timer for the next one."""
        try:
            while not self._stopped and (looked_at := self._remove_old()):
                yield looked_at
            self._troubled = False
            if not self._stopped:
                self._plan()
        except StoreError as error:
            self._tell_trouble(error)
            if not self._stopped:
                self._expire_after(_READ_AGAIN_S)
        except Exception as error:
            guard.report("removing old messages", error)
            if not self._stopped:
                self._expire_after(_LONGEST_TIMER_S)
        finally:
            self._expiring = False

    def _remove_old(self) -> int:
        """Remove some messages that are too old; return how many were checked, 0 if there are none."""
        stream = self._stream
        config, log, record = stream.config, stream.log, self._record
        if not config.max_age:
            return 0
        oldest = stream.world.now_ns() - config.max_age
        alike = not (config.allow_msg_ttl or config.subject_delete_marker_ttl)  # all go, without a trace
        most = max(purge.STRETCH // _READ_COST, 1) if alike else _PIECE
        looked_at, end, seq = 0, 0, self._next_to_age()
        while seq and looked_at < most and log.get(seq, record) and record.timestamp <= oldest:
            looked_at += 1
            end = seq + 1
            if alike:
                seq = log.next_seq(end)
                continue
            if not self._lives_forever(record):
                stream.expiry.drop(seq)
            self._aged = end
            seq = self._next_to_age()
        if alike and end:
            log.remove_below(end)
        if end:
            stream.account.committer.dirty(stream)
        return looked_at

    def _next_to_age(self) -> int:
        log = self._stream.log
        if not log.messages:
            return 0
        return log.first_seq if self._aged <= log.first_seq else log.next_seq(self._aged)

    def _lives_forever(self, record: Record) -> bool:
        if not self._stream.config.allow_msg_ttl or not record.header_size:
            return False
        try:
            return ttl_of(record.headers()) == NEVER
        except ApiError:
            return False

    # -- purging ----------------------------------------------------------------------------------

    def purge(self, subject: bytes | None, below: int, keep: int) -> int:
        """Purge at once, see ``Stream.purge``; `below` and `keep` are 0 if not requested."""
        return finish(self.purge_in_steps(subject, below, keep))

    def purge_in_steps(self, subject: bytes | None, below: int, keep: int) -> Pieces[int]:
        """Purge in steps, between which others have their turn; messages added meanwhile are kept."""
        log = self._stream.log
        end = log.last_seq + 1
        if subject is not None:
            return (yield from purge.matching(log, subject, min(below, end) if below else end, keep))
        if keep:
            end = log.seq_behind(max(log.messages - keep, 0))
        elif below:
            end = min(below, end)
        purged = yield from purge.below(log, end)
        if below > log.last_seq + 1:
            log.skip_to(below - 1, log.last_timestamp)
        return purged
