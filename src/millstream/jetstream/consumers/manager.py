"""All consumers of one stream: create, find, notify, keep on disk, and delete them.

A mapping from names to consumers.  A stream without consumers costs nothing, and neither does a consumer that
does not wait: only those *awaiting commit* are notified of one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from millstream.base import guard, slices
from millstream.base.build import pure_requested
from millstream.base.slices import MOST_ITEMS, Pieces
from millstream.jetstream.config.values import valid_name
from millstream.jetstream.consumers.config import counts
from millstream.jetstream.consumers.config_rules import filters_of
from millstream.jetstream.consumers.consumer import Consumer
from millstream.jetstream.consumers.interest import Interest
from millstream.jetstream.consumers.journal import Alive, Journal
from millstream.jetstream.consumers.last_messages import LastOfEach
from millstream.jetstream.consumers.start import (
    Sifted,
    Start,
    find_start,
    last_per_subject,
    starts_with_lasts,
    with_count,
)
from millstream.jetstream.consumers.state_saver import Keeper, NoKeeper
from millstream.jetstream.consumers.told_removals import ToldRemovals
from millstream.jsapi.consumer_types import ConsumerConfig, ConsumerState
from millstream.store.counts import is_long
from millstream.store.errors import StoreError
from millstream.subjects.match import is_subset

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel
    from millstream.jetstream.stream.stream import Stream

_TOLD_AT_ONCE: Final = 32  # consumers
_LOOKED_UP: Final = 8 if pure_requested() else 64  # messages that are gone
_MISSED_COST: Final = 16  # items of a slice that each counts for which a consumer has to give up
_WRITING_COST: Final = 16  # items of a slice that telling the journal of a consumer counts for
_ENDING_COST: Final = 16  # items of a slice that a consumer counts for which is deleted with its stream
_UNKNOWN: Final = 0  # in place of sequences that may have been removed before anybody wanted to know
_MAY_PASS: Final = -1  # instead of a number of removals: they are durable
_WRITE_AFTER_S: Final = 0.25  # what happened and was not promised to anybody is on disk after so long


class ConsumerManager(Mapping[str, Consumer]):
    """The consumers of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.awaiting_commit = stream.awaiting_commit
        self.count = 0  # without those that mirrors and sources use
        self.counted = 0  # also without those that sources will keep: what limits are about
        self.journal: Journal | None = None
        self._by_name: dict[str, Consumer] = {}
        self.interest = Interest(stream, self._by_name)
        self._touched: list[Keeper] = []
        self._gathering: list[LastOfEach] = []  # of consumers that are being made
        self._ended: list[Consumer] = []  # consumers that were stopped because their stream is being deleted
        self._timer: Cancel | None = None
        self._removals = -1  # of the stream, when its journal began to wait for them
        self._waiting_to_pass: list[Callable[[], None]] | None = None  # None: the journal does not wait
        self.told = ToldRemovals()
        self._told_ones: dict[Consumer, None] = {}  # they may have a note of messages, see ``Feed.holds``
        # Consumers without a journal that wait to pass removed messages, and how many had been removed.
        self._held: dict[Consumer, int] = {}

    def __getitem__(self, name: str) -> Consumer:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def names(self) -> list[str]:
        return sorted(name for name, consumer in self._by_name.items() if not consumer.config.direct)

    # -- making and ending ------------------------------------------------------------------------

    def add(self, config: ConsumerConfig, name: str, start: Start | None = None) -> Consumer:
        """Start a consumer with a checked configuration; see ``on_outcome``.

        `start` is what ``find_start`` returned in the same step.
        """
        consumer = Consumer(self.stream, name, config, self.stream.world.now_ns())
        consumer.keeper = self._keeper_of(consumer)
        consumer.begin(start)
        consumer.keeper.create(config, consumer.created_ns)
        self.follow_stream()
        self._take_in(consumer)
        consumer.start()
        return consumer

    def find_start(self, config: ConsumerConfig) -> Start | Pieces[Start]:
        """Return the start of a new consumer, or the work that finds it if that takes long."""
        log, patterns = self.stream.log, tuple(each.encode() for each in filters_of(config))
        if starts_with_lasts(config, self.stream.config):
            return self.find_lasts(patterns)
        start = find_start(log, config, patterns, one_per_subject=True)
        return with_count(log, start, patterns) if is_long(log, start.sseq, patterns) else start

    def find_lasts(self, patterns: tuple[bytes, ...]) -> Pieces[Start]:
        """Find the start of a consumer that begins with the last message of each subject."""
        lasts = LastOfEach(self.stream.log, patterns)
        self._gathering.append(lasts)
        self._listen()
        try:
            return (yield from last_per_subject(lasts))
        finally:
            self._gathering.remove(lasts)
            self._listen()

    def update(self, consumer: Consumer, config: ConsumerConfig, sifted: Sifted | None = None) -> None:
        """Apply another checked configuration; see ``on_outcome``, and ``Consumer.sift``."""
        consumer.update(config, sifted)
        consumer.keeper.configure(config, consumer.created_ns)

    def remove(self, consumer: Consumer) -> None:
        """Delete a consumer; see ``on_outcome``."""
        self._let_go(consumer)
        consumer.mode.deleted()
        consumer.keeper.delete()
        self.interest.given_back(self.interest.held_by(consumer))
        consumer.advisories.deleted()
        consumer.let_go()
        self.checkpoint_if_due()

    def on_outcome(self, callback: Callable[[StoreError | None], None]) -> None:
        """Call back when everything done so far is durable, or when a commit failed."""
        if self.journal is None:
            callback(None)
        else:
            self.journal.on_outcome(callback)

    def _take_in(self, consumer: Consumer) -> None:
        self._by_name[consumer.name] = consumer
        self.will_tell(consumer)
        self.interest.joined(consumer)
        self._count(1, consumer.config)
        self._listen()

    def _let_go(self, consumer: Consumer) -> None:
        consumer.stop()
        del self._by_name[consumer.name]
        self._told_ones.pop(consumer, None)
        self._held.pop(consumer, None)
        self.interest.left(consumer)
        self._count(-1, consumer.config)
        self._listen()

    def will_tell(self, consumer: Consumer) -> None:
        """Tell a consumer of removed messages from now on: it may have a note of some."""
        consumer.is_told = True
        self._told_ones[consumer] = None

    def _count(self, change: int, config: ConsumerConfig) -> None:
        self.count += change * (not config.direct)
        self.stream.account.consumers += change * (not config.direct)
        self.counted += change * counts(config)

    def _listen(self) -> None:
        """Make the log record removals if a consumer must be notified of them."""
        log = self.stream.log
        if not self._by_name and not self._gathering:
            log.gone = None
            log.keep_recent(False)
        elif log.gone is None:
            log.gone = [_UNKNOWN] if log.has_uncommitted() and not self.stream.in_memory else []

    def _keeper_of(self, consumer: Consumer) -> Keeper | NoKeeper:
        if self.stream.in_memory or consumer.config.mem_storage or consumer.config.direct:
            return NoKeeper()
        if self.journal is None:
            self.journal = self.stream.account.open_consumer_journal(self.stream)
        return Keeper(self.journal, consumer.name, consumer.ledger, self._write_later)

    # -- on disk ----------------------------------------------------------------------------------

    def recover(self, journal: Journal) -> None:
        """Restore the consumers in the journal."""
        self.journal = journal
        for name, found in journal.recover().items():
            if not valid_name(name):
                where = f"consumer {name!r} of {self.stream.name}"
                raise StoreError("start", where, "its name cannot be a token of a subject")
            consumer = Consumer(self.stream, name, found.config, found.created)
            keeper = Keeper(journal, name, consumer.ledger, self._write_later)
            keeper.restored(found.reserved)
            consumer.keeper = keeper
            state = found.state
            consumer.ledger.restore(
                state.pending,
                state.redelivered,
                (max(found.reserved, state.delivered_dseq), state.delivered_sseq),
                (state.floor_dseq, state.floor_sseq),
            )
            self._take_in(consumer)
        for letter in journal.letters.values():
            owner = self._by_name.get(letter.consumer)
            if (
                owner is not None
                and owner.created_ns == letter.created
                and letter.sseq in owner.ledger.pending
            ):
                owner.ledger.ack(letter.sseq)
        for consumer in self._by_name.values():
            consumer.go_on()
        self.interest.recovered()

    def put_back(
        self, name: str, config: ConsumerConfig, created_ns: int, state: ConsumerState | None
    ) -> None:
        """Restore a consumer of a restored stream; None: it starts.  ``all_are_back`` follows."""
        consumer = Consumer(self.stream, name, config, created_ns)
        consumer.keeper = self._keeper_of(consumer)
        if state is None:
            consumer.begin()
        else:
            consumer.ledger.restore(
                state.pending,
                state.redelivered,
                (state.delivered_dseq, state.delivered_sseq),
                (state.floor_dseq, state.floor_sseq),
            )
        consumer.keeper.create(config, created_ns)
        self._take_in(consumer)
        if state is not None:
            consumer.go_on()

    def all_are_back(self) -> None:
        """Finish a series of ``put_back``; ``start`` follows."""
        self.interest.recovered()

    def start(self) -> None:
        """Start all consumers, after ``recover``."""
        for consumer in self._by_name.values():
            consumer.start()

    def stop(self, *, records: bool = True) -> None:
        """Stop all consumers: notify their clients, and write everything.

        Without `records`, nothing more is written, because removals of the stream are not durable
        (``follow_stream``).
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.interest.stop()
        for consumer in (*self._by_name.values(), *self._ended):
            record = consumer.keeper.close if records else consumer.keeper.abandon
            for step in (consumer.mode.shut_down, consumer.stop, record):
                guard.alone("stopping a consumer", step)
        if self.journal is not None and records:
            self.journal.close()
        elif self.journal is not None:
            self.journal.abandon()
        self.journal = None

    def end(self) -> Pieces[None]:
        """Stop the consumers of a stream that is about to be deleted; ``abandon`` or ``go_on`` follows."""
        for consumer in list(self._by_name.values()):
            if self._by_name.get(consumer.name) is consumer:
                self._let_go(consumer)
                self._ended.append(consumer)
            yield _ENDING_COST

    def go_on(self) -> None:
        """Start the consumers again that ``end`` stopped, because their stream was not deleted."""
        ended, self._ended = self._ended, []
        for consumer in ended:
            if consumer.name not in self._by_name:
                self._take_in(consumer)
                consumer.start()

    def abandon(self) -> None:
        """Delete all consumers together with their stream; ``tell_ended`` follows."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.interest.stop()
        for consumer in list(self._by_name.values()):
            self._let_go(consumer)
            self._ended.append(consumer)
        for consumer in self._ended:
            consumer.keeper.abandon()
        if self.journal is not None:
            self.journal.abandon()
            self.journal = None

    def tell_ended(self) -> Pieces[None]:
        """Tell the clients of deleted consumers."""
        ended, self._ended = self._ended, []
        ended.reverse()
        while ended:
            consumer = ended.pop()  # freed one by one: freeing thousands at once blocks for long
            consumer.mode.deleted()
            consumer.advisories.deleted()
            consumer.let_go()
            yield _ENDING_COST

    def let_go(self) -> None:
        """Refer to the stream, which was deleted, only as long as somebody else does."""
        self.stream = weak = cast("Stream", weakref.proxy(self.stream))
        self.interest.let_go(weak)
        self._touched.clear()
        self._waiting_to_pass = None

    def forget(self) -> None:
        """Drop all consumers of a stream whose restore failed; no client knows them."""
        self.interest.stop()
        self.stream.account.consumers -= self.count
        self.count = self.counted = 0
        for consumer in self._by_name.values():
            self.interest.left(consumer)
            consumer.let_go()
        self._by_name.clear()
        self._told_ones.clear()
        if self.journal is not None:
            self.journal.abandon()
            self.journal = None

    def _write_later(self, keeper: Keeper) -> None:
        self._touched.append(keeper)
        if self._timer is None:
            self._timer = self.stream.world.call_later(_WRITE_AFTER_S, self._write)

    def _write(self) -> None:
        self._timer = None
        touched, self._touched = self._touched, []
        slices.begin(self.stream.world, "keeping consumers", self._write_all(touched))

    def _write_all(self, touched: list[Keeper]) -> Pieces[None]:
        for keeper in touched:
            while keeper.planned:
                more = False
                try:
                    more = keeper.write_some()
                except Exception as error:
                    guard.report("keeping a consumer", error)
                yield _WRITING_COST if not more else MOST_ITEMS
                keeper.planned |= more
        if self.journal is not None:
            self.stream.account.committer.dirty(self.journal)
        self.checkpoint_if_due()

    def checkpoint_if_due(self) -> None:
        journal = self.journal
        if journal is not None and journal.due_checkpoint and not journal.checkpointing:
            journal.checkpoint(self._alive())

    def _alive(self) -> Iterator[Alive]:
        for consumer in list(self._by_name.values()):
            if isinstance(consumer.keeper, Keeper) and self._by_name.get(consumer.name) is consumer:
                yield Alive(
                    consumer.name,
                    consumer.created_ns,
                    partial(getattr, consumer, "config"),
                    consumer.keeper.copy_state,
                )

    # -- what is removed, but not durably ---------------------------------------------------------

    def follow_stream(self) -> None:
        """Delay the journal's next commit until everything that the stream removed is gone durably.

        Otherwise a power cut could bring back a message that a consumer has passed and will not deliver.
        """
        stream, journal = self.stream, self.journal
        if journal is not None and stream.log.gone:
            committer = stream.account.committer
            committer.hold(journal)
            stream.on_durable(lambda: committer.release(journal))

    def may_pass_removed(self, consumer: Consumer) -> bool:
        """Return True if a consumer may pass removed messages now; if not, it is woken when it may.

        A power cut brings a message back whose removal is not durable, and the consumer must not be behind it
        then.  A consumer in the journal passes it, and the journal waits.  The client of any other, as an
        ordered reader or a mirror, goes on by itself from what it got, so the message is passed later.
        """
        if self.stream.in_memory:
            return True
        if consumer.ledger.journaled:
            return self._may_pass_in_journal(consumer.wake)
        return self._has_waited(consumer)

    def _may_pass_in_journal(self, wake: Callable[[], None]) -> bool:
        """Let the journal wait for the removals.

        While it does, no further ones are passed: where every message displaces another, the journal would
        wait for ever.
        """
        log = self.stream.log
        removals = log.last_seq - log.messages
        if self._waiting_to_pass is None:
            if not log.gone:
                return True
            self._removals, self._waiting_to_pass = removals, []
            self.follow_stream()
            self.stream.on_durable(self._followed)
        elif removals != self._removals:
            self._waiting_to_pass.append(wake)
            return False
        return True

    def _followed(self) -> None:
        waiting, self._waiting_to_pass = self._waiting_to_pass, None
        for wake in waiting or ():
            wake()

    def _has_waited(self, consumer: Consumer) -> bool:
        """Return True if what was removed when the consumer began to wait is gone durably.

        It does not wait for what was removed since: where every message displaces another, it would wait for
        ever.
        """
        log = self.stream.log
        if not log.gone or self._held.get(consumer) == _MAY_PASS:
            self._held.pop(consumer, None)
            return True
        if consumer not in self._held:
            removals = self._held[consumer] = log.last_seq - log.messages
            self.stream.on_durable(partial(self._let_pass, consumer, removals))
        return False

    def _let_pass(self, consumer: Consumer, removals: int) -> None:
        if self._held.get(consumer) == removals:  # and not those of a later wait
            self._held[consumer] = _MAY_PASS
            consumer.wake()

    # -- what the stream says ---------------------------------------------------------------------

    def tell_gone(self, sseqs: list[int]) -> None:
        """Notify consumers of messages whose removal is durable.

        Most have no note of any message, and find out with their next count (``told_removals``).
        """
        log = self.stream.log
        self.told.add(sseqs, log.last_seq - log.messages - len(log.gone or ()))
        waiting = []
        for lasts in self._gathering:
            lasts.removed(sseqs)
        for consumer in [each for each in self._told_ones if not each.feed.holds()]:
            consumer.is_told = False
            del self._told_ones[consumer]
        for consumer in list(self._told_ones):
            ledger = consumer.ledger
            consumer.feed.removed(sseqs)
            if ledger.pending or ledger.redelivered:
                waiting.append(consumer)
            if consumer.feed.is_freed():
                consumer.wake()
        unsettled = self.interest.not_released(sseqs)
        if waiting and unsettled:
            slices.begin(self.stream.world, "telling what is gone", _missed(waiting, unsettled))

    def retention_changed(self) -> None:
        """Apply a changed retention of the stream."""
        for consumer in self._by_name.values():
            consumer.acknowledging.configure()
        self.interest.retention_changed()

    def take_gone(self) -> list[int]:
        """Return the messages removed since the last call; consumers are not notified of them."""
        log = self.stream.log
        gone, log.gone = log.gone or [], None
        self.interest.not_released(gone)
        self.told.add(gone, log.last_seq - log.messages)
        self._listen()
        return gone

    def purged(self, subject: bytes | None, gone: list[int]) -> Pieces[None]:
        """Notify consumers of a purge; there are no advisories for unacknowledged messages.

        `gone` also has messages that were deleted before, and lie anywhere.
        """
        log, lost, highest = self.stream.log, set(gone), max(gone, default=0)
        left = -1  # unknown
        for lasts in self._gathering:
            lasts.removed(gone)
            lasts.skip_to(log.first_seq)
        consumers = self._by_name.values() if subject is None else self.interest.touched_by(subject)
        for number, consumer in enumerate(list(consumers), 1):
            if self._by_name.get(consumer.name) is not consumer:
                continue
            consumer.feed.removed(gone)
            if subject is None:
                if highest >= log.first_seq:
                    yield from consumer.lost(lost)
                yield from consumer.purged(log.first_seq)
            elif consumer.patterns and all(is_subset(pattern, subject) for pattern in consumer.patterns):
                if left < 0:
                    left = log.next_match(log.first_seq, subject)
                if 0 < left <= highest:
                    yield from consumer.lost(lost)
                yield from consumer.purged(left or log.last_seq + 1)
            else:
                yield from consumer.lost(lost)
                yield from consumer.purged(min(log.first_seq, consumer.feed.next_sseq))
            if number % _TOLD_AT_ONCE == 0:
                left = -1  # others may have come
                yield _TOLD_AT_ONCE


def _missed(consumers: list[Consumer], sseqs: list[int]) -> Pieces[None]:
    """Notify consumers of messages that were removed without an ack."""
    sseqs = sorted(sseqs)
    for consumer in consumers:
        ledger = consumer.ledger
        for start in range(0, len(sseqs), _LOOKED_UP):
            cost = 1
            for sseq in sseqs[start : start + _LOOKED_UP]:
                if sseq in ledger.pending or sseq in ledger.redelivered:
                    guard.alone("telling what is gone", consumer.message_removed, sseq)
                    cost += _MISSED_COST
            yield cost
            if not consumer.running:
                break
