"""Rebuild the consumers from the entries of a journal, read in order.

Every entry about a consumer's state has a `link`, one more than the previous entry.  If one is missing, an
entry was lost: to damage, or to a power loss during a write that was never confirmed.  The following entries
are then used only as far as they are true by themselves (``Changes.apply_after_loss``), until a snapshot
contains everything again.  So a loss costs redeliveries, and never a message:

    lost                              what is left
    CHANGES, with more after them     the state before; floors and settled messages of those after
    CHANGES, the last ones            the state before: what they recorded is redelivered
    SNAPSHOT, CONFIG with a state     the state before; there is one, since the journal keeps two of each
    CONFIG                            the other of two; if that is lost too, the one before, or nothing at
                                      all: then the consumer is gone, and that is reported
    DELETED                           the other of two; if that is lost too, the consumer is back

A consumer is identified by its number, which is never reused, so entries of a deleted one do not affect
another with the same name.
"""

from __future__ import annotations

from millstream.jetstream.consumers.entries import ConsumerEntry, EntryKind
from millstream.jetstream.consumers.saved_state import Changes, OpenLetter
from millstream.jsapi.consumer_types import ConsumerState


class ReplayedConsumer:
    """A consumer, as far as the entries read so far tell."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = ""  # not known: no configuration was read yet
        self.created = 0
        self.config = b""
        self.state = ConsumerState()
        self.link = -1  # of the last entry; -1: none told the whole state yet
        self.reserved = 0
        self.torn = False  # an entry is missing

    def begin(self, link: int, changes: Changes) -> None:
        """Start from a whole state."""
        self.state = ConsumerState()
        changes.apply(self.state)
        self.reserved = max(changes.reserved, changes.delivered_dseq)
        self.link = link
        self.torn = False

    def go_on(self, link: int, changes: Changes) -> None:
        if self.torn or self.link < 0 or link != self.link + 1:
            self.torn = True
            changes.apply_after_loss(self.state)
        else:
            changes.apply(self.state)
        self.reserved = max(self.reserved, changes.reserved, changes.delivered_dseq)
        self.link = max(self.link, link)


class ConsumerReplay:
    """All consumers of a journal."""

    def __init__(self) -> None:
        self._consumers: dict[int, ReplayedConsumer] = {}
        self._by_name: dict[str, ReplayedConsumer] = {}
        self.letters: dict[int, OpenLetter] = {}  # by their numbers: those that may not be stored
        self.checkpoint = 0  # the first sequence of the last one; 0: there was none

    def take(self, entry: ConsumerEntry) -> None:
        """Apply the next readable entry."""
        if entry.kind is EntryKind.DELETED:
            self._drop(entry.number)
            return
        if entry.kind is EntryKind.CHECKPOINT:
            self.checkpoint = max(self.checkpoint, entry.number)
            return
        if entry.letter is not None:
            self.letters[entry.number] = entry.letter
            return
        if entry.kind is EntryKind.STORED:
            self.letters.pop(entry.number, None)
            return
        consumer = self._consumers.get(entry.number)
        if consumer is None:
            consumer = self._consumers[entry.number] = ReplayedConsumer(entry.number)
        if entry.kind is EntryKind.CONFIG:
            self._name(consumer, entry)
        if entry.changes is None:
            return
        if entry.kind is EntryKind.CHANGES:
            consumer.go_on(entry.link, entry.changes)
        else:
            consumer.begin(entry.link, entry.changes)

    def _name(self, consumer: ReplayedConsumer, entry: ConsumerEntry) -> None:
        other = self._by_name.get(entry.name)
        if other is not None and other is not consumer:
            self._drop(other.number)  # that it was deleted is lost
        consumer.name = entry.name
        consumer.created = entry.created
        consumer.config = entry.config
        self._by_name[entry.name] = consumer

    def _drop(self, number: int) -> None:
        consumer = self._consumers.pop(number, None)
        if consumer is not None and self._by_name.get(consumer.name) is consumer:
            del self._by_name[consumer.name]

    def consumers(self) -> list[ReplayedConsumer]:
        """Return all consumers, oldest first."""
        return [each for _, each in sorted(self._consumers.items()) if each.name]

    def nameless(self) -> list[int]:
        """Return the numbers of consumers whose configuration is lost."""
        return sorted(number for number, each in self._consumers.items() if not each.name)
