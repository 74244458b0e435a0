"""The rules that decide whether a stream stores a message, and how: one tuple that every path walks.

Single messages, atomic batches, fast batches, mirrors, sources and traces all go through ``RULES``.  A stream
takes the fast path (``ingest``) if no rule and no limit (``limits``) needs a look at each of its messages, so
a rule that is added here holds everywhere.

The order is nats-server's, because a publisher is told of the first rule that its message breaks.  Batches
have an order of their own there: ``batch_place``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base.decimals import BEYOND, read_whole
from millstream.golang.quote import quoted
from millstream.jetstream.publish import limits, ttl
from millstream.jetstream.publish.counter import Sum, increment_of
from millstream.jetstream.publish.schedule import take_schedule
from millstream.jsapi import headers as names
from millstream.jsapi.enums import RetentionPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.protocol import headers
from millstream.store import lasts

if TYPE_CHECKING:
    from millstream.jetstream.publish.candidate import Incoming
    from millstream.jetstream.stream.stream import Stream

_MSG_ID: Final = names.MSG_ID.encode()
_INCREMENT: Final = names.COUNTER_INCREMENT.encode()
_EXPECTED_STREAM: Final = names.EXPECTED_STREAM.encode()
_EXPECTED_LAST_SEQUENCE: Final = names.EXPECTED_LAST_SEQUENCE.encode()
_EXPECTED_LAST_SUBJECT_SEQUENCE: Final = names.EXPECTED_LAST_SUBJECT_SEQUENCE.encode()
_EXPECTED_SUBJECT: Final = names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT.encode()
_EXPECTED_LAST_MSG_ID: Final = names.EXPECTED_LAST_MSG_ID.encode()
_ROLLUP: Final = names.ROLLUP.encode()
_SCHEDULE: Final = names.SCHEDULE_PREFIX.encode()
_STREAM_SOURCE: Final = names.STREAM_SOURCE.encode()
_TTL: Final = names.TTL.encode()


class Duplicate(Exception):
    """A single message whose id the stream knows: it is answered with the sequence of the first one."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq


class Ahead:
    """The messages of a batch that will be stored before the one that is checked."""

    def __init__(self, *, atomic: bool) -> None:
        self.atomic = atomic
        self.ids: set[bytes] = set()
        self.written: dict[bytes, int] = {}  # messages by subject
        self.schedules: dict[bytes, bool] = {}  # whether the last message of a subject is a schedule
        self.sums: dict[bytes, Sum] = {}  # of counters, by subject
        self.messages = 0
        self.bytes = 0

    def add(self, subject: bytes, size: int, *, is_schedule: bool = False) -> None:
        """Count a message that passed the rules."""
        self.written[subject] = self.written.get(subject, 0) + 1
        self.schedules[subject] = is_schedule
        self.messages += 1
        self.bytes += size


Check = Callable[["Stream", "Incoming", "Ahead | None"], None]


class RuleStage(Enum):
    """Stages of publishing at which rules are checked."""

    ENTRY = 1  # first, for every message, whoever brings it
    HEADERS = 2  # for messages of publishers; an origin has checked those of mirrors and sources
    STORED = 3  # by whoever stores or answers the message: there is nothing to refuse


def _never(_: Stream) -> bool:
    return False


def _pass(_stream: Stream, _message: Incoming, _ahead: Ahead | None) -> None:
    pass


class Rule(msgspec.Struct, frozen=True):
    """One rule: when it applies, and what it refuses or changes."""

    name: str
    stage: RuleStage
    check: Check = _pass  # raises ApiError to refuse the message
    applies: Callable[[Stream], bool] = _never  # every message of such a stream needs a look
    header: bytes = b""  # only messages that have this text among their headers need a look
    batch_place: int = 0  # place among the rules for messages of batches
    in_ingest: bool = False  # the fast path of single messages (``ingest``) checks it, too


# -- every message ------------------------------------------------------------------------------------


def _transform(stream: Stream, message: Incoming, _: Ahead | None) -> None:
    if stream.transform is not None:
        message.subject = stream.transform.apply(message.subject) or message.subject


def _refuse_sealed(stream: Stream, _message: Incoming, _: Ahead | None) -> None:
    if stream.config.sealed:
        raise ApiError(Err.STREAM_SEALED)


def _refuse_read_only(stream: Stream, _message: Incoming, _: Ahead | None) -> None:
    if stream.failure is not None:
        raise ApiError(Err.STREAM_STORE_FAILED, err=str(stream.failure))


