"""Streams that keep a message only while a consumer needs it: `interest` and `workqueue` retention.

An acknowledged message leaves the stream when no other consumer waits for it.  Messages given up after too
many deliveries stay, for inspection.

When a consumer is deleted or changes its filters, messages that only it may have held are checked in slices,
so that others have their turn.  Each message is checked when its turn comes, so changes meanwhile cannot make
the result wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.base import slices
from millstream.base.paged_map import Page
from millstream.base.slices import Pieces
from millstream.jsapi.enums import RetentionPolicy
from millstream.store.errors import StoreError
from millstream.subjects.filter_index import FilterIndex

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.jetstream.ports import Cancel
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_COST: Final = 4  # items of a slice that a message counts for at least
_RETRY_S: Final = 10.0  # after a read that failed


class Held(NamedTuple):
    """The messages that a consumer may hold in a stream: single messages, and everything from `since` on."""

    since: int
    singles: list[Page]


class Interest:
    """The interest of all consumers of one stream."""

    def __init__(self, stream: Stream, consumers: Mapping[str, Consumer]) -> None:
        self._stream = stream
        self._consumers = consumers  # by name
        self.index = FilterIndex()  # of consumers
        self._released: set[int] = set()  # removed after acks; consumers have not been told
        self._refiltered = False  # a consumer may have pending messages that its filters do not match
        self._needed_by: Consumer | None = None  # the last message that was asked about
        self._pages: list[Page] = []  # with messages to look at
        self._singles: list[int] = []  # to look at before that, and then all
        self._next = 0  # from here
        self._last = 0  # to here
        self._planned = False
        self._retry: Cancel | None = None

    @property
    def _rules(self) -> bool:
        return self._stream.config.retention is not RetentionPolicy.LIMITS

    def wants(self, subject: bytes) -> bool:
        """Return True if a consumer would get a message on `subject`; ``>`` means any message."""
        return bool(self._consumers if subject == b">" else self.index.find(subject))

    def touched_by(self, pattern: bytes) -> Iterable[Consumer]:
        """Return the consumers that may get messages of a pattern."""
        return dict.fromkeys(consumer for group in self.index.colliding(pattern) for consumer in group)

    def joined(self, consumer: Consumer) -> None:
        self.index.add(consumer.patterns, consumer)

    def left(self, consumer: Consumer) -> None:
        self.index.discard(consumer.patterns, consumer)

    def refiltered(self, consumer: Consumer, before: tuple[bytes, ...]) -> None:
        """Apply the changed filters of a consumer; `before` are the previous ones."""
        self.index.discard(before, consumer)
        self.index.add(consumer.patterns, consumer)
        self._refiltered = True

    def not_released(self, gone: list[int]) -> list[int]:
        """Return the messages in `gone` that consumers may wait for.

        No consumer waits for a message that was removed after an ack.  Each message is asked about once.
        """
        released = self._released
        if not released:
            return gone
        unsettled = [sseq for sseq in gone if sseq not in released]
        released.difference_update(gone)
        return gone if self._refiltered else unsettled

    # -- after acks -------------------------------------------------------------------------------

    def settled(self, sseqs: Iterable[int]) -> None:
        """Remove messages that a consumer has settled, unless others need them."""
        if self._rules:
            removed = [self._release(sseq) for sseq in sseqs]
            if any(removed):
                self._stream.account.committer.dirty(self._stream)

    def settled_one(self, sseq: int) -> None:
        """Remove a message that a consumer has settled, unless others need it."""
        if self._rules and self._release(sseq):
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
        """Remove a message unless a consumer needs it, or `settled_by` does not match its subject.

        Where the disk cannot be read, that is tried again later.
        """
        try:
            return self._try_to_release(sseq, settled_by)
        except StoreError as error:
            self._singles.append(sseq)
            self._look_later(error)
            return False

    def _try_to_release(self, sseq: int, settled_by: Consumer | None) -> bool:
        subject = self._stream.log.subject_of(sseq)
        if subject is None or (settled_by is not None and not self._covers(settled_by, subject)):
            return False
        if self._is_needed(sseq, subject) or not self._stream.log.remove(sseq):
            return False
        if self._stream.log.gone is not None:  # consumers will be told
            self._released.add(sseq)
        return True

    def _is_needed(self, sseq: int, subject: bytes) -> bool:
        last = self._needed_by  # where many acknowledge the same messages, it mostly is the same one again
        if last is not None and last.running and _needs(last, sseq, subject) and self._covers(last, subject):
            return True
        for group in self.index.find(subject):
            for consumer in group:
                if _needs(consumer, sseq, subject):
                    self._needed_by = consumer
                    return True
        return False

    def _covers(self, consumer: Consumer, subject: bytes) -> bool:
        return any(consumer in group for group in self.index.find(subject))

    # -- when consumers change --------------------------------------------------------------------

    def held_by(self, consumer: Consumer) -> Held:
        """Return what the consumer holds; call it before the consumer changes, then ``given_back``."""
        ledger = consumer.ledger
        return Held(ledger.floor_sseq + 1, ledger.redelivered.pages())

    def given_back(self, held: Held) -> None:
        """Remove what only a deleted or changed consumer needed."""
        if self._stream.config.retention is RetentionPolicy.INTEREST:
            if not self._consumers:
                self._stream.log.remove_below(self._stream.log.last_seq + 1)
                self._stream.account.committer.dirty(self._stream)
                return
            self._pages += held.singles
            self._look_through(held.since, self._stream.log.last_seq)

    def recovered(self) -> None:
        """Remove messages after a restart whose acks survived but whose removal did not."""
        log, consumers = self._stream.log, self._consumers.values()
        if self._rules and consumers:
            last = max(consumer.ledger.delivered_sseq for consumer in consumers)
            interest = self._stream.config.retention is RetentionPolicy.INTEREST
            self._look_through(log.first_seq, log.last_seq if interest else last)

    def retention_changed(self) -> None:
        """Check all messages after the retention changed."""
        if self._rules and self._consumers:
            self._look_through(self._stream.log.first_seq, self._stream.log.last_seq)

    def stop(self) -> None:
        """Stop removing messages."""
        self._last = 0
        self._pages = []
        self._singles = []
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._released.clear()
        self._needed_by = None

    def let_go(self, stream: Stream) -> None:
        """Use another reference to the stream from now on, which is a weak one."""
        self._stream = stream

    def _look_through(self, first: int, last: int) -> None:
        """Start checking a range of messages, and remove those that nobody needs."""
        if self._planned:
            self._next, self._last = min(self._next, first), max(self._last, last)
        else:
            self._next, self._last = first, last
            self._look()

    def _look(self) -> None:
        if not self._planned:
            self._planned = True
            slices.begin(self._stream.world, "interest", self._let_go())

    def _look_later(self, error: StoreError) -> None:
        if self._retry is None:
            _log.error("stream %s: messages could not be removed yet: %s", self._stream.name, error)
            self._retry = self._stream.world.call_later(_RETRY_S, self._look_again)

    def _look_again(self) -> None:
        self._retry = None
        self._look()

    def _let_go(self) -> Pieces[None]:
        """Remove unneeded messages: `_pages`, `_singles`, `_next` to `_last`; all may change meanwhile."""
        stream = self._stream
        sseq = 0
        try:
            while sseq := self._next_to_look_at():
                subject = stream.log.subject_of(sseq)
                if subject is not None and not self._is_needed(sseq, subject) and self._may_go(subject):
                    stream.log.remove(sseq)
                    stream.account.committer.dirty(stream)
                yield max(len(self._consumers), _COST)
        except StoreError as error:
            if sseq:
                self._singles.append(sseq)
            self._look_later(error)
        finally:
            self._planned = False

    def _next_to_look_at(self) -> int:
        """Return the sequence of the next message to check; 0 if there is none."""
        if not self._rules:
            self._pages = []
            self._singles = []
            return 0  # the stream keeps everything now
        if self._pages and not self._singles:
            start, page = self._pages.pop()
            self._singles = [start + place for place in page]
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
    """Return True if the consumer needs a message, provided that its filters match the subject."""
    keys = consumer.feed.keys
    if keys is not None and keys.holds(sseq, subject):
        return True
    return consumer.ledger.needs(sseq, consumer.feed.next_sseq)
