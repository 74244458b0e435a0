"""Streams that keep a message only as long as some consumer needs it: `interest` and `workqueue` retention.

A message that was acknowledged leaves the stream when nobody else waits for it.  What was given up after
too many deliveries stays, for somebody to look at.

When a consumer goes or wants other messages, what it may have held back is looked through, a slice at a time
so that others have their turn: whether a message is needed is asked when its turn comes, so nothing that
happens meanwhile makes the answer wrong.
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
    """What a consumer may keep a stream from letting go: single messages, and all from `since` on."""

    since: int
    singles: tuple[int, ...]


class Interest:
    """Of all consumers of one stream."""

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
        """Whether any consumer would get a message on `subject`; ``>``: any message at all."""
        return any(_covers(consumer, subject) for consumer in self._manager.values())

    # -- after acks -------------------------------------------------------------------------------

    def settled(self, sseqs: Iterable[int]) -> None:
        """A consumer is done with these."""
        if self._rules:
            removed = [self._release(sseq) for sseq in sseqs]
            if any(removed):
                self._stream.account.committer.dirty(self._stream)

    def settled_up_to(self, consumer: Consumer) -> None:
        """The consumer, which wants no acks, has delivered up to its floor."""
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
        """Remove a message unless somebody needs it, or the one who is done with it never wanted it."""
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
        """To be asked before the consumer changes; ``given_back`` follows."""
        ledger = consumer.ledger
        return Held(ledger.floor_sseq + 1, tuple(ledger.redelivered))

    def given_back(self, held: Held) -> None:
        """A consumer is gone, or wants other messages than before: what only it needed may go."""
        if self._stream.config.retention is RetentionPolicy.INTEREST:
            if not self._manager:
                self._stream.log.remove_below(self._stream.log.last_seq + 1)
                self._stream.account.committer.dirty(self._stream)
                return
            self._singles += held.singles
            self._look_through(held.since, self._stream.log.last_seq)

    def recovered(self) -> None:
        """After a restart: acks may have survived that had not removed their messages yet."""
        log, consumers = self._stream.log, self._manager.values()
        if self._rules and consumers:
            last = max(consumer.ledger.delivered_sseq for consumer in consumers)
            interest = self._stream.config.retention is RetentionPolicy.INTEREST
            self._look_through(log.first_seq, log.last_seq if interest else last)

    def retention_changed(self) -> None:
        """The stream may keep messages only for consumers now."""
        if self._rules and self._manager:
            self._look_through(self._stream.log.first_seq, self._stream.log.last_seq)

    def stop(self) -> None:
        """Nothing is let go any more."""
        self._last = 0
        self._singles = []
        self._needed_by = None

    def _look_through(self, first: int, last: int) -> None:
        """What nobody needs of these messages goes."""
        if self._planned:
            self._next, self._last = min(self._next, first), max(self._last, last)
        else:
            self._next, self._last = first, last
            self._planned = True
            slices.begin(self._stream.world, "interest", self._let_go())

    def _let_go(self) -> Pieces[None]:
        """Remove what nobody needs of `_singles`, and from `_next` to `_last`; these may change meanwhile."""
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
        """Return the sequence of the next message to look at; 0 if that was all."""
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
        """A work queue keeps what no consumer has asked for yet."""
        return self._stream.config.retention is RetentionPolicy.INTEREST or self.wants(subject)


def _needs(consumer: Consumer, sseq: int, subject: bytes) -> bool:
    return consumer.ledger.needs(sseq, consumer.feed.next_sseq) and _covers(consumer, subject)


def _covers(consumer: Consumer, subject: bytes) -> bool:
    patterns = consumer.patterns
    return not patterns or subject == b">" or any(matches(subject, pattern) for pattern in patterns)
