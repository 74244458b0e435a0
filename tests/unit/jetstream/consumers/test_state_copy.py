"""The state of a consumer that is copied for a checkpoint while it changes."""

from __future__ import annotations

from random import Random

import pytest

from millstream.base.slices import Pieces
from millstream.jetstream.consumers import state_saver
from millstream.jetstream.consumers.entries import StateCopy
from millstream.jetstream.consumers.journal import Alive, Changes
from millstream.jetstream.consumers.ledger import Ledger
from millstream.jetstream.consumers.state_saver import Keeper, state_of
from tests.kits.jetstream.journal import CREATED, Desk, config_of

SECOND = 1_000_000_000


class Kept:
    """A consumer with a ledger and a keeper, whose copies take as many turns as the test wants."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.config = config_of("a")
        self.ledger = Ledger()
        self.ledger.ack_wait = 30 * SECOND
        self.keeper = Keeper(desk.journal, "a", self.ledger, lambda _: None)
        self.keeper.create(self.config, CREATED)

    def deliver(self, count: int, now: int = SECOND) -> None:
        for _ in range(count):
            self.ledger.deliver(self.ledger.delivered_sseq + 1, now)

    def alive(self) -> Alive:
        return Alive("a", CREATED, lambda: self.config, self._copy_slowly)

    def _copy_slowly(self, copy: StateCopy) -> Pieces[Changes | None]:
        pieces = self.keeper.copy_state(copy)
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                last: Changes | None = end.value
                return last
            yield 1024  # so that each piece has a turn of its own

    def found(self) -> tuple[object, ...]:
        """Return what a restart finds, as far as the ledger has it."""
        state = self.desk.copy().state("a")
        return state.pending, state.redelivered, state.delivered_sseq, state.floor_sseq

    def kept(self) -> tuple[object, ...]:
        state = state_of(self.ledger)
        return state.pending, state.redelivered, state.delivered_sseq, state.floor_sseq


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(state_saver, "_COPIED_AT_ONCE", 8)
    return Kept(Desk())


def take_away_all_but_the_checkpoint(desk: Desk, begun: int) -> None:
    """Leave a restart nothing but what the checkpoint and later entries say."""
    desk.journal.log.remove_below(begun)
    desk.committer.dirty(desk.journal)
    desk.settle()


@pytest.mark.parametrize("seed", range(40))
def test_a_copy_is_the_state_at_its_end_whatever_happens_meanwhile(consumer: Kept, seed: int) -> None:
    random, ledger, desk = Random(seed), consumer.ledger, consumer.desk
    consumer.deliver(100)
    consumer.keeper.write()
    consumer.deliver(random.randrange(20))  # which the journal does not know of
    desk.settle()
    begun = desk.journal.log.last_seq + 1
    desk.journal.checkpoint([consumer.alive()])
    turns = 0
    while desk.journal._writing:
        turns += 1
        for _ in range(random.randrange(6)):
            pending = list(ledger.pending)
            match random.randrange(6):
                case 0:
                    consumer.deliver(3, 5 * SECOND)
                case 1:
                    ledger.progress(random.choice(pending), 7 * SECOND)
                case 2:
                    ledger.nak(random.choice(pending))
                    assert ledger.next_again()
                    ledger.deliver_again(ledger.next_again(), 9 * SECOND)
                case 3 | 4:
                    ledger.ack(random.choice(pending))
                case _:
                    consumer.keeper.write_some()
        desk.world.settle_once()
    assert turns > 5
    consumer.keeper.write()
    desk.settle()
    assert not desk.journal.checkpointing
    assert consumer.found() == consumer.kept()
    take_away_all_but_the_checkpoint(desk, begun)
    assert consumer.found() == consumer.kept()


def test_a_copy_begins_anew_when_the_consumer_does(consumer: Kept) -> None:
    desk = consumer.desk
    consumer.deliver(100)
    consumer.keeper.write()
    desk.settle()
    begun = desk.journal.log.last_seq + 1
    desk.journal.checkpoint([consumer.alive()])
    desk.world.settle_once()
    consumer.ledger.reset(50)
    consumer.keeper.reset()
    consumer.deliver(3)
    consumer.keeper.write()
    desk.settle()
    assert not desk.journal.checkpointing
    take_away_all_but_the_checkpoint(desk, begun)
    assert consumer.found() == consumer.kept()
    assert set(consumer.ledger.pending) == {50, 51, 52}


def test_a_consumer_that_is_deleted_or_changed_meanwhile_stays_so(consumer: Kept) -> None:
    desk = consumer.desk
    consumer.deliver(100)
    consumer.keeper.write()
    desk.settle()
    desk.journal.checkpoint([consumer.alive()])
    desk.world.settle_once()
    consumer.config = config_of("a", "other")
    consumer.keeper.configure(consumer.config, CREATED)
    desk.settle()
    assert desk.copy().found["a"].config.description == "other"
    desk.journal.checkpoint([consumer.alive()])
    desk.world.settle_once()
    consumer.keeper.delete()
    desk.settle()
    assert not desk.journal.checkpointing
    assert desk.copy().found == {}


def test_a_journal_may_be_closed_in_the_middle_of_a_copy(consumer: Kept) -> None:
    desk = consumer.desk
    consumer.deliver(100)
    consumer.keeper.write()
    desk.settle()
    desk.journal.checkpoint([consumer.alive()])
    desk.world.settle_once()
    consumer.keeper.close()
    kept = consumer.kept()
    again = desk.restarted()
    desk.settle()  # what is left of the copy does nothing
    assert again.state("a").pending == kept[0]
