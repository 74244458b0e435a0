"""A stream: a log, its configuration, and the rules about what it accepts and keeps.

A message on one of its subjects arrives in ``ingest``.  Without headers, on a stream without special rules,
it takes the fast path to the log; everything else goes through ``slow_path``.  Publishers get their acks
when the commit with their message is done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from millstream.base import guard
from millstream.base.slices import Pieces, Result, finish
from millstream.golang.time import ZERO_TIME, Time
from millstream.jetstream.config.subjects import usable_transform
from millstream.jetstream.consumers.manager import ConsumerManager
from millstream.jetstream.dedupe.window import Dedupe
from millstream.jetstream.publish import limits, rules
from millstream.jetstream.publish.atomic_batch import Batches
from millstream.jetstream.publish.counter import Counters
from millstream.jetstream.publish.fast_batch import FastBatches
from millstream.jetstream.publish.ingest import Ingest
from millstream.jetstream.publish.refusals import Refusals
from millstream.jetstream.publish.rollups import Rollups
from millstream.jetstream.publish.schedule import Schedules
from millstream.jetstream.publish.slow_path import Publishing
from millstream.jetstream.publish.store_spans import StreamSpans
from millstream.jetstream.publish.trace import trace_publish
from millstream.jetstream.publish.ttl import TtlExpiry
from millstream.jetstream.read.direct import DirectGet
from millstream.jetstream.sourcing.inflows import Inflows
from millstream.jetstream.stream.captures import Captures
from millstream.jetstream.stream.commits import StreamCommits
from millstream.jetstream.stream.id_keeper import IdKeeper
from millstream.jetstream.stream.retention import Retention
from millstream.jsapi.enums import PersistMode, RetentionPolicy, StorageType, StoreCompression
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import LARGEST_SEQ
from millstream.jsapi.publish_types import PUB_ACK_END, pub_ack_start
from millstream.jsapi.stream_types import LostStreamData, StreamConfig, StreamState
from millstream.protocol.replies import Replies
from millstream.store.errors import StoreError, client_text
from millstream.store.fs import File, close_files
from millstream.store.record import Record
from millstream.subjects.transform import SubjectTransform

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.ports import Cancel, World
    from millstream.store.log import Log

_log = logging.getLogger("millstream.jetstream")

_RETRY_S: Final = 1.0  # between tries to write to a disk that failed
_TOLD_AFTER: Final = 16  # messages that a purge removes for each consumer, so that telling costs less
_TELL_AGAIN_S: Final = 5.0  # whether somebody listens for damage by now


class Stream(StreamCommits):
    """One stream of one account."""

    def __init__(
        self,
        account: AccountJetStream,
        config: StreamConfig,
        created_ns: int,
        log: Log,
        *,
        sync: bool,
        identity: str = "",
    ) -> None:
        in_memory = config.storage is StorageType.MEMORY
        StreamCommits.__init__(
            self,
            account.world,
            account.committer,
            account.resources,
            account.usage.stored[config.storage],
            log,
            b"" if in_memory else account.journal_key(config.name, "log", identity),
            in_memory=in_memory,
            sync=sync,
        )
        self.account: AccountJetStream = account
        self.config: StreamConfig = config
        self.created_ns = created_ns
        self.identity = identity  # no other stream of the same name has it
        log.close_with(partial(_close_elsewhere, self.world))
        log.free_with(partial(self.world.in_slices, "freeing subjects"))
        self._sync_by_default = sync
        self.reserved = 0  # bytes that are in the account's sum of `max_bytes`
        self.dedupe = Dedupe(config.duplicate_window)
        self.ids = IdKeeper(self, account.open_ids(config.name, identity))
        self.retention = Retention(self)
        self.publishing = Publishing(self)
        self.rollups = Rollups(self)
        self.direct = DirectGet(self)
        self.expiry = TtlExpiry(self)
        self.counters = Counters(self)
        self.batches = Batches(self)
        self.fast_batches = FastBatches(self)
        self.schedules = Schedules(self)
        self.consumers = ConsumerManager(self)
        self.inflows = Inflows(self)
        self.transform: SubjectTransform | None = None
        self.republish: SubjectTransform | None = None
        self.captures = Captures(self.world, self._capture)
        self._started = False
        self._apart = False  # from its parts: it was deleted
        self._refusals = Refusals(self.world.acknowledge)
        self.ingest = Ingest(
            log,
            self.dedupe,
            self.batches.staging,
            self.world.now_ns,
            self.is_dirty,
            self.publishing.publish,
            self._refusals,
        )
        self.ingest.weigh = self.weigh
        queue = self.world.spans
        self.spans = self.ingest.spans = StreamSpans(self, queue) if queue is not None else None
        self._retry: Cancel | None = None
        self._tell_again: Cancel | None = None
        self._purged = False
        self._first_read = 0, ZERO_TIME  # the first message when its time was asked for last
        self.fast_path = False  # for batches and copies; `ingest` has its own
        self.configure(config)

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def running(self) -> bool:
        """Return True if it accepts messages; False if it is stopped or deleted."""
        return self._started

    @property
    def consumer_count(self) -> int:
        return self.consumers.count

    def configure(self, config: StreamConfig) -> None:
        """Apply a checked configuration."""
        before, self.config = self.config, config
        self.sync = self._sync_by_default and config.persist_mode is not PersistMode.ASYNC
        compressed = config.compression is not StoreCompression.NONE and not self.in_memory
        self.log.compress(compressed)
        self.log.mark_ends(not self.in_memory and (config.mirror is not None or bool(config.sources)))
        self.dedupe.window_ns = config.duplicate_window
        if not self.in_memory:
            self.ids.configure()
        self.ages = config.max_age > 0
        self.prepares = bool(config.sources)
        self._ack_start = pub_ack_start(config.name, self.account.domain)
        self.transform = usable_transform(self.name, "subject_transform", config.subject_transform)
        self.republish = usable_transform(self.name, "republish", config.republish)
        self._choose_path()
        if config.mirror is None and self.log.losses.reach > self.log.last_seq:
            # It was a mirror, and clients may know these sequences of messages that it has not got again.
            self.log.skip_to(self.log.losses.reach, self.log.last_timestamp)
            self.ingest.tell()
        if not config.allow_atomic:
            self.batches.stop()
        if not config.allow_batched:
            self.fast_batches.stop()
        if before.retention is not config.retention:
            if not self.has_interest(b">"):
                self.log.remove_below(self.log.last_seq + 1)
            self.consumers.retention_changed()
        if not self._started:
            if self.retention.limited:
                finish(self.retention.enforce())
        else:  # what is too much goes in slices
            self.retention.start()
            self.retention.enforce_soon()
            self.account.committer.tidy(self)
            self.direct.start()
            self.inflows.configure()

    def _choose_path(self) -> None:
        """Open the fast path if no rule and no limit needs a look at every message."""
        config = self.config
        self.out_of_room = self.usage.whole_is_exhausted()
        self.retention.configure()
        self.ingest.limit = self.retention.stored if self.retention.limited else None
        self.ingest.per_subject = 0 if self.retention.whole_limited else max(config.max_msgs_per_subject, 0)
        self.ingest.max_size = max(config.max_msg_size, 0)
        self._refusals.configure(config.name, *limits.book.bounds(self), in_memory=self.in_memory)
        self.ingest.transform = self.transform.apply if self.transform is not None else None
        may_roll_up = config.allow_rollup_hdrs and not config.deny_purge
        self.ingest.roll_up = self.rollups.remove_few if may_roll_up else None
        self.ingest.answers = not config.no_ack
        self.ingest.expiry = self.expiry if config.allow_msg_ttl else None
        self.ingest.counters = self.counters if config.allow_msg_counter else None
        is_interest = config.retention is RetentionPolicy.INTEREST
        self.ingest.interest = self.consumers.interest.index if is_interest else None
        applying: list[rules.Rule | limits.Limit] = [*rules.book.applying(self), *limits.book.applying(self)]
        self.fast_path = not applying
        self.ingest.fast_path = all(each.in_ingest for each in applying)

    def has_interest(self, subject: bytes) -> bool:
        """Return False if messages of this subject are not kept: interest retention, and no interest."""
        return self.config.retention is not RetentionPolicy.INTEREST or self.consumers.interest.wants(subject)

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start accepting messages."""
        finish(self.start_in_slices())

    def start_in_slices(self) -> Pieces[None]:
        self._started = True
        self.log.losses.listener = lambda: self.account.committer.dirty(self)  # which removes them for good
        self.notice_damage()
        self.retention.start()
        self.expiry.start()
        self.schedules.start()
        self.ids.start()
        self.direct.start()
        self.consumers.start()
        self.account.committer.tidy(self)
        yield from self.captures.follow(self.config.subjects)
        if self._started:
            yield from self.inflows.start()

    def stop(self) -> None:
        self.captures.stop()
        self._started = False
        self.stop_weighing()
        for timer in (self._retry, self._tell_again):
            if timer is not None:
                timer.cancel()
        self.retention.stop()
        self.expiry.stop()
        self.schedules.stop()
        self.ids.stop()
        self.batches.stop()
        self.fast_batches.stop()
        self.direct.stop()
        self.inflows.stop()

    def close(self) -> None:
        """Close all files."""
        self.log.close()
        self.ids.close()

    def abandon(self) -> None:
        """Pass the deletion of the stream as an error to callbacks that wait."""
        self.waiters.tell_durable()
        self.waiters.tell_failed(StoreError("commit", self.name, "the stream was deleted"))

    def let_go(self) -> None:
        """Separate the stream, which was deleted, from its parts, which refer to it.

        Otherwise they would stay until the garbage collector finds the cycle.  What still goes on with the
        stream finds its log and its consumers, of which there are none.
        """
        if self._apart:
            return
        self._apart = True
        self.consumers.let_go()
        self.ingest.let_go()
        self.log.losses.listener = self.dedupe.damaged = None
        del self.ids, self.retention, self.publishing, self.rollups, self.direct, self.expiry, self.counters
        del self.batches, self.fast_batches, self.schedules, self.inflows, self.captures, self.spans

    def _capture(self, subject: bytes) -> Any:
        return self.world.capture(
            subject, self.ingest.take, partial(trace_publish, self), self.publishing.refuse_failed
        )

    # -- messages in ------------------------------------------------------------------------------

    def acknowledge(self, reply: bytes, seq: int, end: bytes = PUB_ACK_END) -> None:
        """Send an ack once everything up to `seq` is durable."""
        if reply and not self.config.no_ack:
            self.ingest.acknowledge(reply, seq, end)
        else:
            self.ingest.tell()

    # -- commits (see ``committer``) --------------------------------------------------------------

    def before_commit(self) -> Callable[[], None] | None:
        return self.account.before_commit(self)

    def look_again(self) -> None:
        if len(self.log.losses.damages) != self._damages_told:
            guard.alone("telling of damage", self.notice_damage)
        if self.failure is not None:
            _log.info("stream %s accepts messages again", self.name)
            self.failure = None
        self.backlogged = False
        self._choose_path()

    def write_ids(self) -> None:
        self.ids.write()

    def plan_ageing(self) -> None:
        self.retention.committed()

    def tell_gone(self, sseqs: list[int]) -> None:
        self.consumers.tell_gone(sseqs)

    def commit_failed(self, error: Exception) -> None:
        """Send the error to publishers, keep serving reads, and retry the bytes.

        So a refused message is stored after all when the disk accepts writes again.  It cannot be undone:
        what it replaced, such as the previous value of a key, is removed by the same commit, so both would be
        lost.  A publisher that repeats it with the same id gets the ack of the stored one.
        """
        if not isinstance(error, StoreError):
            _log.error("stream %s: a commit failed unexpectedly", self.name, exc_info=error)
            error = StoreError("commit", self.name, f"{type(error).__name__}: {error}")
        if self.failure is None:
            _log.error("stream %s is read-only: %s", self.name, error)
            self.account.report_failure(self, error)
        self.refuse_waiting(error)
        if self._retry is None:
            self._retry = self.world.call_later(_RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self.account.committer.dirty(self)

    def refuse_waiting(self, error: Exception) -> None:
        """Send the error to everybody who waits for a commit, and accept nothing until one succeeds."""
        if not isinstance(error, StoreError):
            error = StoreError("commit", self.name, f"{type(error).__name__}: {error}")
        self.failure = error
        self.stop_weighing()  # nothing more is taken
        self._choose_path()
        acks = self.take_unanswered()
        durable = Replies()
        for reply, seq, end in acks:
            if seq <= self.log.committed:
                durable.add(reply, 0, len(reply), seq, end)
        if durable.count:
            self.world.acknowledge(self._ack_start, durable)
        for reply, seq, _ in acks:
            if seq > self.log.committed:
                self.publishing.refuse(reply, ApiError(Err.STREAM_STORE_FAILED, err=client_text(error)))
        self.waiters.tell_failed(error)

    # -- messages out -----------------------------------------------------------------------------

    def load(self, seq: int, record: Record) -> bool:
        """Point `record` at a message; return False if it does not exist."""
        return self.log.get(seq, record)

    def notice_damage(self) -> None:
        """Report damage found since the last time; without a subscriber, report it later."""
        losses = self.log.losses
        if len(losses.damages) == self._damages_told:
            return
        tell = self.account.advisories.stream_damaged
        if tell(self.name, losses.messages, losses.bytes, losses.sequences()):
            self._damages_told = len(losses.damages)
        elif self._tell_again is None and self._started:
            self._tell_again = self.world.call_later(_TELL_AGAIN_S, self._notice_again)

    def _notice_again(self) -> None:
        self._tell_again = None
        self.notice_damage()

    # -- removing ---------------------------------------------------------------------------------

    def purge(self, subject: bytes | None, below: int, keep: int) -> int:
        """Remove messages: all, or those of a subject; below a sequence, or all but the newest `keep`."""
        return finish(self.purge_in_steps(subject, below, keep))

    def purge_in_steps(self, subject: bytes | None, below: int, keep: int) -> Pieces[int]:
        """Purge in steps, between which others have their turn; messages added meanwhile are kept."""
        if self.config.deny_purge:
            raise ApiError(Err.STREAM_PURGE_FAILED, err="stream purge not permitted")
        if below > LARGEST_SEQ:
            raise ApiError(Err.STREAM_PURGE_FAILED, err=f"sequence {below} is larger than {LARGEST_SEQ}")
        committer, journal = self.account.committer, self.consumers.journal
        if journal is None:
            return (yield from self._purge_in_steps(subject, below, keep))
        committer.hold(journal)  # consumers pass what is removed, see ``ConsumerManager.follow_stream``
        try:
            return (yield from self._purge_in_steps(subject, below, keep))
        finally:
            self.on_durable(lambda: committer.release(journal))

    def _purge_in_steps(self, subject: bytes | None, below: int, keep: int) -> Pieces[int]:
        if subject == b">":
            subject = None
        steps = self.retention.purge_in_steps(subject, below, keep)
        untold = 0
        lost: list[int] = []
        while True:
            lost += self.consumers.take_gone()
            if subject is None:
                self.log.gone = None  # consumers are told the first sequence that is left
            try:
                removed = next(steps)
            except StopIteration as end:
                purged: int = end.value
                break
            lost += self.consumers.take_gone()
            untold += removed
            if untold >= _TOLD_AFTER * len(self.consumers):
                untold, told, lost = 0, lost, []
                yield from self.consumers.purged(subject, told)
            self.account.committer.dirty(self)
            yield removed
            if self.account.streams.get(self.name) is not self:
                raise ApiError(Err.STREAM_NOT_FOUND)
        self.log.shed()  # a purge of everything gives the files back with its commit
        lost += self.consumers.take_gone()
        yield from self.consumers.purged(subject, lost)
        self._purged = self._purged or not (below or keep or subject is not None)
        self.account.committer.dirty(self)
        return purged

    def while_there(self, pieces: Pieces[Result]) -> Pieces[Result]:
        """Run the work; raise ApiError if the stream is deleted meanwhile."""
        while True:
            try:
                items = next(pieces)
            except StopIteration as end:
                result: Result = end.value
                return result
            yield items
            if self.account.streams.get(self.name) is not self:
                pieces.close()
                raise ApiError(Err.STREAM_NOT_FOUND)

    # -- what it is like --------------------------------------------------------------------------

    def size_of(self, subject: bytes, block: bytes, payload: bytes) -> int:
        """Return what a message would add to ``bytes``."""
        size = len(subject) + len(block) + len(payload)
        if self.in_memory:
            return size + 16
        return size + (34 if block else 30)

    def size_of_stored(self, seq: int) -> int:
        """Return what a stored message adds to ``bytes``."""
        size = self.log.size_of(seq)
        if size == 0:
            return 0
        if self.in_memory:
            return size - 10 - (4 if self.log.has_headers(seq) else 0)
        return size + 4

    def state(self) -> StreamState:
        log = self.log
        first_ts = self._first_time()  # before the counts: it may find that the first is damaged
        first, last = log.first_seq, log.last_seq
        used = last > 0 or log.messages > 0 or self._purged or self.config.first_seq > 0
        state = StreamState(
            messages=log.messages,
            bytes=self.bytes(),
            first_seq=first if used or first > 1 else 0,
            last_seq=last,
            first_ts=first_ts,
            last_ts=Time(log.last_timestamp) if log.last_timestamp else ZERO_TIME,
            num_subjects=log.subject_count,
            num_deleted=(last - first + 1) - log.messages if log.messages else 0,
            consumer_count=self.consumer_count,
        )
        self.notice_damage()
        if log.losses.damages:
            state.lost = LostStreamData(msgs=log.losses.sequences() or None, bytes=log.losses.bytes)
        return state

    def _first_time(self) -> Time:
        """Return the time of the first message, if there is one and it can be read."""
        log = self.log
        if not log.messages:
            return ZERO_TIME
        if self._first_read[0] == log.first_seq:
            return self._first_read[1]
        known = log.first_time()
        if known:
            self._first_read = log.first_seq, Time(known)
            return self._first_read[1]
        record = Record()
        seq = 0
        while log.messages and seq != log.first_seq:
            seq = log.first_seq
            try:
                if log.peek(seq, record):  # it is counted, durable or not
                    self._first_read = seq, Time(record.timestamp)
                    return self._first_read[1]
            except StoreError as error:  # the rest can be told without it
                _log.error("%s", error)
        return ZERO_TIME


def _close_elsewhere(world: World, files: list[File]) -> None:
    """Close removed files in a worker: freeing their pages takes some milliseconds for each."""
    try:
        world.run_in_worker(partial(close_files, files), lambda _: None)
    except Exception:  # no thread
        close_files(files)
