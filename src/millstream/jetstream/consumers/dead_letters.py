"""Dead letters: messages that a consumer gives up, stored in another stream of the account.

A consumer asks for them with the subject in its metadata (``names.METADATA_DEAD_LETTER``).  A message becomes
a letter when it reaches `max_deliver`, when a client terminates it, and when it is larger than any request
that limits its bytes may be (`max_bytes`).  Two files take part: the log of the letters and the journal of
the consumers.  The journal is first, and has the whole letter and its sequence in the log:

    journal: the message is delivered ─▶ append to the log, whose commits wait ─▶ journal: LETTER
      ─▶ the message is settled, its reply is sent; the log commits ─▶ journal: STORED

Each arrow waits until everything before it is durable, because a power cut may keep any part of a commit.
Before LETTER is durable, a crash leaves a pending message and no letter.  After it, a restart settles the
message, and ``store_letters`` stores the letter unless its stream has it or had it.  A sequence that is used
proves neither: the letter may be what a power cut tore from the log, and another one may be stored there
since.  A letter that was stored and removed left its record or its removal in the log (``Log.had``).  So each
message becomes one letter, even if somebody puts the letter back at once.

A message whose letter cannot be stored stays pending, and the consumer's info has the reason.

Not here: reading letters and putting them back (``millstream.letters``).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from millstream.base import guard
from millstream.golang.time import format_time
from millstream.jetstream.consumers.saved_state import OpenLetter
from millstream.jsapi import letter_headers as names
from millstream.jsapi.consumer_types import ConsumerConfig, DeadLetterState
from millstream.jsapi.enums import AckPolicy, RetentionPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import MAX_HEADER_BYTES
from millstream.jsapi.names import METADATA_DEAD_LETTER
from millstream.protocol import headers
from millstream.store.errors import StoreError
from millstream.store.record import Record
from millstream.subjects.match import matches
from millstream.subjects.tokens import valid_publish_subject

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.consumers.journal import Journal
    from millstream.jetstream.stream.stream import Stream
    from millstream.store.log import Log

_log = logging.getLogger("millstream.jetstream")

_NS: Final = 1_000_000_000
_FIRST_RETRY_NS: Final = 2 * _NS
_LAST_RETRY_NS: Final = 60 * _NS
_LONGEST_REASON: Final = 1024  # letters of a client's reason
_MOST_UNDER_WAY: Final = 1024  # letters of a consumer: a collection of garbage visits all of their objects
_STARTED_AT_ONCE: Final = 64  # letters
MAX_DELIVER: Final = "max_deliver"
TERMINATED: Final = "terminated"
TOO_LARGE: Final = "too_large"


class Condemned(msgspec.Struct, frozen=True):
    """The decision that a message becomes a letter."""

    sseq: int
    reason: str
    tell: Callable[[], None]  # called when the message is settled
    unsent: bool = False  # its first delivery was only recorded


class LetterWriter:
    """The dead letters of one consumer."""

    def __init__(self, consumer: Consumer, subject: str) -> None:
        self.subject = subject
        self._consumer = consumer
        self._account: AccountJetStream = consumer.stream.account
        self._stored = 0
        self._error = ""
        self._refused: set[int] = set()  # messages that wait until their letters can be stored
        self._retry_ns = _FIRST_RETRY_NS
        self._retry_at = 0  # while there is an error, nothing is tried before
        self._owed: dict[int, list[bytes]] = {}  # replies to terms of messages that are being settled
        # Messages whose letters begin later; of those that reached `max_deliver`, only the sequence.
        self._line: deque[Condemned | int] = deque()
        self._line_resets = 0  # of the ledger, when they were condemned
        self._under_way = 0  # letters that are not durable in their stream
        self._planned = False  # ``_go_on`` will be called
        self._target: Stream | None = None
        self._target_config: object = None
        self._record = Record()

    def info(self) -> DeadLetterState:
        pending = self._consumer.ledger.pending
        self._refused = {sseq for sseq in self._refused if sseq in pending}
        return DeadLetterState(self.subject, self._stored, len(self._refused), self._error)

    # -- why a message is given up ----------------------------------------------------------------

    def give_up(self, sseq: int) -> None:
        """Make a letter of a message that reached `max_deliver`."""
        self._begin(self._spent(sseq))

    def terminate(self, sseq: int, dseq: int, deliveries: int, reason: str, reply: bytes) -> bool:
        """Make a letter of a terminated message; return False if it is not pending here.

        A term whose letter cannot be stored has no effect, and no reply.
        """
        ledger, advisories = self._consumer.ledger, self._consumer.advisories
        if sseq not in ledger.pending:
            return False
        if sseq not in ledger.aside:
            why = f"{TERMINATED}: {reason}" if reason else TERMINATED
            tell = partial(advisories.terminated, dseq, sseq, deliveries, reason, self.subject)
            self._begin(Condemned(sseq, why, tell))
        if reply and sseq in ledger.aside:
            self._owed.setdefault(sseq, []).append(reply)
        return True

    def take_oversized(self, now: int) -> bool:
        """Make a letter of the next message if no request with a limit may get it; otherwise return False."""
        consumer = self._consumer
        size, most = consumer.delivery.too_big, consumer.config.max_bytes
        if not 0 < most < size:
            return False
        unsent = not consumer.ledger.next_again()
        sseq = consumer.feed.take_next(now)
        if not sseq:
            return False
        why = f"{TOO_LARGE}: {size} bytes, and requests may have {most}"
        self._begin(Condemned(sseq, why, _nothing, unsent=unsent))
        consumer.delivered(now)
        return True

    def _spent(self, sseq: int) -> Condemned:
        return Condemned(sseq, MAX_DELIVER, partial(self._tell_spent, sseq))

    def _tell_spent(self, sseq: int) -> None:
        self._consumer.advisories.max_deliveries(sseq, self._consumer.ledger.max_deliver, self.subject)

    # -- storing ----------------------------------------------------------------------------------

    def _begin(self, message: Condemned) -> None:
        """Deliver a pending message no more, and append its letter when its delivery is durable."""
        consumer = self._consumer
        ledger, sseq = consumer.ledger, message.sseq
        if sseq in ledger.aside:
            return
        if self._error and consumer.world.steady_ns() < self._retry_at:
            self._try_later(sseq)
            return
        ledger.put_aside(sseq)
        consumer.keeper.touch()
        if self._line_resets != ledger.resets:
            self._line.clear()
            self._line_resets = ledger.resets
        self._line.append(message if message.reason != MAX_DELIVER else sseq)
        self._start_some()

    def _start_some(self) -> None:
        """Begin to store letters, some at a time: each has a dozen objects until it is durable."""
        consumer, line, left = self._consumer, self._line, _STARTED_AT_ONCE
        if self._line_resets != consumer.ledger.resets:
            line.clear()
        while line and self._under_way < _MOST_UNDER_WAY and left > 0:
            left -= 1
            first = line.popleft()
            message = self._spent(first) if isinstance(first, int) else first
            if not consumer.running:  # it ends, and its journal may be closed
                self._put_back(message.sseq)
                continue
            if self._error and consumer.world.steady_ns() < self._retry_at:
                self._put_back(message.sseq)
                self._try_later(message.sseq)
                continue
            self._under_way += 1
            consumer.keeper.when_known(partial(self._append, message, consumer.ledger.resets))
        if line and self._under_way < _MOST_UNDER_WAY:
            self._start_soon()

    def _start_soon(self) -> None:
        if not self._planned:
            self._planned = True
            self._consumer.world.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._planned = False
        self._start_some()

    def _ended(self) -> None:
        """Let the next letter begin after one was stored or given up."""
        self._under_way -= 1
        if self._line:
            self._start_soon()

    def _put_back(self, sseq: int) -> None:
        """Forget that a message becomes a letter."""
        self._consumer.ledger.aside.discard(sseq)
        self._owed.pop(sseq, None)

    def _append(self, message: Condemned, resets: int) -> None:
        if not self._try_to_append(message, resets):
            self._ended()

    def _try_to_append(self, message: Condemned, resets: int) -> bool:
        """Append the letter; return False if there is none, or if that is tried again later."""
        consumer, sseq = self._consumer, message.sseq
        ledger, committer = consumer.ledger, self._account.committer
        if ledger.resets != resets:
            return False
        if not consumer.running or committer.stopping or sseq not in ledger.pending:
            self._put_back(sseq)
            return False
        try:
            if not consumer.stream.log.get(sseq, self._record):
                self._put_back(sseq)
                if not consumer.stream.log.gone:  # otherwise the removal is not durable; it will be told
                    consumer.message_removed(sseq)
                return False
            target = self._find_target()
            letter = self._store(target, message)
        except (ApiError, StoreError) as error:
            self._fail(error, sseq)
            return False
        self._error = ""
        self._retry_ns = _FIRST_RETRY_NS
        self._refused.discard(sseq)

        def settled() -> None:
            if consumer.keeper.durable:
                committer.release(target)
            if ledger.resets == resets:
                ledger.aside.discard(sseq)
                ledger.ack(sseq)
                consumer.keeper.touch()
            consumer.stream.consumers.interest.settled((sseq,))
            self._settle(message)

        stored = consumer.keeper.keep_letter(letter, settled)
        target.on_outcome(partial(self._after_commit, target, stored))
        return True

    def _after_commit(self, target: Stream, stored: Callable[[], None], error: StoreError | None) -> None:
        """Record that a letter is stored; after an error, wait for the next commit of its stream."""
        if error is not None and self._account.streams.get(target.name) is target:
            target.waiters.on_outcome(partial(self._after_commit, target, stored))  # a timer tries it again
            return
        self._stored += 1
        stored()
        self._ended()

    def _try_later(self, sseq: int) -> None:
        """Let a message wait until its letter may be stored, or until it is delivered again."""
        self._refused.add(sseq)
        self._consumer.expiry.put_off(sseq, max(self._retry_at - self._consumer.world.steady_ns(), 0))

    def _settle(self, message: Condemned) -> None:
        self._consumer.last_ack_ns = self._consumer.world.steady_ns()
        for reply in self._owed.pop(message.sseq, ()):
            if self._consumer.running:
                self._consumer.acknowledging.answer_when_durable(reply)
        guard.alone("telling of a dead letter", message.tell)
        self._consumer.unblock()

    def _store(self, target: Stream, message: Condemned) -> OpenLetter:
        """Append the letter in `_record` to its stream, whose commits wait until ``release``."""
        consumer, committer = self._consumer, self._account.committer
        waits = consumer.keeper.durable
        if waits:
            committer.hold(target)
        try:
            block, payload = self._block(message), self._record.payload()
            stored = target.publishing.insert(self.subject.encode(), block, payload)
        except BaseException:
            if waits:
                committer.release(target)
            raise
        return OpenLetter(
            consumer.name,
            consumer.created_ns,
            message.sseq,
            target.identity,
            target.log.last_seq,
            stored.subject,
            stored.block,
            stored.payload,
        )

    def _block(self, message: Condemned) -> bytes:
        """Return the headers of the letter in `_record`: the publisher's, the origin, and the reason."""
        consumer, record = self._consumer, self._record
        published = headers.read_pairs(record.headers())
        reason = " ".join(message.reason[:_LONGEST_REASON].split())
        ours = [
            (names.ORIG_STREAM, consumer.stream.name),
            (names.ORIG_SEQ, str(message.sseq)),
            (names.ORIG_TIME, format_time(record.timestamp)),
            (names.ORIG_SUBJECT, headers.text_of(record.subject())),
            (names.DLQ_CONSUMER, consumer.name),
            (names.DLQ_DELIVERIES, str(consumer.ledger.deliveries(message.sseq) - message.unsent)),
        ]
        pairs = [pair for pair in published if names.is_own_header(pair[0])]
        block = headers.make_text([*pairs, *ours, (names.DLQ_REASON, reason)])
        if len(block) <= MAX_HEADER_BYTES:
            return block
        reason += f"; its {len(pairs)} headers are too long for a letter"
        return headers.make_text([*ours, (names.DLQ_REASON, reason)])

    def _find_target(self) -> Stream:
        """Return the stream of the letters; raise ApiError if it cannot keep them."""
        target = self._target
        if target is None or target.config is not self._target_config or not target.running:
            target = stream_of(self._account, self.subject)
            problem = problem_of(self._consumer.stream, self._consumer.config, self.subject, target)
            if target is None or problem:
                self._target = None
                raise ApiError(Err.CONSUMER_CREATE_FAILED, err=problem)
            self._target, self._target_config = target, target.config
        return target

    def _fail(self, error: Exception, sseq: int) -> None:
        """Remember why letters cannot be stored, and let the message wait."""
        text = str(error)
        if text != self._error:
            _log.error(
                "consumer %s of stream %s: dead letters cannot be stored: %s",
                self._consumer.name,
                self._consumer.stream.name,
                text,
            )
        self._error = text
        self._retry_at = self._consumer.world.steady_ns() + self._retry_ns
        self._retry_ns = min(self._retry_ns * 2, _LAST_RETRY_NS)
        self._put_back(sseq)
        self._try_later(sseq)


