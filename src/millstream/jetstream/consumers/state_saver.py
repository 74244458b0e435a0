"""Decide what one consumer records in the journal, and when.

Deliveries and plain acks are recorded a moment later, many at a time; what was promised (a double ack) is
recorded at once and confirmed when it is durable.  Deliveries may run ahead of the journal only as far as it
has *reserved* numbers, so that no number is ever used twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base.build import pure_requested
from millstream.base.slices import Pieces
from millstream.jetstream.consumers.saved_state import Changes, OpenLetter
from millstream.jsapi.consumer_types import ConsumerState

if TYPE_CHECKING:
    from millstream.jetstream.consumers.entries import StateCopy
    from millstream.jetstream.consumers.journal import Journal
    from millstream.jetstream.consumers.ledger import Ledger
    from millstream.jsapi.consumer_types import ConsumerConfig
    from millstream.store.errors import StoreError

FIRST_BLOCK: Final = 256
_LARGEST_BLOCK: Final = 65536
_TOLD_AT_ONCE: Final = 32 if pure_requested() else 2048  # messages of each kind
_COPIED_AT_ONCE: Final = 16 if pure_requested() else 512  # messages
_UNBOUNDED: Final = 2**62


class Keeper:
    """The keeper of one durable consumer."""

    durable = True

    def __init__(self, journal: Journal, name: str, ledger: Ledger, later: Callable[[Keeper], None]) -> None:
        self._journal = journal
        self._name = name
        self._ledger = ledger
        self._later = later  # asks for a call of ``write`` in a moment
        self._block = FIRST_BLOCK
        self._reserved = 0  # deliveries up to this number may go out
        self._asked = 0  # reserved, but not durable yet
        self._wake: Callable[[], None] | None = None
        self.planned = False  # a call of ``write`` is on its way
        ledger.journaled = True
        self._closed = False  # what still happens is not told any more: its name may be another's

    # -- life -------------------------------------------------------------------------------------

    def create(self, config: ConsumerConfig, created_ns: int) -> None:
        """Record a new consumer; ``when_durable`` reports when that is durable."""
        self._reserved = self._asked = FIRST_BLOCK
        self._journal.put_config(self._name, config, created_ns, state_of(self._ledger), FIRST_BLOCK)
        self._ledger.take_changes()

    def restored(self, reserved: int) -> None:
        """Continue with the state from the journal."""
        self._reserved = self._asked = reserved

    def configure(self, config: ConsumerConfig, created_ns: int) -> None:
        self._journal.put_config(self._name, config, created_ns)

    def reset(self) -> None:
        """Record a consumer that starts again."""
        self._ledger.take_changes()
        self._reserved = self._asked = self._block
        self._journal.snapshot(self._name, state_of(self._ledger), self._reserved)

    def close(self) -> None:
        """Record exactly what was used, at a clean stop."""
        self._ledger.take_changes()
        self._journal.snapshot(self._name, state_of(self._ledger), self._ledger.delivered_dseq)
        self.abandon()

    def delete(self) -> None:
        self._journal.delete(self._name)
        self.abandon()

    def abandon(self) -> None:
        """Stop recording: the journal is closed, or the consumer was removed from it."""
        self._closed = True
        self._wake = None
        self.planned = False  # who calls ``write`` looks at that

    # -- what happened ----------------------------------------------------------------------------

    def touch(self) -> None:
        """Schedule ``write`` for a change that can wait a moment."""
        if not self.planned and not self._closed:
            self.planned = True
            self._later(self)

    def write(self) -> None:
        """Record all changes."""
        while self.write_some():
            pass

    def write_some(self) -> bool:
        """Record some of the changes; return True if there are more."""
        self.planned = False
        if self._ledger.changed and not self._closed:
            self._write(0)
        return self._ledger.changed and not self._closed

    def _write(self, reserve: int) -> Changes:
        ledger = self._ledger
        pending, gone, redelivered = ledger.take_changes(_TOLD_AT_ONCE)
        changes = Changes(
            ledger.told_dseq,
            ledger.told_sseq,
            ledger.floor_dseq,
            ledger.floor_sseq,
            reserve,
            pending,
            gone,
            redelivered,
        )
        self._journal.change(self._name, changes)
        return changes

    def when_durable(self, callback: Callable[[StoreError | None], None]) -> None:
        """Record all changes now, and call back when they are durable."""
        self.write()
        self._journal.on_outcome(callback)

    def when_known(self, callback: Callable[[], None]) -> None:
        """Record all changes now, and call back when they are durable, after however many attempts."""
        self.write()
        self._journal.when_kept(callback)

    def keep_letter(self, letter: OpenLetter, kept: Callable[[], None]) -> Callable[[], None]:
        """Record a dead letter, and call `kept` when that is durable.

        Returns a function to call when its message is settled and it is durable in its stream.
        """
        journal = self._journal
        number = journal.put_letter(letter)
        journal.when_kept(kept)

        def stored() -> None:
            self.write()  # the settled message first: without its letter it would be delivered again
            journal.letter_stored(number)

        return stored

    def copy_state(self, copy: StateCopy) -> Pieces[Changes | None]:
        """Copy the whole state as the journal has it, which adds what it is told meanwhile.

        Returns the last changes that it was told, or None if the consumer ended before.
        """
        while not self._closed:
            resets = self._ledger.resets
            copy.clear()
            yield from self._copy_lists(copy)
            if self._ledger.resets == resets and not self._closed:
                return self._write(0)
        return None

    def _copy_lists(self, copy: StateCopy) -> Pieces[None]:
        more, sseq = 1, 0
        while more:
            more, pending = self._ledger.known_after(sseq, _COPIED_AT_ONCE)
            copy.add(pending, [], [])
            yield len(pending)
            sseq = more
        copy.add(self._ledger.known_heads(), [], [])
        yield 1
        more, sseq = 1, 0
        while more:
            more, counts = self._ledger.counts_after(sseq, _COPIED_AT_ONCE)
            copy.add([], [], counts)
            yield len(counts)
            sseq = more

    # -- how far deliveries may go ----------------------------------------------------------------

    def room(self, wake: Callable[[], None]) -> int:
        """Return how many deliveries may be sent before the next call; if none, `wake` is called later."""
        delivered = self._ledger.delivered_dseq
        if self._asked == self._reserved and self._reserved - delivered < self._block // 2:
            self._reserve(delivered)
        left = self._reserved - delivered
        if left <= 0:
            self._wake = wake
            return 0
        return left if self._asked != self._reserved else left - self._block // 2 + 1

    def _reserve(self, delivered: int) -> None:
        self._block = min(self._block * 2, _LARGEST_BLOCK)
        asked = self._asked = max(delivered, self._reserved) + self._block
        self._write(asked)
        if self._ledger.changed:
            self.touch()

        def durable() -> None:
            if asked != self._asked:
                return  # it was reset meanwhile
            self._reserved = asked
            wake, self._wake = self._wake, None
            if wake is not None:
                wake()

        self._journal.on_durable(durable)


class NoKeeper:
    """The keeper of a consumer in memory; records nothing."""

    durable = False

    def create(self, config: ConsumerConfig, created_ns: int) -> None:
        pass

    def configure(self, config: ConsumerConfig, created_ns: int) -> None:
        pass

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass

    def delete(self) -> None:
        pass

    def abandon(self) -> None:
        pass

    def touch(self) -> None:
        pass

    def write(self) -> None:
        pass

    def write_some(self) -> bool:
        return False

    def when_durable(self, callback: Callable[[StoreError | None], None]) -> None:
        callback(None)

    def when_known(self, callback: Callable[[], None]) -> None:
        callback()

    def keep_letter(self, letter: OpenLetter, kept: Callable[[], None]) -> Callable[[], None]:
        return kept  # nothing else shows that the message is settled

    def room(self, wake: Callable[[], None]) -> int:
        return _UNBOUNDED


def state_of(ledger: Ledger) -> ConsumerState:
    return ConsumerState(
        ledger.delivered_dseq,
        ledger.delivered_sseq,
        ledger.floor_dseq,
        ledger.floor_sseq,
        {sseq: (entry.dseq, entry.at) for sseq, entry in ledger.pending.items()}
        | {sseq: (0, mark) for sseq, mark in ledger.heads()},
        dict(ledger.redelivered),
    )


def portable_state_of(ledger: Ledger) -> ConsumerState:
    """Return the state for servers without parked messages: all from the first one on go out again."""
    state = state_of(ledger)
    heads = ledger.heads()
    if heads:
        last = heads[0][0] - 1
        state.delivered_sseq = min(state.delivered_sseq, last)
        state.pending = {sseq: each for sseq, each in state.pending.items() if sseq <= last}
        state.redelivered = {sseq: each for sseq, each in state.redelivered.items() if sseq <= last}
    return state
