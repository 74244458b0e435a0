"""The fast path of a message into a stream: append it to the log and note its publisher for an ack.

Compiled, because it is on the path of a message.  It is for streams without a rule that needs a look at each
message, except limits, interest, counters and transforms of subjects, which are applied here; and for
messages without headers that JetStream interprets, except:

    ``Nats-Msg-Id``, ``Nats-TTL``          an id, a TTL
    ``Nats-Expected-Last-Sequence``        expectations that hold, the second one for updates of keys
    ``Nats-Expected-Last-Subject-Sequence``
    ``Nats-Rollup: sub``                   of at most one message, for purges of keys
    ``Nats-Incr``                          the increment of a counter

Messages of atomic batches have their own fast path (``batch_fast_path``).  A full stream and an expectation
that does not hold are answered by ``refusals``.  All others are copied and go to `slow`, which is
``slow_path`` and has every rule.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.base.buffer import equal_bytes
from millstream.jetstream.dedupe.window import Dedupe
from millstream.jetstream.publish.batch_fast_path import BatchStaging, StagedMessage
from millstream.jetstream.publish.candidate import MARK_MSG_ID, MARK_TTL
from millstream.jetstream.publish.refusals import ROOM, UNKNOWN, Refusals
from millstream.jsapi.limits import MAX_HEADER_BYTES
from millstream.jsapi.publish_types import PUB_ACK_DUPLICATE_END, PUB_ACK_END
from millstream.protocol.digits import digits_end, read_number
from millstream.protocol.headers import START
from millstream.protocol.parser import Frame
from millstream.protocol.replies import Replies
from millstream.protocol.trace_context import find_sampled
from millstream.store.errors import StoreError
from millstream.store.log import Log
from millstream.subjects.filter_index import FilterIndex

if TYPE_CHECKING:
    from millstream.jetstream.publish.counter import Counters
    from millstream.jetstream.publish.store_spans import StreamSpans
    from millstream.jetstream.publish.ttl import TtlExpiry

_END = PUB_ACK_END
_DUPLICATE_END = PUB_ACK_DUPLICATE_END
_MARK_MSG_ID = MARK_MSG_ID
_MARK_TTL = MARK_TTL
_MAX_HEADER_BYTES = MAX_HEADER_BYTES
_FAST_BATCH = b".$FI"  # a reply that ends like this drives a batch (see ``fast_batch``)
_LAST_LETTER = 73
_START = START
_OURS = b"\nNats-"  # behind a CR: the beginning of every header that means something
_MSG_ID = b"\nNats-Msg-Id:"
_EXPECTED = b"\nNats-Expected-Last-Subject-Sequence:"
_EXPECTED_LAST = b"\nNats-Expected-Last-Sequence:"
_TTL = b"\nNats-TTL:"
_ROLLUP = b"\nNats-Rollup: sub\r\n"
_INCREMENT = START + b"Nats-Incr:"
_END_OF_HEADERS = b"\r\n\r\n"
_ROOM = ROOM
_UNKNOWN = UNKNOWN
_WEIGHED_AT = 1024 * 1024  # bytes; the loop may take many more before it comes to the commits
_CR = ord("\r")
_LF = ord("\n")
_BLANK = ord(" ")
_PLUS = ord("+")
_MINUS = ord("-")


class Ingest:
    """The fast path of one stream."""

    def __init__(
        self,
        log: Log,
        dedupe: Dedupe,
        staging: BatchStaging,
        now_ns: Callable[[], int],
        dirty: Callable[[], None],
        slow: Callable[[bytes, bytes, bytes, bytes], None],
        refusals: Refusals,
    ) -> None:
        self.fast_path = False  # no rule needs a look at each message, except those checked here
        self.max_size = 0  # bytes of headers and body together; 0: no limit
        self.interest: FilterIndex | None = None  # of a stream that only keeps what matches it
        self.limit: Callable[[bytes], None] | None = None  # what to do when one of this subject was stored
        self.hold: Callable[[], None] | None = None  # holds publishers, while too much waits for the disk
        self.weigh: Callable[[], None] | None = None  # finds out whether it does, now and then
        self._unweighed = 0  # bytes of messages since it was asked
        self.per_subject = 0  # if this is the only limit: how many messages a subject may have
        self.counters: Counters | None = None  # of a stream that counts
        self.expiry: TtlExpiry | None = None  # of a stream whose messages may have a TTL
        self.transform: Callable[[bytes], bytes | None] | None = None  # gives the subject that is stored
        self.roll_up: Callable[[bytes, int], None] | None = None  # removes what a few messages replace
        self.answers = True  # messages that are stored are acknowledged
        self.spans: StreamSpans | None = None  # records the messages of sampled traces
        self._log = log
        self._dedupe = dedupe
        self._staging = staging
        self._now_ns = now_ns
        self._dirty = dirty
        self._slow = slow
        self._refusals = refusals
        self._acks = Replies()  # for the next commit
        self._told = False  # that there is something to commit
        self._untold = 0  # bytes that may come before that is told: a commit follows anyway
        self._id_start = 0  # of the message's id in its frame
        self._id_size = 0
        self._ttl_s = 0  # of the message; 0: none
        self._rolls_up = False  # the message replaces the earlier one of its subject
        self._disappointed = False  # the message expects another sequence
        self._last = 0  # which would have been right

    def let_go(self) -> None:
        """Forget the stream, which was deleted; a message on its way to it is dropped."""
        self.fast_path = False
        self.limit = self.hold = self.weigh = self.counters = self.expiry = None
        self.transform = self.roll_up = self.spans = None
        self._dirty, self._slow = _nothing, _ignore

    def take(self, subject: bytes, frame: Frame) -> None:
        """Receive a message on one of the stream's subjects; the frame must not be kept."""
        if self.spans is None or frame.header_size <= 0:
            self._take(subject, frame)
            return
        arrival = None
        if find_sampled(frame.buf, frame.body_start, frame.header_size) >= 0:
            arrival = self.spans.begin(subject, frame)
        self._take(subject, frame)
        if arrival is not None:
            self.spans.end(arrival)

    def _take(self, subject: bytes, frame: Frame) -> None:
        self._unweighed += frame.body_size
        if self._unweighed >= _WEIGHED_AT:
            self._unweighed = 0
            if self.weigh is not None:
                self.weigh()
        if self.hold is not None:
            self.hold()
        self._id_size = 0
        self._ttl_s = 0
        self._rolls_up = False
        self._disappointed = False
        published = subject
        if self.transform is not None and self.fast_path:
            subject = self.transform(subject) or subject
        if self.counters is not None:
            if not (self.fast_path and self._count(self.counters, subject, frame)):
                self._slow(published, frame.reply(), frame.headers(), frame.payload())
            return
        if (
            not self.fast_path
            or (self.max_size > 0 and frame.body_size > self.max_size)
            or (frame.header_size > 0 and not self._needs_no_rules(subject, frame))
            or self._is_batched(frame)
        ):
            if not (self._may_stage(frame) and self._staging.take(subject, frame)):
                self._slow(published, frame.reply(), frame.headers(), frame.payload())
            return
        if self._disappointed:
            if self.answers:
                self._refusals.refuse_expectation(frame, self._last)
            return
        if self.interest is not None and not self.interest.find(subject):
            try:
                if not self._rolls_up:
                    self._pass_over(frame)
                    return
            except StoreError:
                pass  # of its id
            self._slow(published, frame.reply(), frame.headers(), frame.payload())
            return
        if self._refusals.limited:
            # A duplicate is no refusal, and neither is a message that makes room.
            told = self.answers and self._id_size == 0 and not self._rolls_up
            room = self._refusals.check(self._log, subject, frame, told)
            if room != _ROOM:
                if room == _UNKNOWN or self._id_size > 0 or self._rolls_up:
                    self._slow(published, frame.reply(), frame.headers(), frame.payload())
                return
        now = self.timestamp()
        marks = _MARK_TTL if self._ttl_s > 0 else 0
        if self._id_size > 0:
            try:
                seq = self._store_once(subject, frame, now, marks)
            except StoreError:  # the slow path will meet it again, and says so
                self._slow(published, frame.reply(), frame.headers(), frame.payload())
                return
            if seq == 0:
                return
        else:
            header_size = frame.header_size if frame.header_size > 0 else 0
            seq = self._log.append(
                subject, frame.buf, frame.body_start, header_size, frame.body_size, now, marks
            )
        if self._ttl_s > 0 and self.expiry is not None:
            self.expiry.add(seq, now, self._ttl_s)
        if frame.reply_size > 0 and self.answers:
            self._acks.add(frame.buf, frame.reply_start, frame.reply_size, seq, _END)
        self._keep_limits(subject)
        if self._rolls_up and self.roll_up is not None:
            self.roll_up(subject, seq)
        self.tell(frame.body_size)

    def _may_stage(self, frame: Frame) -> bool:
        """Return True if messages of batches may take their fast path and this may be one."""
        return (
            self.fast_path
            and frame.header_size > 0
            and self.max_size == 0
            and self.interest is None
            and not self._refusals.limited
            and self.transform is None
            and self.answers
        )

    def _pass_over(self, frame: Frame) -> None:
        """Use up a sequence for a message that no consumer wants, and acknowledge it."""
        now = self.timestamp()
        seq = self._log.state.last_seq + 1
        if self._id_size > 0:
            message_id = frame.buf[self._id_start : self._id_start + self._id_size]
            if self._is_duplicate(message_id, frame, now):
                return
            self._dedupe.add(message_id, seq, now)
        self._log.skip_to(seq, now)
        if frame.reply_size > 0 and self.answers:
            self._acks.add(frame.buf, frame.reply_start, frame.reply_size, seq, _END)
        self.tell()

    def _count(self, counters: "Counters", subject: bytes, frame: Frame) -> bool:
        """Add to a counter; return False if the message needs the slow path."""
        p = frame.buf
        size = frame.header_size
        start = frame.body_start
        if (
            size != frame.body_size
            or size < len(_INCREMENT) + len(_END_OF_HEADERS)
            or self.max_size > 0
            or self.interest is not None
            or self._refusals.limited
            or not equal_bytes(frame.buf, start, _INCREMENT)
            or not equal_bytes(frame.buf, start + size - len(_END_OF_HEADERS), _END_OF_HEADERS)
            or self._is_batched(frame)
        ):
            return False
        at = start + len(_INCREMENT)
        end = start + size - len(_END_OF_HEADERS)
        while at < end and p[at] == _BLANK:
            at += 1
        negative = at < end and p[at] == _MINUS
        if at < end and (p[at] == _PLUS or p[at] == _MINUS):
            at += 1
        value = read_number(p, at, end)
        if value < 0:
            return False
        after = counters.after(subject, -value if negative else value)
        if after is None:
            return False
        text = b'"val":"%d"}' % after.total
        body = b"%b{%b" % (frame.buf[start : start + size], text)
        seq = self._log.append(subject, body, 0, size, len(body), self.timestamp(), 0)
        counters.stored(seq, after)
        if frame.reply_size > 0 and self.answers:
            self._acks.add(frame.buf, frame.reply_start, frame.reply_size, seq, b",%b" % text)
        self._keep_limits(subject)
        self.tell(len(body))
        return True

    def store(self, message: StagedMessage, now: int) -> None:
        """Store a message of a batch that is being committed."""
        self._log.append(message.subject, message.source, 0, message.header_size, len(message.source), now, 0)
        self._keep_limits(message.subject)

    def _keep_limits(self, subject: bytes) -> None:
        """Remove messages beyond the limits after one of this subject was stored."""
        if self.limit is None:
            return
        if self.per_subject > 0:
            try:
                if self._log.keep_of_newest(self.per_subject):
                    self.limit(subject)  # which has the rest removed in slices
            except StoreError:
                self.limit(subject)  # which tries again, and says what is wrong
        else:
            self.limit(subject)

    def _store_once(self, subject: bytes, frame: Frame, now: int, marks: int) -> int:
        """Store a message with an id; return 0 for a duplicate, which is answered."""
        p = frame.buf
        message_id = p[self._id_start : self._id_start + self._id_size]
        if self._is_duplicate(message_id, frame, now):
            return 0
        seq = self._log.append(
            subject,
            frame.buf,
            frame.body_start,
            frame.header_size,
            frame.body_size,
            now,
            marks | _MARK_MSG_ID,
        )
        self._dedupe.add(message_id, seq, now)
        return seq

    def _is_duplicate(self, message_id: bytes, frame: Frame, now: int) -> bool:
        """Return True if the stream knows the id; then the message is answered."""
        known = self._dedupe.find(message_id, now) if self._dedupe.window_ns else 0
        if known == 0:
            return False
        if frame.reply_size > 0 and self.answers:
            self._acks.add(frame.buf, frame.reply_start, frame.reply_size, known, _DUPLICATE_END)
        self.tell()
        return True

    def _needs_no_rules(self, subject: bytes, frame: Frame) -> bool:
        """Return True if the headers need no rules; record an id, a TTL, a rollup, a wrong expectation.

        Lookups are those of ``protocol.headers``: a header begins after CRLF, wherever that is.
        """
        p = frame.buf
        at = frame.body_start
        end = at + frame.header_size
        if frame.header_size < len(_START) or frame.header_size > _MAX_HEADER_BYTES:
            return False
        if not equal_bytes(frame.buf, at, _START):
            return False  # it has a status
        found = expected = expected_last = False
        at += len(_START) - 2  # a CRLF
        while at + len(_OURS) < end:
            if p[at] != _CR or p[at + 1] != _LF or not equal_bytes(frame.buf, at + 1, _OURS):
                at += 1
                continue
            if at + 1 + len(_EXPECTED) < end and equal_bytes(frame.buf, at + 1, _EXPECTED):
                at += 1 + len(_EXPECTED)
                if expected or not self._expect(subject, p, at, end):
                    return False
                expected = True
                continue
            if at + 1 + len(_EXPECTED_LAST) < end and equal_bytes(frame.buf, at + 1, _EXPECTED_LAST):
                at += 1 + len(_EXPECTED_LAST)
                if expected_last or not self._expect(b"", p, at, end):
                    return False
                expected_last = True
                continue
            if self.expiry is not None and at + 1 + len(_TTL) < end and equal_bytes(frame.buf, at + 1, _TTL):
                at += 1 + len(_TTL)
                start = at
                while at < end and not (p[at] == _CR and at + 1 < end and p[at + 1] == _LF):
                    at += 1
                if self._ttl_s > 0:
                    return False
                self._ttl_s = self.expiry.plain_ttl(frame.buf[start:at])
                if self._ttl_s == 0:
                    return False
                continue
            if self.roll_up is not None and equal_bytes(frame.buf, at + 1, _ROLLUP):
                at += len(_ROLLUP) - 1  # to the CRLF that ends it
                if self._rolls_up or at + 2 > end or self._log.count_of(subject) > 1:
                    return False
                self._rolls_up = True
                continue
            if found or at + 1 + len(_MSG_ID) > end or not equal_bytes(frame.buf, at + 1, _MSG_ID):
                return False
            found = True
            at += 1 + len(_MSG_ID)
            while at < end and p[at] == _BLANK:
                at += 1
            self._id_start = at
            while at < end and not (p[at] == _CR and at + 1 < end and p[at + 1] == _LF):
                at += 1
            self._id_size = at - self._id_start
        return not found or self._id_size > 0

    def _expect(self, subject: bytes, p: bytes, at: int, end: int) -> bool:
        """Compare the number at `at` with the last sequence of the subject (empty: of the stream).

        Returns False for anything but digits, and for a second expectation that does not hold.
        """
        while at < end and p[at] == _BLANK:
            at += 1
        stop = digits_end(p, at, end)
        value = read_number(p, at, stop)
        if value < 0 or stop >= end or p[stop] != _CR:
            return False
        try:
            last = self._log.last_of(subject) if subject else self._log.state.last_seq
        except StoreError:
            return False  # the slow path will meet it again, and says so
        if last == value:
            return True
        if self._disappointed:
            return False
        self._disappointed = True
        self._last = last
        return True

    def _is_batched(self, frame: Frame) -> bool:
        if frame.reply_size < 4 or frame.buf[frame.reply_start + frame.reply_size - 1] != _LAST_LETTER:
            return False
        return frame.reply().endswith(_FAST_BATCH)

    def timestamp(self) -> int:
        """Return the time, but never before the last message: a clock set back does not reorder a stream."""
        now: int = self._now_ns()
        last: int = self._log.state.last_timestamp
        return now if now > last else last

    def acknowledge(self, reply: bytes, seq: int, end: bytes) -> None:
        """Send an ack once everything up to `seq` is durable."""
        self._acks.add(reply, 0, len(reply), seq, end)
        self.tell()

    def tell(self, size: int = 0) -> None:
        """Report that there is something to commit, of `size` bytes."""
        if self._told:
            return
        if self._untold > size:
            self._untold -= size + 1
            return
        self._told = True
        self._dirty()

    def hand_over(self, untold: int = 0, empty: Replies | None = None) -> Replies:
        """Return the acks that go with a commit that begins or will follow.

        The next `untold` bytes, or as many other things to commit, are accepted without a report.  Their acks
        are collected in `empty`, if it is given.
        """
        acks = self._acks
        self._acks = empty if empty is not None else Replies()
        self._told = False
        self._untold = untold
        return acks


def _nothing() -> None: ...


def _ignore(subject: bytes, reply: bytes, block: bytes, payload: bytes) -> None: ...