def _nothing() -> None: ...


def letters_of(consumer: Consumer, before: LetterWriter | None) -> LetterWriter | None:
    """Return the dead letters that the consumer's configuration asks for, or None; keep those of `before`."""
    subject = subject_of(consumer.stream.name, consumer.name, consumer.config)
    if not subject:
        return None
    return before if before is not None and before.subject == subject else LetterWriter(consumer, subject)


def subject_of(stream: str, name: str, config: ConsumerConfig) -> str:
    """Return the subject of a consumer's dead letters; empty if it has none."""
    subject = config.metadata.get(METADATA_DEAD_LETTER, "")
    return subject.replace("{stream}", stream).replace("{consumer}", name)


def stream_of(account: AccountJetStream, subject: str) -> Stream | None:
    """Return the stream of the account that stores messages on the subject."""
    wanted = subject.encode()
    for stream in account.streams.values():
        if any(matches(wanted, pattern.encode()) for pattern in stream.config.subjects):
            return stream
    return None


# -- what is refused ----------------------------------------------------------------------------------


def check_dead_letter(stream: Stream, config: ConsumerConfig, name: str) -> None:
    """Raise ApiError if the dead letters of a new configuration cannot be stored."""
    if METADATA_DEAD_LETTER not in config.metadata:
        return
    subject = subject_of(stream.name, name, config)
    problem = problem_of(stream, config, subject, stream_of(stream.account, subject))
    if problem:
        raise ApiError(Err.CONSUMER_CREATE_FAILED, err=f"{METADATA_DEAD_LETTER}: {problem}")


