"""Power cuts at every point of a journal's life: what was answered is there, the rest goes out again.

Consumers here are naive: a state, and lists of what the journal was not told yet.  `Truth` is what the
clients saw, which no power cut takes away.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from random import Random

import pytest

from millstream.jetstream.consumers.journal import Alive, Changes
from millstream.jsapi.consumer_types import ConsumerState
from millstream.store.errors import StoreError
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.jetstream.journal import Desk, alive, config_of

SIZES = {"segment_size": 6000, "smallest_log": 2000, "slice_size": 500}
NAMES = ("a", "b", "c")
BLOCK = 5  # deliveries that are reserved at a time


@dataclass
class Truth:
    """One consumer as its clients know it."""

    created: int
    answered: bool = False  # that it was created
    deleting: bool = False
    deleted: bool = False  # and answered
    version: int = 0  # of the configuration, asked for
    version_answered: int = 0
    highest_dseq: int = 0
    sent: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    acked_for_sure: set[int] = field(default_factory=set)  # answered


class Consumer:
    """One consumer as the server has it."""

    def __init__(self, desk: Desk, name: str, truth: Truth, state: ConsumerState, reserved: int) -> None:
        self.desk = desk
        self.name = name
        self.truth = truth
        self.state = state
        self.reserved = reserved  # durably
        self.reserving = reserved
        self.fresh: dict[int, None] = {}
        self.gone: list[int] = []
        self.counted: dict[int, None] = {}
        self.known = set(state.pending)  # to the journal, as pending

    def deliver(self, random: Random) -> None:
        state = self.state
        if state.delivered_dseq >= self.reserved:
            self.reserve()
            return
        state.delivered_dseq += 1
        if state.pending and random.random() < 0.3:
            sseq = random.choice(sorted(state.pending))
            state.redelivered[sseq] = state.redelivered.get(sseq, 0) + 1
            state.pending[sseq] = (state.pending[sseq][0], random.randrange(1000))
            self.counted[sseq] = None
        else:
            sseq = state.delivered_sseq + 1
            sseq += sseq % 3 == 0  # it is not interested in every third
            state.delivered_sseq = sseq
            state.pending[sseq] = (state.delivered_dseq, random.randrange(1000))
        self.fresh[sseq] = None
        self.truth.sent.add(sseq)
        self.truth.highest_dseq = max(self.truth.highest_dseq, state.delivered_dseq)

    def reserve(self) -> None:
        if self.reserving <= self.reserved:
            self.reserving = wanted = self.state.delivered_dseq + BLOCK
            self.write(wanted)

            def durable(error: StoreError | None) -> None:
                assert error is None
                self.reserved = wanted

            self.desk.journal.on_outcome(durable)

    def ack(self, sseq: int, *, answered: bool) -> None:
        state = self.state
        self.truth.acked.add(sseq)
        if state.pending.pop(sseq, None) is not None:
            self.fresh.pop(sseq, None)
            if sseq in self.known:
                self.gone.append(sseq)
            if state.redelivered.pop(sseq, None):
                self.counted[sseq] = None
        if not state.pending:
            state.floor_dseq, state.floor_sseq = state.delivered_dseq, state.delivered_sseq
        else:
            lowest = min(state.pending)
            state.floor_sseq = max(state.floor_sseq, lowest - 1)
            state.floor_dseq = max(state.floor_dseq, state.pending[lowest][0] - 1)
        if answered:
            self.write()
            truth = self.truth
            self.desk.journal.on_outcome(lambda _: truth.acked_for_sure.add(sseq))

    def write(self, reserved: int = 0) -> None:
        state = self.state
        fresh = [(sseq, *state.pending[sseq]) for sseq in reversed(self.fresh) if sseq in state.pending]
        counted = [(sseq, state.redelivered.get(sseq, 0)) for sseq in self.counted]
        self.desk.journal.change(
            self.name,
            Changes(
                state.delivered_dseq,
                state.delivered_sseq,
                state.floor_dseq,
                state.floor_sseq,
                reserved,
                fresh,
                self.gone,
                counted,
            ),
        )
        self.known = set(state.pending)
        self.fresh, self.gone, self.counted = {}, [], {}

    def alive(self) -> Alive:
        self.known = set(self.state.pending)
        config = config_of(self.name, str(self.truth.version))
        return alive(self.name, self.state, config, self.truth.created)


class Process:
    """A server from its start to its end."""

    def __init__(self, fs: CrashFileSystem, truths: dict[str, Truth]) -> None:
        self.truths = truths
        self.desk = Desk(fs, **SIZES)
        self.consumers = {}
        for name, each in self.desk.found.items():
            truth = truths[name]
            self.consumers[name] = Consumer(self.desk, name, truth, each.state, each.reserved)
            truth.deleting = False

    def check(self) -> None:
        """Compare the consumers with the truth, right after the start."""
        for name, truth in self.truths.items():
            if name not in self.consumers:
                assert not truth.answered or truth.deleting, f"{name} is lost"
        for name, consumer in self.consumers.items():
            truth, found = consumer.truth, self.desk.found[name]
            assert not truth.deleted, f"{name} is back"
            assert found.created == truth.created
            assert truth.version_answered <= int(found.config.description) <= truth.version
            assert found.reserved >= truth.highest_dseq
            state = found.state
            lost = {
                sseq
                for sseq in truth.sent - truth.acked
                if sseq not in state.pending and sseq <= state.delivered_sseq
            }
            assert not lost, f"{name} does not deliver {lost} again"
            again = {
                sseq for sseq in truth.acked_for_sure if sseq in state.pending or sseq > state.delivered_sseq
            }
            assert not again, f"{name} delivers {again} again, which are acked"
            assert all(sseq in truth.acked or sseq % 3 == 0 for sseq in range(1, state.floor_sseq + 1))

    def step(self, random: Random, settle: float = 0.5) -> None:
        name = random.choice(NAMES)
        consumer = self.consumers.get(name)
        journal = self.desk.journal
        if consumer is None:
            self.create(name)
        elif random.random() < 0.4:
            for _ in range(random.randrange(1, 8)):
                consumer.deliver(random)
        elif random.random() < 0.6 and consumer.state.pending:
            sseq = random.choice(sorted(consumer.state.pending))
            consumer.ack(sseq, answered=random.random() < 0.5)
        elif random.random() < 0.3:
            consumer.write()
        elif random.random() < 0.15:
            self.update(consumer)
        elif random.random() < 0.08:
            self.delete(consumer)
        if journal.due_checkpoint:
            journal.checkpoint(each.alive() for each in list(self.consumers.values()))
        if random.random() < settle:
            self.desk.settle()

    def create(self, name: str) -> None:
        before = self.truths.get(name)
        truth = self.truths[name] = Truth(before.created + 1 if before else 1)
        self.desk.journal.put_config(name, config_of(name, "0"), truth.created, None, BLOCK)
        consumer = self.consumers[name] = Consumer(self.desk, name, truth, ConsumerState(), 0)
        consumer.reserving = BLOCK

        def durable(error: StoreError | None) -> None:
            truth.answered = True
            consumer.reserved = BLOCK

        self.desk.journal.on_outcome(durable)

    def update(self, consumer: Consumer) -> None:
        truth = consumer.truth
        truth.version = version = truth.version + 1
        self.desk.journal.put_config(consumer.name, config_of(consumer.name, str(version)), truth.created)

        def durable(error: StoreError | None) -> None:
            truth.version_answered = version

        self.desk.journal.on_outcome(durable)

    def delete(self, consumer: Consumer) -> None:
        truth = consumer.truth
        truth.deleting = True
        del self.consumers[consumer.name]
        self.desk.journal.delete(consumer.name)

        def durable(error: StoreError | None) -> None:
            truth.deleted = True

        self.desk.journal.on_outcome(durable)
        self.desk.settle()  # its name is not used again before


def run(fs: CrashFileSystem, truths: dict[str, Truth], random: Random, steps: int) -> Process | None:
    """A process that lives until the power is cut; None then."""
    try:
        process = Process(fs, truths)
        process.check()
        for _ in range(steps):
            process.step(random)
        process.desk.settle()
    except PowerCut:
        return None
    return process


def stop_cleanly(process: Process) -> None:
    """Everything is afterwards as it was, to the last number."""
    for name, consumer in process.consumers.items():
        process.desk.journal.snapshot(name, consumer.state)
    again = process.desk.restarted()
    assert set(again.found) == set(process.consumers)
    for name, found in again.found.items():
        assert found.state == process.consumers[name].state
        assert found.reserved == found.state.delivered_dseq
        assert not found.torn
    again.journal.close()


def operations_of(seed: int, steps: int) -> int:
    fs = CrashFileSystem()
    process = run(fs, {}, Random(seed), steps)
    assert process is not None
    operations = fs.operations
    stop_cleanly(process)
    return operations


@pytest.mark.parametrize("keep", Keep)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_power_may_be_cut_at_every_operation(seed: int, keep: Keep) -> None:
    steps = 60
    for cut in range(1, operations_of(seed, steps) + 1):
        fs = CrashFileSystem()
        fs.cut_power_at(cut)
        truths: dict[str, Truth] = {}
        assert run(fs, truths, Random(seed), steps) is None
        survivor = fs.crash(keep, Random(cut))
        process = run(survivor, truths, Random(cut), 10)
        assert process is not None
        stop_cleanly(process)


@pytest.mark.parametrize("seed", range(30))
def test_power_may_be_cut_again_and_again(seed: int) -> None:
    random = Random(seed)
    fs = CrashFileSystem()
    truths: dict[str, Truth] = {}
    for _ in range(8):
        fs.cut_power_at(random.randrange(1, 150))
        process = run(fs, truths, random, 80)
        if process is not None:
            process.desk.journal.abandon()
        fs = fs.crash(random.choice(list(Keep)), random)
    process = run(fs, truths, random, 30)
    assert process is not None
    stop_cleanly(process)


@pytest.mark.parametrize("seed", range(30))
def test_a_long_write_may_lose_any_of_its_sectors(seed: int) -> None:
    random = Random(seed)
    fs = CrashFileSystem()
    truths: dict[str, Truth] = {}
    for _ in range(4):
        process = run(fs, truths, random, 20)
        assert process is not None
        for _ in range(60):
            process.step(random, settle=0.0)
        fs.cut_power_at(fs.operations + 2)  # it is written, and not synced
        with contextlib.suppress(PowerCut):  # unless all was synced already
            process.desk.settle()
        fs = fs.crash(Keep.SECTORS, random)
    process = run(fs, truths, random, 30)
    assert process is not None
    stop_cleanly(process)


@pytest.mark.parametrize("seed", range(30))
def test_damage_costs_deliveries_only(seed: int) -> None:
    """One flipped bit anywhere: no consumer is lost or mixed up, and nothing that was not acked."""
    random = Random(seed)
    fs = CrashFileSystem()
    truths: dict[str, Truth] = {}
    process = run(fs, truths, random, 120)
    assert process is not None
    process.desk.journal.close()
    path = random.choice(process.desk.fs.paths())

    def flip(data: bytearray) -> None:
        at = random.randrange(len(data))
        data[at] ^= 1 << random.randrange(8)

    fs.damage(path, flip)
    for truth in truths.values():
        truth.acked_for_sure.clear()  # these may go out again
        truth.version_answered = truth.highest_dseq = 0
    again = run(fs, truths, random, 40)
    assert again is not None
    stop_cleanly(again)
