"""Streams that keep a message only as long as some consumer needs it: `interest` and `workqueue` retention.

A message that was acknowledged leaves the stream when nobody else waits for it.  What was given up after
too many deliveries stays, for somebody to look at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from millrace.jsapi.enums import RetentionPolicy
from millrace.store.record import Record
from millrace.subjects.match import matches

if TYPE_CHECKING:
    from millrace.jetstream.consumers.consumer import Consumer
    from millrace.jetstream.consumers.manager import ConsumerManager


class Interest:
    """Of all consumers of one stream."""

    def __init__(self, manager: ConsumerManager) -> None:
        self._manager = manager
        self._stream = manager.stream
        self._record = Record()

    @property
    def _rules(self) -> bool:
        return self._stream.config.retention is not RetentionPolicy.LIMITS

    def wants(self, subject: bytes) -> bool:
        """Whether any consumer would get a message on `subject`; ``>``: any message at all."""
        return any(_covers(consumer, subject) for consumer in self._manager.values())

    # -- after acks -------------------------------------------------------------------------------

    def settled(self, consumer: Consumer, sseqs: Iterable[int]) -> None:
        """The consumer is done with these."""
        if self._rules:
            removed = [self._release(sseq) for sseq in sseqs]
            if any(removed):
                self._stream.account.committer.dirty(self._stream)

    def settled_up_to(self, consumer: Consumer) -> None:
        """The consumer, which wants no acks, has delivered up to its floor."""
        log, record = self._stream.log, self._record
        removed = False
        sseq = log.next_seq(max(consumer.released + 1, log.first_seq))
        while 0 < sseq <= consumer.ledger.floor_sseq:
            if log.get(sseq, record) and _covers(consumer, record.subject()):
                removed |= self._release(sseq)
            sseq = log.next_seq(sseq + 1)
        consumer.released = consumer.ledger.floor_sseq
        if removed:
            self._stream.account.committer.dirty(self._stream)

    def _release(self, sseq: int) -> bool:
        """Remove a message unless somebody needs it."""
        log, record = self._stream.log, self._record
        if not log.get(sseq, record) or self._is_needed(sseq, record.subject()):
            return False
        return log.remove(sseq)

    def _is_needed(self, sseq: int, subject: bytes) -> bool:
        return any(
            consumer.ledger.needs(sseq, consumer.feed.next_sseq) and _covers(consumer, subject)
            for consumer in self._manager.values()
        )

    # -- when consumers change --------------------------------------------------------------------

    def given_back(self, consumer: Consumer) -> None:
        """The consumer is gone, or wants other messages than before: what only it needed may go."""
        if self._stream.config.retention is RetentionPolicy.INTEREST:
            self._release_all(self._stream.log.last_seq)

    def recovered(self) -> None:
        """After a restart: acks may have survived that had not removed their messages yet."""
        consumers = list(self._manager.values())
        if self._rules and consumers:
            self._release_all(max(consumer.ledger.delivered_sseq for consumer in consumers))

    def retention_changed(self) -> None:
        """The stream may keep messages only for consumers now."""
        if self._rules and self._manager:
            self._release_all(self._stream.log.last_seq)

    def _release_all(self, last: int) -> None:
        log, record = self._stream.log, self._record
        removed = False
        sseq = log.next_seq(log.first_seq)
        while 0 < sseq <= last:
            if log.get(sseq, record):
                subject = record.subject()
                if not self._is_needed(sseq, subject) and self._may_go(subject):
                    removed |= log.remove(sseq)
            sseq = log.next_seq(sseq + 1)
        if removed:
            self._stream.account.committer.dirty(self._stream)

    def _may_go(self, subject: bytes) -> bool:
        """A work queue keeps what no consumer has asked for yet."""
        return self._stream.config.retention is RetentionPolicy.INTEREST or self.wants(subject)


def _covers(consumer: Consumer, subject: bytes) -> bool:
    patterns = consumer.patterns
    return not patterns or subject == b">" or any(matches(subject, pattern) for pattern in patterns)