def problem_of(stream: Stream, config: ConsumerConfig, subject: str, target: Stream | None) -> str:
    """Return why the letters of a consumer of `stream` cannot be stored in `target`; empty if they can."""
    if not valid_publish_subject(subject.encode(errors="replace")) or subject.startswith("$"):
        return f"{subject!r} is no subject for messages"
    if config.ack_policy is not AckPolicy.EXPLICIT:
        return "the ack policy must be explicit"
    if target is None:
        return f"no stream has the subject {subject}"
    if target is stream:
        return f"{subject} belongs to stream {stream.name} itself"
    if target.config.sealed:
        return f"stream {target.name} is sealed"
    if target.config.retention is RetentionPolicy.INTEREST:
        return f"stream {target.name} keeps only messages that a consumer waits for"
    if target.in_memory and not (stream.in_memory or config.mem_storage):
        return f"stream {target.name} is in memory, and the consumer is not"
    if stream in _reached_from(target):
        return f"the dead letters of stream {target.name} come back to stream {stream.name}"
    return ""


def _reached_from(start: Stream) -> set[Stream]:
    """Return the streams that dead letters of consumers of `start` reach, and their dead letters in turn."""
    found: set[Stream] = set()
    left = [start]
    while left:
        for consumer in left.pop().consumers.values():
            target = stream_of(start.account, consumer.letters.subject) if consumer.letters else None
            if target is not None and target not in found:
                found.add(target)
                left.append(target)
    return found


