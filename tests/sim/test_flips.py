"""Every byte of every file of a small store is changed once: it costs one record, which is reported."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from millstream.store.record import Record
from tests.kits.crashfs import _Inode
from tests.sim.chance import fixed_chance
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.machine import Machine
from tests.sim.plan import ConsumerPlan, Op, Plan
from tests.sim.run import Run

SEED = 4  # a disk with small files, without the commit journal
STEP = 61  # in the ordinary run, one byte of so many
CONSUMER = ConsumerPlan("S", "c", {"durable_name": "c", "ack_policy": "explicit", "max_ack_pending": 100})


def _op(at: float, kind: str, **args: Any) -> Op:
    actor = args.pop("actor", "p0")
    return Op(actor, at, kind, args)


def _publish(at: float, stream: str, count: int, size: int) -> Op:
    subject = f"{stream.lower()}.1"
    return _op(
        at, "publish", stream=stream, subject=subject, count=count, size=size, ids=stream == "S", again=False
    )


PLAN = Plan(
    SEED,
    {
        "S": {"subjects": ["s.>"], "allow_atomic": True},
        "K": {"subjects": ["k.>"], "max_msgs_per_subject": 2},
        "C": {"subjects": ["c.>"], "compression": "s2"},
        "M": {"mirror": {"name": "S"}},
        "G": {"sources": [{"name": "S"}]},
    },
    (CONSUMER,),
    (),
    (
        _publish(0.1, "S", 6, 40),
        _publish(0.5, "K", 4, 10),
        _publish(1.0, "C", 6, 200),
        _op(2.0, "batch", stream="S", subject="s.2", count=3, size=60),
        _op(3.0, "delete", stream="S", which=0.3, no_erase=False),
        _publish(4.0, "S", 3, 300),
        _op(5.0, "fetch", actor=CONSUMER.path, batch=5, acks=["+ACK!", ""]),
    ),
    (),
    False,
)

Content = dict[str, dict[int, bytes]]  # of streams, by sequence


class Store:
    """The files of a server that was stopped, and what starts on copies of them find."""

    def __init__(self) -> None:
        run = Run(PLAN)
        run.machine.journals = False
        outcome = run.carry_out()
        assert not outcome.violations
        self.machine = run.machine
        self.machine.stop()
        self.disk = run.machine.disk
        self.content, self.consumer, _ = self.look(self.copy())

    def copy(self) -> SimDisk:
        disk = SimDisk()
        for path, inode in self.disk._names.items():
            disk._names[path] = _Inode(bytearray(inode.data), bytearray(inode.data))
        disk._durable_names = dict(disk._names)
        return disk

    def places(self) -> Iterator[tuple[str, int]]:
        for path in self.disk.paths():
            for at in range(len(self.disk._names[path].data)):
                yield path, at

    def look(self, disk: SimDisk) -> tuple[Content, Any, list[str]]:
        """Start a server; return messages, the state of the consumer, and what was logged."""
        lines = _Lines()
        log = logging.getLogger("millstream")
        before = (log.level, log.propagate, list(log.handlers))
        log.setLevel(logging.WARNING)
        log.propagate, log.handlers = False, [lines]
        machine = Machine(SimLoop(Random(1)), SEED, lambda *_: None)
        machine.disk, machine.journals = disk, False
        try:
            with fixed_chance(machine, SEED):
                machine.start()
                assert not machine.problems, machine.problems
                assert machine.life is not None
                streams = machine.life.account.streams
                content = {name: _read(stream.log) for name, stream in streams.items()}
                ledgers = [each.ledger for each in streams["S"].consumers._by_name.values()]
                state = [(each.floor_sseq, sorted(each.pending)) for each in ledgers]
        finally:
            log.setLevel(before[0])
            log.propagate, log.handlers = before[1], before[2]
        return content, state, lines.found


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


def _read(log: Any) -> dict[int, bytes]:
    record = Record()
    found = {}
    for seq in range(log.first_seq, log.last_seq + 1):
        if log.get(seq, record):
            found[seq] = record.subject() + record.headers() + record.payload()
    return found


@pytest.fixture(scope="module")
def store() -> Store:
    return Store()


def _judge(store: Store, path: str, at: int) -> None:
    disk = store.copy()
    disk._names[path].data[at] ^= 1 << at % 8
    disk._names[path].durable[at] ^= 1 << at % 8
    content, consumer, told = store.look(disk)
    assert content.keys() == store.content.keys()
    lost, returned = [], []
    for name, messages in store.content.items():
        found = content[name]
        wrong = [seq for seq in found if seq in messages and found[seq] != messages[seq]]
        assert not wrong, f"{name} has other messages: {wrong}"
        lost += [(name, seq) for seq in messages if seq not in found]
        returned += [(name, seq) for seq in found if seq not in messages]
    assert len(lost) <= 1 or lost[0][0] == "C", lost  # of compressed messages, those of a block
    if lost or returned or consumer != store.consumer:
        assert any(path in line for line in told), f"{lost} {returned} {consumer}: {told}"
    if consumer != store.consumer:
        assert "/consumers/" in path or min(lost or returned) >= ("S", 1), consumer


def test_a_changed_byte_costs_one_record(store: Store) -> None:
    for path, at in list(store.places())[::STEP]:
        try:
            _judge(store, path, at)
        except Exception as error:
            raise AssertionError(f"byte {at} of {path}: {error}") from error


@pytest.mark.soak
def test_every_changed_byte_costs_one_record(store: Store) -> None:
    for path, at in store.places():
        try:
            _judge(store, path, at)
        except Exception as error:
            raise AssertionError(f"byte {at} of {path}: {error}") from error
