"""Small stores with every kind of file, and what a server that starts on a copy of their files finds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from millstream.store.errors import StoreError
from millstream.store.record import Record
from tests.kits.crashfs import Keep, _Inode
from tests.sim.clients.client import SimClient
from tests.sim.machine.chance import fixed_chance
from tests.sim.machine.disk import SimDisk
from tests.sim.machine.loop import SimLoop
from tests.sim.machine.machine import FOLDER, Machine
from tests.sim.plans.plan import SECOND_NS, ConsumerPlan, Op, Plan
from tests.sim.run import Run

SEED = 4
ACCOUNT = f"{FOLDER}/$G/streams"
REACHED = 40  # by the mirror, as its note says


def _consumer(stream: str, name: str, **more: Any) -> ConsumerPlan:
    config = {"durable_name": name, "ack_policy": "explicit", "max_ack_pending": 100, "ack_wait": SECOND_NS}
    return ConsumerPlan(stream, name, config | more, push="deliver_subject" in more)


CONSUMERS = (
    _consumer("S", "pull"),
    _consumer("S", "push", deliver_subject="push.push", filter_subject="s.1"),
    _consumer("S", "all", ack_policy="all"),
    _consumer("S", "few", max_deliver=2),
    _consumer("W", "queue"),
    _consumer("I", "interest"),
)


def _op(at: float, kind: str, **args: Any) -> Op:
    actor = args.pop("actor", "p0")
    return Op(actor, at, kind, args)


def _publish(at: float, stream: str, count: int, size: int) -> Op:
    subject = f"{stream.lower()}.1"
    return _op(
        at, "publish", stream=stream, subject=subject, count=count, size=size, ids=stream == "S", again=False
    )


def _fetch(at: float, name: str, batch: int, *acks: str) -> Op:
    (path,) = (each.path for each in CONSUMERS if each.name == name)
    return _op(at, "fetch", actor=path, batch=batch, acks=list(acks))


PLAN = Plan(
    SEED,
    {
        "S": {"subjects": ["s.>"], "allow_atomic": True},
        "K": {"subjects": ["k.>"], "max_msgs_per_subject": 2},
        "C": {"subjects": ["c.>"], "compression": "s2"},
        "M": {"mirror": {"name": "S"}},
        "G": {"sources": [{"name": "S"}], "max_msgs": 9},
        "W": {"subjects": ["w.>"], "retention": "workqueue"},
        "I": {"subjects": ["i.>"], "retention": "interest"},
    },
    CONSUMERS,
    (),
    (
        _op(0.0, "listen", actor="S.push", acks=["+ACK!", "", "+TERM!"]),
        _publish(0.1, "S", 6, 40),
        _publish(0.5, "K", 4, 10),
        _publish(1.0, "C", 6, 200),
        _publish(1.1, "W", 5, 150),
        _publish(1.2, "I", 4, 150),
        _op(2.0, "batch", stream="S", subject="s.2", count=3, size=60),
        _op(3.0, "delete", stream="S", which=0.3, no_erase=False),
        _op(3.1, "delete", stream="C", which=0.9, no_erase=True),
        _publish(4.0, "S", 5, 200),
        _publish(4.2, "C", 3, 150),
        _publish(4.3, "K", 2, 250),
        _fetch(5.0, "pull", 5, "+ACK!", "", "-NAK"),
        _fetch(5.0, "all", 4, "", "", "+ACK!", ""),
        _fetch(5.0, "few", 4, "", "+ACK!"),
        _fetch(7.0, "few", 3, ""),
        _fetch(5.0, "queue", 3, "+ACK!", "+ACK!", ""),
        _fetch(5.0, "interest", 2, "+ACK!", ""),
        _publish(8.0, "S", 2, 30),
        _publish(8.0, "W", 1, 30),
    ),
    (),
    False,
)


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """The state of a consumer: messages in `open` are still delivered, or delivered again."""

    open: frozenset[int]
    floor: int
    delivered: int


@dataclass(slots=True)
class Found:
    """The result of a start."""

    content: dict[str, dict[int, bytes]]  # of streams, by sequence
    ends: dict[str, tuple[int, int]]  # of streams: the first and the last sequence
    consumers: dict[str, ConsumerState]
    ids: dict[str, int]  # sequences by ids that are known; -1: nobody can know it now
    told: list[str] = field(default_factory=list)  # the log


class _Filled(Run):
    """A run that ends some time after its operations."""

    rests_s = 8.0

    async def _settle(self, auditor: SimClient) -> None:
        await self.loop.sleep(self.rests_s)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


@contextmanager
def _logged() -> Iterator[list[str]]:
    lines = _Lines()
    log = logging.getLogger("millstream")
    before = (log.level, log.propagate, list(log.handlers))
    log.setLevel(logging.WARNING)
    log.propagate, log.handlers = False, [lines]
    try:
        yield lines.found
    finally:
        log.setLevel(before[0])
        log.propagate, log.handlers = before[1], before[2]


def _configure(machine: Machine) -> None:
    machine.segment_size, machine.ids_in_memory, machine.most_in_doubt = 600, 4, 500
    machine.erase_within_s = 3.0
    machine.slow_steps = 0.0


class SmallStore:
    """The files that a server left; `ends` tells how it ended.

    `stopped`: in order, without a commit journal.  `killed`: with commits in the journal, notes of what is
    not synced, and a mirror that was further.  `cut`: killed, and a power loss left only what was synced.
    """

    def __init__(self, ends: str) -> None:
        run = _Filled(PLAN)
        machine = run.machine
        _configure(machine)
        machine.journals = ends != "stopped"
        if machine.journals:  # it is not cleared before the end
            run.rests_s, machine.erase_within_s = 0.1, 120.0
        with _logged() as told, fixed_chance(machine, SEED):
            run._run()
            assert run.finished
            assert not machine.problems, (machine.problems, told)
            if ends == "stopped":
                machine.stop()
            else:
                machine.kill()
        self.disk = machine.disk
        if ends == "killed":
            self.disk._names[f"{ACCOUNT}/M/log/reach"] = _Inode(bytearray(b"%d" % REACHED))
        if ends == "cut":
            disk = self.disk.crash(Keep.NOTHING, Random(SEED))
            assert isinstance(disk, SimDisk)
            self.disk = disk
        self.found = self.look(self.copy())

    def copy(self) -> SimDisk:
        disk = SimDisk()
        for path, inode in self.disk._names.items():
            disk._names[path] = _Inode(bytearray(inode.data), bytearray(inode.data))
        disk._durable_names = dict(disk._names)
        return disk

    def used(self, path: str) -> int:
        """Return the size of a file without the zeros at its end."""
        return len(self.disk._names[path].data.rstrip(b"\0"))

    def look(self, disk: SimDisk) -> Found:
        """Start a server; return what it found."""
        machine = Machine(SimLoop(Random(1)), SEED, lambda *_: None)
        _configure(machine)
        machine.disk, machine.journals = disk, False
        with _logged() as told, fixed_chance(machine, SEED):
            machine.start()
            assert not machine.problems, machine.problems
            assert machine.life is not None
            streams = machine.life.account.streams
            content = {name: _read(stream.log) for name, stream in streams.items()}
            ends = {name: (stream.log.first_seq, stream.log.last_seq) for name, stream in streams.items()}
            consumers = {
                f"{stream}.{name}": _state(each.ledger, content[stream])
                for stream in streams
                for name, each in streams[stream].consumers._by_name.items()
            }
            ids = _known_ids(streams["S"], machine) if "S" in streams else {}
        return Found(content, ends, consumers, ids, told)


def _read(log: Any) -> dict[int, bytes]:
    record = Record()
    found = {}
    for seq in range(log.first_seq, log.last_seq + 1):
        if log.get(seq, record):
            found[seq] = record.subject() + record.headers() + record.payload()
    return found


def _state(ledger: Any, content: dict[int, bytes]) -> ConsumerState:
    pending = {seq for seq, _ in ledger.pending.items()} | {seq for seq, _ in ledger.heads()}
    still = frozenset(seq for seq in content if seq in pending or seq > ledger.delivered_sseq)
    return ConsumerState(still, ledger.floor_sseq, ledger.delivered_sseq)


def _known_ids(stream: Any, machine: Machine) -> dict[str, int]:
    found = {}
    for uid in range(1, 60):
        try:
            seq = stream.dedupe.find(b"id%d" % uid, machine.clock.wall_ns() + 20 * SECOND_NS)
        except StoreError:
            seq = -1
        if seq:
            found[f"id{uid}"] = seq
    return found