# -- after a restart ----------------------------------------------------------------------------------


def store_letters(stream: Stream) -> None:
    """Store the letters in the journal that their streams may lack, before anything else is stored."""
    account, journal = stream.account, stream.consumers.journal
    assert journal is not None
    targets = {each.identity: each for each in account.streams.values()}
    for number, letter in sorted(journal.letters.items(), key=lambda item: item[1].seq):
        target = targets.get(letter.identity)
        if target is None and account.unrecovered:
            _log.error("stream %s: a dead letter waits for its stream, which did not start", stream.name)
            continue
        consumer = stream.consumers.get(letter.consumer)
        if consumer is not None and consumer.created_ns == letter.created:
            consumer.ledger.ack(letter.sseq)
            consumer.keeper.write()
        stream.consumers.interest.settled((letter.sseq,))
        if target is None:
            journal.letter_stored(number)  # the stream was deleted, and its letters with it
            continue
        try:
            _store_again(journal, number, letter, target)
        except StoreError as error:  # the journal keeps it for the next start
            _log.error("stream %s: a dead letter cannot be stored yet: %s", stream.name, error)


def _store_again(journal: Journal, number: int, letter: OpenLetter, target: Stream) -> None:
    """Store a letter unless its stream has or had it, at its sequence if that is free."""
    log = target.log
    if _is_stored(log, letter):
        target.on_durable(partial(journal.letter_stored, number))
        return
    if log.last_seq + 1 < letter.seq:
        log.skip_to(letter.seq - 1, target.ingest.timestamp())
    moves = log.last_seq >= letter.seq
    if moves:
        target.committer.hold(target)  # the journal gets its new sequence first
    try:
        target.publishing.insert(letter.subject, letter.block, letter.payload, checked=True)
        if moves:
            journal.move_letter(number, log.last_seq)
    finally:
        if moves:
            journal.when_kept(partial(target.committer.release, target))
    target.on_durable(partial(journal.letter_stored, number))


def _is_stored(log: Log, letter: OpenLetter) -> bool:
    """Return True if the log has the letter, or had it and somebody removed it.

    Nothing is committed between the opening of the log and this look at it, so a letter above `committed`
    cannot have been stored, whatever this start has stored at its sequence.
    """
    record = Record()
    if letter.seq > log.committed:
        return False
    if log.get(letter.seq, record):
        return record.headers() == letter.block
    return log.had(letter.seq) and letter.seq not in log.losses.sequences()
