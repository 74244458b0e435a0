"""Schedules: messages that define when another message is stored, and where.

    Nats-Schedule: @every 1h            a message with this header is a schedule; one per subject
    Nats-Schedule-Target: reports.now   the subject of the message that is stored when it is due

The stored message has the headers and body of the schedule (or of the last message of
`Nats-Schedule-Source`).  Its headers `Nats-Scheduler` and `Nats-Schedule-Next` name the schedule and its next
due time, which a restart reads.  A schedule that is over is removed when its message is stored; a client ends
one with a message that has the same two headers.

Due times are in a heap; a schedule that is no longer the last message of its subject is skipped when due.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.base import guard, slices
from millstream.base.slices import Pieces
from millstream.golang.time import ZERO_TIME, TimeError, format_time, parse_time
from millstream.jetstream.publish import ttl
from millstream.jetstream.publish.candidate import MARK_SCHEDULE, Incoming
from millstream.jetstream.publish.cron import Due, ScheduleError, next_due, zone_of
from millstream.jsapi import headers as names
from millstream.jsapi.errors import ApiError, Err
from millstream.protocol import headers
from millstream.store.errors import StoreError
from millstream.store.record import Record
from millstream.subjects.match import collide
from millstream.subjects.tokens import valid_publish_subject

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_NS: Final = 1_000_000_000
_SHORTEST_TIMER_S: Final = 0.25
_LONGEST_TIMER_S: Final = 60.0  # the clock may be set forward meanwhile
_TAKEN_AT_ONCE: Final = 256
_FIRED_AT_ONCE: Final = 4
_COST: Final = 16  # items of a slice that a schedule counts for
_STALE: Final = 64  # entries of the heap that may be there for no reason
_PREFIX: Final = names.SCHEDULE_PREFIX.encode()
_SCHEDULE: Final = names.SCHEDULE.encode()
_ZONE: Final = names.SCHEDULE_TIME_ZONE.encode()
_TARGET: Final = names.SCHEDULE_TARGET.encode()
_SOURCE: Final = names.SCHEDULE_SOURCE.encode()
_TTL: Final = names.SCHEDULE_TTL.encode()
_ROLLUP: Final = names.SCHEDULE_ROLLUP.encode()
_SCHEDULER: Final = names.SCHEDULER.encode()
_NEXT: Final = names.SCHEDULE_NEXT.encode()
_PURGE: Final = names.SCHEDULE_NEXT_PURGE.encode()
_SUBJECT: Final = names.ROLLUP_SUBJECT.encode()
_DROPPED: Final = (  # headers of a schedule that its messages do not get
    _PREFIX,
    names.EXPECTED_PREFIX.encode(),
    names.MSG_ID.encode() + b":",
    names.TTL.encode() + b":",
    names.ROLLUP.encode() + b":",
)


class Schedule(NamedTuple):
    """A schedule and its next due time."""

    seq: int
    due_ns: int


def due_of(block: bytes, after_ns: int, now_ns: int) -> Due | None:
    """Return when the schedule with these headers fires, or None if there is no schedule; raise ApiError."""
    name = headers.find(block, _ZONE)
    zone = zone_of(name.decode(errors="replace")) if name else None
    if name is not None and zone is None:
        raise ApiError(Err.MESSAGE_SCHEDULES_TIME_ZONE_INVALID)
    pattern = headers.find(block, _SCHEDULE)
    if not pattern:
        return None
    try:
        due = next_due(pattern.decode(errors="replace"), zone, after_ns, now_ns)
    except ScheduleError:
        raise ApiError(Err.MESSAGE_SCHEDULES_PATTERN_INVALID) from None
    return None if due.time == ZERO_TIME else due


def take_schedule(stream: Stream, message: Incoming, staged: Mapping[bytes, bool] | None = None) -> None:
    """Check a client's schedule headers, and set the due time if the message is a schedule.

    `staged` maps the subjects of messages stored before this one to whether they are schedules.
    """
    block = message.block
    if _PREFIX not in block:
        return
    now = stream.world.now_ns()
    try:
        due = due_of(block, now, now)
    except ApiError:
        if not stream.config.allow_msg_schedules:
            raise ApiError(Err.MESSAGE_SCHEDULES_DISABLED) from None
        raise
    if due is not None:
        _check_schedule(stream, message)
        message.due_ns = int(due.time)
        message.marks |= MARK_SCHEDULE
    following, scheduler = headers.find(block, _NEXT), headers.find(block, _SCHEDULER)
    if following:
        if following != _PURGE or not scheduler or scheduler == message.subject:
            raise ApiError(Err.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
        if not valid_publish_subject(scheduler):
            raise ApiError(Err.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
        if not stream.config.allow_msg_schedules:
            raise ApiError(Err.MESSAGE_SCHEDULES_DISABLED)
        is_schedule = staged.get(scheduler) if staged is not None else None
        if is_schedule is None:
            is_schedule = stream.schedules.may_be_ended(scheduler)
        if not is_schedule:
            raise ApiError(Err.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
        message.marks |= MARK_SCHEDULE
    elif scheduler:
        raise ApiError(Err.MESSAGE_SCHEDULES_SCHEDULER_INVALID)


def _check_schedule(stream: Stream, message: Incoming) -> None:
    config, block = stream.config, message.block
    if not config.allow_msg_schedules:
        raise ApiError(Err.MESSAGE_SCHEDULES_DISABLED)
    lifetime = headers.find(block, _TTL)
    if lifetime:
        try:
            ttl.parse_ttl(lifetime.decode(errors="replace"))
        except ApiError:
            raise ApiError(Err.MESSAGE_SCHEDULES_TTL_INVALID) from None
    if headers.find(block, _ROLLUP) not in (None, b"", _SUBJECT):
        raise ApiError(Err.MESSAGE_SCHEDULES_ROLLUP_INVALID)
    if lifetime and not config.allow_msg_ttl:
        raise ApiError(Err.MESSAGE_TTL_DISABLED)
    target, source = headers.find(block, _TARGET) or b"", headers.find(block, _SOURCE) or b""
    if not valid_publish_subject(target) or target == message.subject:
        raise ApiError(Err.MESSAGE_SCHEDULES_TARGET_INVALID)
    if source and (source in (target, message.subject) or not valid_publish_subject(source)):
        raise ApiError(Err.MESSAGE_SCHEDULES_SOURCE_INVALID)
    if not _is_ours(stream, target):
        raise ApiError(Err.MESSAGE_SCHEDULES_TARGET_INVALID)
    if source and not _is_ours(stream, source):
        raise ApiError(Err.MESSAGE_SCHEDULES_SOURCE_INVALID)
    rollup = headers.find(block, names.ROLLUP.encode())
    if not rollup:
        message.block = headers.put(block, names.ROLLUP.encode(), _SUBJECT)
    elif rollup.lower() != _SUBJECT:
        raise ApiError(Err.MESSAGE_SCHEDULES_ROLLUP_INVALID)


def _is_ours(stream: Stream, subject: bytes) -> bool:
    return any(collide(own.encode(), subject) for own in stream.config.subjects)


class Schedules:
    """The schedules of one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._waiting: dict[bytes, Schedule] = {}
        self._order: list[tuple[int, int, bytes]] = []  # a heap of (due, sequence, subject)
        self._timer: Cancel | None = None
        self._timer_ns = 0
        self._running = False
        self._firing = False  # what is due is stored in slices
        self._not_yet: list[tuple[int, int, bytes]] = []  # due, but not committed itself
        self._record = Record()

    def start(self) -> None:
        self._running = True
        self._plan()

    def stop(self) -> None:
        self._running = False
        self._forget_timer()

    def may_be_ended(self, subject: bytes) -> bool:
        """Return True if a client may end the schedule of a subject: it has one, or no message at all."""
        last = self._stream.log.last_of(subject)
        waiting = self._waiting.get(subject)
        return not last or (waiting is not None and waiting.seq == last)

    # -- coming and going -------------------------------------------------------------------------

    def stored(self, message: Incoming, seq: int) -> None:
        """Update the schedules after a message with schedule headers was stored."""
        if message.due_ns is not None:
            self._wait(message.subject, seq, message.due_ns)
        if headers.find(message.block, _NEXT) == _PURGE:
            self._end(headers.find(message.block, _SCHEDULER) or b"", seq)

    def restore(self, record: Record, block: bytes) -> bool:
        """Update the schedules from a message found at a restart; return True if it has schedule headers."""
        following, scheduler = headers.find(block, _NEXT), headers.find(block, _SCHEDULER)
        if following and scheduler:
            if following == _PURGE:
                self._end(scheduler, record.seq)  # again, because the removal may not have been written
            elif scheduler in self._waiting:
                try:
                    due_ns = int(parse_time(following.decode(errors="replace")))
                except TimeError:
                    return True
                self._wait(scheduler, self._waiting[scheduler].seq, due_ns)
            return True
        try:
            due = due_of(block, record.timestamp, self._stream.world.now_ns())
        except ApiError:
            return False
        if due is not None:
            self._wait(record.subject(), record.seq, int(due.time))
        return due is not None

    def _wait(self, subject: bytes, seq: int, due_ns: int) -> None:
        self._waiting[subject] = Schedule(seq, due_ns)
        heapq.heappush(self._order, (due_ns, seq, subject))
        if len(self._order) > 2 * len(self._waiting) + _STALE:
            self._order = sorted((each.due_ns, each.seq, name) for name, each in self._waiting.items())
        if self._running and (self._timer is None or due_ns < self._timer_ns):
            self._plan()

    def _end(self, subject: bytes, before: int) -> None:
        self._waiting.pop(subject, None)
        if subject:
            self._stream.log.remove_matching(subject, before)

    # -- firing -----------------------------------------------------------------------------------

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self) -> None:
        self._forget_timer()
        if self._order and self._running:
            self._timer_ns = self._order[0][0]
            delay_s = (self._timer_ns - self._stream.world.now_ns()) / _NS
            delay_s = min(max(delay_s, _SHORTEST_TIMER_S), _LONGEST_TIMER_S)
            self._timer = self._stream.world.call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if not self._firing:
            self._firing = True
            slices.begin(self._stream.world, "schedules", self._fire_due())

    def _fire_due(self) -> Pieces[None]:
        """Store the messages of all schedules that are due, then wait for the next one."""
        now = self._stream.world.now_ns()
        try:
            while self._running and (due := self._take_due(now)):
                for number, (_, subject) in enumerate(due, 1):
                    schedule = self._waiting.get(subject)
                    if schedule is not None and not guard.alone(
                        "a schedule", self._fire_one, subject, schedule
                    ):
                        self._waiting.pop(subject, None)  # it would fail again, and keep the others waiting
                    if number % _FIRED_AT_ONCE == 0:
                        yield _FIRED_AT_ONCE * _COST
                yield len(due)
        finally:
            self._firing = False
            for each in self._not_yet:
                heapq.heappush(self._order, each)
            self._not_yet = []
        self._plan()

    def _take_due(self, now: int) -> list[tuple[int, bytes]]:
        """Return sequences and subjects of schedules that are due, in order; only some if there are many."""
        due: set[tuple[int, bytes]] = set()
        while len(due) < _TAKEN_AT_ONCE and self._order and self._order[0][0] <= now:
            due_ns, seq, subject = heapq.heappop(self._order)
            if self._waiting.get(subject) == Schedule(seq, due_ns):
                due.add((seq, subject))
        return sorted(due)

    def _fire_one(self, subject: bytes, schedule: Schedule) -> None:
        stream = self._stream
        log = stream.log
        if log.last_of(subject) != schedule.seq:
            del self._waiting[subject]  # removed, or replaced by another message
        elif schedule.seq > log.committed or stream.failure is not None:
            self._not_yet.append((schedule.due_ns, schedule.seq, subject))
        elif self._read(subject, schedule):
            block, payload = self._record.headers(), self._record.payload()
            try:
                due = due_of(block, schedule.due_ns, stream.world.now_ns())
                if due is None:
                    raise ApiError(Err.MESSAGE_SCHEDULES_PATTERN_INVALID)
                if due.repeats:
                    self._wait(subject, schedule.seq, int(due.time))
                self._store(subject, block, payload, due)
            except ApiError as error:
                _log.warning("stream %s: schedule %r: %s", stream.name, subject, error)
                if self._waiting.get(subject) == schedule:
                    del self._waiting[subject]

    def _read(self, subject: bytes, schedule: Schedule) -> bool:
        """Read the message of a schedule; return False if it is gone, or cannot be read yet."""
        try:
            return self._stream.log.get(schedule.seq, self._record)
        except StoreError as error:
            _log.error("stream %s: schedule %r waits: %s", self._stream.name, subject, error)
            self._not_yet.append((schedule.due_ns, schedule.seq, subject))
            return False

    def _store(self, subject: bytes, block: bytes, payload: bytes, due: Due) -> None:
        """Store the message of a schedule; raise ApiError if there is no room for it."""
        stream = self._stream
        target, source = headers.find(block, _TARGET) or b"", headers.find(block, _SOURCE)
        lifetime, rollup = headers.find(block, _TTL), headers.find(block, _ROLLUP)
        if source:
            last = stream.log.last_match(stream.log.committed, source)
            if last and stream.log.get(last, self._record):
                block, payload = self._record.headers(), self._record.payload()
        block = headers.remove(block, *_DROPPED) if block else b""
        following = format_time(due.time).encode() if due.repeats else _PURGE
        block = headers.claim(block, (_SCHEDULER, subject), (_NEXT, following))
        message = Incoming(target, b"", block, payload, marks=MARK_SCHEDULE)
        if lifetime:
            message.block = headers.put(message.block, names.TTL.encode(), lifetime)
            ttl.take_ttl(stream, message)
        if rollup:
            message.block = headers.put(message.block, names.ROLLUP.encode(), rollup)
            message.rollup = rollup
        stream.account.usage.check_room(stream, stream.size_of(target, message.block, payload))
        stream.publishing.store(message)