# -- headers ------------------------------------------------------------------------------------------


def _take_increment(stream: Stream, message: Incoming, _: Ahead | None) -> None:
    message.increment = increment_of(stream, message)


def _expect_stream(stream: Stream, message: Incoming, _: Ahead | None) -> None:
    expected = headers.find(message.block, _EXPECTED_STREAM)
    if expected and expected != stream.name.encode():
        raise ApiError(Err.EXPECTED_STREAM_MISMATCH)


def _allow_ttl(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    """Refuse a TTL that the stream does not allow; single messages with an invalid one are refused later."""
    ttl.refuse_if_disabled(stream, message.block, unreadable=ahead is not None)
    if ahead is not None:
        ttl.take_ttl(stream, message)


def _expect_last_of_subject(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    expected = headers.find(message.block, _EXPECTED_LAST_SUBJECT_SEQUENCE)
    other = headers.find(message.block, _EXPECTED_SUBJECT)
    if not expected:
        if other:
            raise ApiError(Err.EXPECTED_LAST_SUBJECT_SEQUENCE_MISSING)
        return
    subject = other or message.subject
    if ahead is not None and subject in ahead.written:
        raise ApiError(Err.WRONG_LAST_SEQUENCE_UNKNOWN)
    last = lasts.last_of(stream.log, subject)
    if _number(expected) != last:
        raise ApiError(Err.WRONG_LAST_SEQUENCE, seq=last, of_subject=_text(expected))


def _expect_last(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    expected = headers.find(message.block, _EXPECTED_LAST_SEQUENCE)
    if not expected:
        return
    before = ahead.messages if ahead is not None else 0
    last = stream.log.last_seq + before
    if _number(expected) != last:
        raise ApiError(Err.WRONG_LAST_SEQUENCE, seq=last, of_stream=_text(expected))
    if before:
        raise ApiError(Err.WRONG_LAST_SEQUENCE_UNKNOWN)


def _take_schedule(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    take_schedule(stream, message, ahead.schedules if ahead is not None else None)


def _refuse_source(_stream: Stream, message: Incoming, _: Ahead | None) -> None:
    if headers.find(message.block, _STREAM_SOURCE):
        raise ApiError(Err.MESSAGE_SOURCE_HEADER_NOT_ALLOWED)


def _refuse_duplicate(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    message_id = message.message_id = headers.find(message.block, _MSG_ID) or b""
    if not message_id:
        return
    known = stream.dedupe.find(message_id, stream.world.now_ns()) if stream.dedupe.window_ns else 0
    if ahead is None:
        if known:
            raise Duplicate(known)
        return
    if known or message_id in ahead.ids:
        raise ApiError(Err.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE)
    ahead.ids.add(message_id)


def expect_last_id(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    """Refuse a message if the last one of the stream should have another id."""
    expected = headers.find(message.block, _EXPECTED_LAST_MSG_ID)
    if not expected:
        return
    if ahead is not None and ahead.atomic:
        raise ApiError(Err.ATOMIC_PUBLISH_UNSUPPORTED_HEADER, header=names.EXPECTED_LAST_MSG_ID)
    last = stream.dedupe.id_of(stream.log.last_seq)
    if expected != last:
        raise ApiError(Err.WRONG_LAST_MSG_ID, id=_text(last), expected=_text(expected))


def _expect_last_id(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    if ahead is None or ahead.atomic:  # a fast batch checks it itself, since it answers otherwise
        expect_last_id(stream, message, ahead)


def _take_rollup(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    value = (headers.find(message.block, _ROLLUP) or b"").lower()
    if not value:
        return
    if not stream.config.allow_rollup_hdrs or stream.config.deny_purge:
        raise ApiError(Err.STREAM_ROLLUP_FAILED, err="rollup not permitted")
    if value not in (b"sub", b"all"):
        shown = quoted(value.decode(errors="replace"))
        raise ApiError(Err.STREAM_ROLLUP_FAILED, err=f"rollup value invalid: {shown}")
    if ahead is not None:
        if value == b"sub" and message.subject in ahead.written:
            raise ApiError(Err.STREAM_ROLLUP_FAILED, err="batch rollup sub invalid")
        if value == b"all" and ahead.messages:
            raise ApiError(Err.STREAM_ROLLUP_FAILED, err="batch rollup all invalid")
    message.rollup = value


def _count(stream: Stream, message: Incoming, ahead: Ahead | None) -> None:
    """Replace the payload of a counter's message by the sum, which has to fit, too."""
    if not stream.config.allow_msg_counter:
        return
    if message.increment is None:
        raise ApiError(Err.MESSAGE_COUNTER_INCREMENT_MISSING)
    message.sum = stream.counters.apply(message, message.increment, ahead.sums if ahead is not None else None)
    limits.book.check_size(stream, message)


RULES: tuple[Rule, ...] = (
    Rule(
        "subject_transform",
        RuleStage.ENTRY,
        _transform,
        lambda stream: stream.transform is not None,
        in_ingest=True,
    ),
    Rule("sealed", RuleStage.ENTRY, _refuse_sealed, lambda stream: stream.config.sealed),
    Rule("read-only", RuleStage.ENTRY, _refuse_read_only, lambda stream: stream.failure is not None),
    Rule("increment", RuleStage.HEADERS, _take_increment, header=_INCREMENT, batch_place=1),
    Rule("expected stream", RuleStage.HEADERS, _expect_stream, header=_EXPECTED_STREAM, batch_place=2),
    Rule("ttl", RuleStage.HEADERS, _allow_ttl, header=_TTL, batch_place=3),
    Rule(
        "expected last of subject",
        RuleStage.HEADERS,
        _expect_last_of_subject,
        header=_EXPECTED_LAST_SUBJECT_SEQUENCE,
        batch_place=8,
    ),
    Rule("expected last", RuleStage.HEADERS, _expect_last, header=_EXPECTED_LAST_SEQUENCE, batch_place=7),
    Rule("schedule", RuleStage.HEADERS, _take_schedule, header=_SCHEDULE, batch_place=9),
    Rule("source header", RuleStage.HEADERS, _refuse_source, header=_STREAM_SOURCE, batch_place=5),
    Rule("duplicate", RuleStage.HEADERS, _refuse_duplicate, header=_MSG_ID, batch_place=4),
    Rule("expected last id", RuleStage.HEADERS, _expect_last_id, header=_EXPECTED_LAST_MSG_ID),
    Rule("rollup", RuleStage.HEADERS, _take_rollup, header=_ROLLUP, batch_place=10),
    Rule(
        "counter",
        RuleStage.HEADERS,
        _count,
        lambda stream: stream.config.allow_msg_counter,
        batch_place=6,
        in_ingest=True,
    ),
    Rule("republish", RuleStage.STORED, applies=lambda stream: stream.republish is not None),
    Rule("no_ack", RuleStage.STORED, applies=lambda stream: stream.config.no_ack, in_ingest=True),
    Rule("fast batches", RuleStage.STORED, applies=lambda stream: stream.config.allow_batched),
    Rule(
        "interest",
        RuleStage.STORED,
        applies=lambda stream: stream.config.retention is RetentionPolicy.INTEREST,
        in_ingest=True,
    ),
)


class RuleBook:
    """Rules, arranged for the paths that walk them."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._conditional = tuple(rule for rule in rules if rule.applies is not _never)
        self._entry = tuple(rule.check for rule in rules if rule.stage is RuleStage.ENTRY)
        of_publishers = [rule for rule in rules if rule.stage is RuleStage.HEADERS]
        self._single = tuple((rule.header, rule.check) for rule in of_publishers)
        self._without_headers = tuple(rule.check for rule in of_publishers if not rule.header)
        in_order = sorted(of_publishers, key=lambda rule: rule.batch_place)
        self._batched = tuple((rule.header, rule.check) for rule in in_order)

    def applying(self, stream: Stream) -> list[Rule]:
        """Return the rules that need a look at every message of the stream."""
        return [rule for rule in self._conditional if rule.applies(stream)]

    def check_entry(self, stream: Stream, message: Incoming) -> None:
        """Apply the rules for every message, whoever brings it; raise ApiError if it is refused."""
        for check in self._entry:
            check(stream, message, None)

    def check_headers(self, stream: Stream, message: Incoming, ahead: Ahead | None = None) -> None:
        """Apply the rules for messages of publishers.

        Raises ApiError if the message is refused, and Duplicate if a single message is stored already.
        """
        if not message.block:
            for check in self._without_headers:
                check(stream, message, ahead)
            return
        for header, check in self._single if ahead is None else self._batched:
            if header in message.block:  # as is an empty one
                check(stream, message, ahead)


book = RuleBook(RULES)


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _number(text: bytes) -> int:
    """Return the sequence in a header; -1 if it is invalid."""
    number = read_whole(text)
    return -1 if number is None or number >= BEYOND else number
