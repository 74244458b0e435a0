"""Streams that keep a message only while a consumer needs it: `interest` and `workqueue` retention.

An acknowledged message leaves the stream when no other consumer waits for it.  Messages given up after too
many deliveries stay, for inspection.

When a consumer is deleted or changes its filters, messages that only it may have held are checked in slices,
so that others have their turn.  Each message is checked when its turn comes, so changes meanwhile cannot make
the result wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.base import slices
from millstream.base.slices import Pieces
from millstream.jsapi.enums import RetentionPolicy
from millstream.store.errors import StoreError
from millstream.subjects.match import matches

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.consumers.manager import ConsumerManager

_log = logging.getLogger("millstream.jetstream")

_COST: Final = 4  # items of a slice that a message counts for at least


class Held(NamedTuple):
    """The messages that a consumer may hold in a stream: single messages, and everything from `since` on."""

    since: int
    singles: tuple[int, ...]


class Interest:
    """The interest of all consumers of one stream."""

    def __init__(self, manager: ConsumerManager) -> None:
        self._manager = manager
        self._stream = manager.stream
        self._needed_by: Consumer | None = None  # the last message that was asked about
        self._singles: list[int] = []  # to look at, and then all
        self._next = 0  # from here
        self._last = 0  # to here
        self._planned = False

    @property
    def _rules(self) -> bool:
        return self._stream.config.retention is not RetentionPolicy.LIMITS

    def wants(self, subject: bytes) -> bool:
        """Return True if a consumer would get a message on `subject`; ``>`` means any message."""
        return any(_covers(consumer, subject) for consumer in self._manager.values())

    # -- after acks -------------------------------------------------------------------------------

    def settled(self, sseqs: Iterable[int]) -> None:
        """Remove messages that a consumer has settled, unless others need them."""
        if self._rules:
            removed = [self._release(sseq) for sseq in sseqs]
            if any(removed):
                self._stream.account.committer.dirty(self._stream)

    def settled_up_to(self, consumer: Consumer) -> None:
        """Remove messages up to the floor of a consumer that needs no acks."""
        log = self._stream.log
        removed = False
        sseq = log.next_seq(max(consumer.released + 1, log.first_seq))
        while 0 < sseq <= consumer.ledger.floor_sseq:
            removed |= self._release(sseq, consumer)
            sseq = log.next_seq(sseq + 1)
        consumer.released = consumer.ledger.floor_sseq
        if removed:
            self._stream.account.committer.dirty(self._stream)

    def _release(self, sseq: int, settled_by: Consumer | None = None) -> bool:
        """Remove a message unless a consumer needs it, or `settled_by` does not match its subject."""
        subject = self._stream.log.subject_of(sseq)
        if subject is None or (settled_by is not None and not _covers(settled_by, subject)):
            return False
        return not self._is_needed(sseq, subject) and self._stream.log.remove(sseq)

    def _is_needed(self, sseq: int, subject: bytes) -> bool:
        last = self._needed_by  # where many acknowledge the same messages, it mostly is the same one again
        if last is not None and last.running and _needs(last, sseq, subject):
            return True
        for consumer in self._manager.values():
            if _needs(consumer, sseq, subject):
                self._needed_by = consumer
                return True
        return False

    # -- when consumers change --------------------------------------------------------------------

    def held_by(self, consumer: Consumer) -> Held:
        """Return what the consumer holds; call it before the consumer changes, then ``given_back``."""
        ledger = consumer.ledger
        return Held(ledger.floor_sseq + 1, tuple(ledger.redelivered))

    def given_back(self, held: Held) -> None:
        """Remove what only a deleted or changed consumer needed."""
        if self._stream.config.retention is RetentionPolicy.INTEREST:
            if not self._manager:
                self._stream.log.remove_below(self._stream.log.last_seq + 1)
                self._stream.account.committer.dirty(self._stream)
                return
            self._singles += held.singles
            self._look_through(held.since, self._stream.log.last_seq)

    def recovered(self) -> None:
        """Remove messages after a restart whose acks survived but whose removal did not."""
        log, consumers = self._stream.log, self._manager.values()
        if self._rules and consumers:
            last = max(consumer.ledger.delivered_sseq for consumer in consumers)
            interest = self._stream.config.retention is RetentionPolicy.INTEREST
            self._look_through(log.first_seq, log.last_seq if interest else last)

    def retention_changed(self) -> None:
        """Check all messages after the retention changed."""
        if self._rules and self._manager:
            self._look_through(self._stream.log.first_seq, self._stream.log.last_seq)

    def stop(self) -> None:
        """Stop removing messages."""
        self._last = 0
        self._singles = []
        self._needed_by = None

    def _look_through(self, first: int, last: int) -> None:
        """Start checking a range of messages, and remove those that nobody needs."""
        if self._planned:
            self._next, self._last = min(self._next, first), max(self._last, last)
        else:
            self._next, self._last = first, last
            self._planned = True
            slices.begin(self._stream.world, "interest", self._let_go())

    def _let_go(self) -> Pieces[None]:
        """Remove unneeded messages in `_singles` and from `_next` to `_last`, which may change meanwhile."""
        stream = self._stream
        try:
            while sseq := self._next_to_look_at():
                subject = stream.log.subject_of(sseq)
                if subject is not None and not self._is_needed(sseq, subject) and self._may_go(subject):
                    stream.log.remove(sseq)
                    stream.account.committer.dirty(stream)
                yield max(len(self._manager), _COST)
        except StoreError as error:
            _log.error("stream %s keeps more than it should: %s", stream.name, error)
        finally:
            self._planned = False

    def _next_to_look_at(self) -> int:
        """Return the sequence of the next message to check; 0 if there is none."""
        if not self._rules:
            self._singles = []
            return 0  # the stream keeps everything now
        if self._singles:
            return self._singles.pop()
        log = self._stream.log
        sseq = log.next_seq(max(self._next, log.first_seq)) if self._last else 0
        self._next = sseq + 1
        return sseq if sseq <= self._last else 0

    def _may_go(self, subject: bytes) -> bool:
        """Return False for a message of a work queue that no consumer has asked for yet."""
        return self._stream.config.retention is RetentionPolicy.INTEREST or self.wants(subject)


def _needs(consumer: Consumer, sseq: int, subject: bytes) -> bool:
    return consumer.ledger.needs(sseq, consumer.feed.next_sseq) and _covers(consumer, subject)


def _covers(consumer: Consumer, subject: bytes) -> bool:
    patterns = consumer.patterns
    return not patterns or subject == b">" or any(matches(subject, pattern) for pattern in patterns)
