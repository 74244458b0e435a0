"""A stream against a naive one: random publishing, removing, reconfiguring, deleting, restarts and crashes.

In files it lives on a disk that forgets what was not synced, whose power may go at any operation, and which
may be full for a while.  What was acknowledged is there afterwards, what was removed is not, and of the
operation that was cut short either all or nothing happened to each message.
"""

from __future__ import annotations

import errno
import functools
import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from millstream.jetstream import parts
from millstream.jetstream.account import AccountJetStream
from millstream.jetstream.resources import Resources
from millstream.jetstream.stream import id_keeper
from millstream.jetstream.stream.stream import Stream
from millstream.jsapi.enums import StorageType
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from millstream.store.log import DEFAULT_SEGMENT_SIZE
from millstream.store.record import Record
from millstream.store.recovery import new_log, open_log
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.fake_world import FakeWorld
from tests.kits.naive.stream import Message, NaiveStream

HOUR = 3600 * 1_000_000_000
PATTERNS = ["s.a", "s.*", "s.>", ">", "s.c.*", "s.zz"]
_subjects = st.sampled_from(["s.a", "s.b", "s.c.d"])
_ids = st.sampled_from(["", "", "1", "2", "3", "4", "5"])
_limits = st.sampled_from([0, 0, 3, 5])
_limits_per_subject = st.sampled_from([0, 0, 1, 2])


class StreamMachine(RuleBasedStateMachine):
    storage = StorageType.FILE
    ids_in_memory = 0  # so many at most; more are written to files

    def __init__(self) -> None:
        super().__init__()
        self.fs = CrashFileSystem()
        self.world = FakeWorld()
        self.account: AccountJetStream = self.world.account(fs=self.fs, resources=self.resources())
        self.naive = NaiveStream()
        self.durable = NaiveStream()  # after the last operation that came to its end
        self.sent: dict[int, Message] = {}  # by sequence, also of what may be lost
        self.exists = False
        self.existed = False  # after the last operation that came to its end
        self.changing = False  # it is being created or deleted
        self.wanted: tuple[int, int] | None = None  # limits that were being set
        # What is left if power goes (None: only the process ends), and when it goes once more.
        self.on_crash: tuple[Keep | None, int, int] = (Keep.NOTHING, 0, 0)

    def resources(self) -> Resources:
        return Resources(ids_in_memory=self.ids_in_memory)

    @property
    def in_files(self) -> bool:
        return self.storage is StorageType.FILE

    @property
    def stream(self) -> Stream:
        return self.account.streams["S"]

    # -- doing things that may be cut short -------------------------------------------------------

    def attempt(self, act: Callable[[], None]) -> None:
        """Do it, and all that follows from it; if the power goes, start again and look."""
        try:
            act()
            self.world.settle()
        except PowerCut:
            self.start_again()
            return
        self.naive_is_durable()

    def naive_is_durable(self) -> None:
        self.durable = self.naive.copy()
        self.existed = self.exists
        self.changing = False
        self.wanted = None

    def config(self, most: int, per_subject: int) -> StreamConfig:
        self.wanted = (most, per_subject)
        return StreamConfig(
            name="S",
            subjects=["s.>"],
            storage=self.storage,
            max_msgs=most or -1,
            max_msgs_per_subject=per_subject or -1,
            allow_rollup_hdrs=True,
            duplicate_window=1000 * HOUR,
        )

    @initialize(most=_limits, per_subject=_limits_per_subject)
    def begin(self, most: int, per_subject: int) -> None:
        self.create(most, per_subject)

    @precondition(lambda self: not self.exists)
    @rule(most=_limits, per_subject=_limits_per_subject)
    def create(self, most: int, per_subject: int) -> None:
        self.naive = NaiveStream(most=most, most_per_subject=per_subject)
        self.durable = self.naive.copy()
        self.sent = {}
        self.changing = True

        def act() -> None:
            self.account.add(self.config(most, per_subject))
            self.exists = True

        self.attempt(act)

    @precondition(lambda self: self.exists)
    @rule(subject=_subjects, payload=st.binary(max_size=20), message_id=_ids)
    def publish(self, subject: str, payload: bytes, message_id: str) -> None:
        known = self.naive.with_id(message_id) if message_id else 0
        if message_id and not known and self.stream.dedupe.find(message_id.encode(), self.world.time_ns):
            return  # of a message that was removed: that is known until a restart
        if not known:
            self.expect(Message(subject, payload, message_id))
        block = headers.make((b"Nats-Msg-Id", message_id.encode())) if message_id else None

        def act() -> None:
            self.world.send(subject.encode(), payload, reply=b"me", headers=block)
            self.world.settle()
            answer = self.answer()
            assert answer["seq"] == (known or self.naive.last)
            assert answer.get("duplicate", False) == bool(known)

        self.attempt(act)

    def expect(self, message: Message, rollup: str = "") -> None:
        seq = self.naive.publish(message, rollup)
        self.sent[seq] = message

    def answer(self) -> dict[str, int]:
        (answer,) = (each for each in self.world.published if each.subject == b"me")
        self.world.published.clear()
        return json.loads(answer.payload)  # type: ignore[no-any-return]

    @precondition(lambda self: self.exists)
    @rule(subjects=st.lists(_subjects, min_size=1, max_size=12))
    def publish_many_in_one_commit(self, subjects: list[str]) -> None:
        def act() -> None:
            for number, subject in enumerate(subjects):
                self.expect(Message(subject, b"%d of many" % number))
                self.world.send(subject.encode(), b"%d of many" % number)

        self.attempt(act)

    @precondition(lambda self: self.exists)
    @rule(subject=_subjects, rollup=st.sampled_from(["sub", "all"]))
    def roll_up(self, subject: str, rollup: str) -> None:
        self.expect(Message(subject, b"all"), rollup)
        block = headers.make((b"Nats-Rollup", rollup.encode()))
        self.attempt(lambda: self.world.send(subject.encode(), b"all", headers=block))

    @precondition(lambda self: self.exists)
    @rule(data=st.data(), erase=st.booleans())
    def remove(self, data: st.DataObject, erase: bool) -> None:
        if not self.naive.live:
            return
        seq = data.draw(st.sampled_from(sorted(self.naive.live)))
        self.naive.remove([seq])

        def act() -> None:
            assert self.stream.log.erase(seq) if erase else self.stream.log.remove(seq)
            self.account.committer.dirty(self.stream)

        self.attempt(act)

    @precondition(lambda self: self.exists)
    @rule(pattern=st.sampled_from(["", *PATTERNS]), below=st.integers(0, 40), keep=st.integers(0, 4))
    def purge(self, pattern: str, below: int, keep: int) -> None:
        keep = 0 if below else keep
        count = self.naive.purge(pattern, below, keep)

        def act() -> None:
            assert self.stream.purge(pattern.encode() or None, below, keep) == count

        self.attempt(act)

    @precondition(lambda self: self.exists)
    @rule(most=_limits, per_subject=_limits_per_subject)
    def update(self, most: int, per_subject: int) -> None:
        self.naive.most, self.naive.most_per_subject = most, per_subject
        self.naive.enforce()
        self.attempt(lambda: self.account.update(self.stream, self.config(most, per_subject)))

    @precondition(lambda self: self.exists)
    @rule()
    def delete(self) -> None:
        self.changing = True

        def act() -> None:
            self.account.delete(self.stream)
            self.exists = False

        self.attempt(act)

    @rule(seconds=st.sampled_from([0.3, 1, 5]))
    def wait(self, seconds: float) -> None:
        """Segments are compacted, for one."""
        self.attempt(lambda: self.world.advance(seconds))

    @rule(hours=st.integers(-5, 5))
    def set_the_clock(self, hours: int) -> None:
        self.world.time_ns += hours * HOUR

    # -- what happens to the disk -----------------------------------------------------------------

    @precondition(lambda self: self.in_files)
    @rule(
        operations=st.integers(1, 12),
        keep=st.sampled_from([*Keep, None]),
        seed=st.integers(0, 99),
        again=st.integers(0, 6),
    )
    def power_will_go(self, operations: int, keep: Keep | None, seed: int, again: int) -> None:
        """Cut the power in one of the next operations, and perhaps again while the store is opened."""
        self.fs.cut_power_at(self.fs.operations + operations)
        self.on_crash = (keep, seed, again)

    @precondition(lambda self: self.in_files)
    @rule(orderly=st.booleans(), kept=st.booleans())
    def restart(self, orderly: bool, kept: bool) -> None:
        self.on_crash = (None if kept else Keep.NOTHING, 0, 0)
        try:
            if orderly:
                self.account.stop()
        except PowerCut:
            pass
        self.start_again()

    @precondition(lambda self: self.in_files and self.exists)
    @rule(error=st.sampled_from([errno.ENOSPC, errno.EIO]), kind=st.sampled_from(["", "sync", "write"]))
    def the_disk_fails_for_a_while(self, error: int, kind: str) -> None:
        message = Message("s.a", b"late")
        self.expect(message)

        def act() -> None:
            self.fs.fail(error, kind=kind)
            self.world.send(b"s.a", b"late", reply=b"me")
            self.world.settle()
            assert "error" in self.answer()
            self.fs.heal()
            self.world.advance(2)
            assert self.stream.failure is None

        self.attempt(act)

    def start_again(self) -> None:
        """Start another process on the disk: it must have all that was promised, and nothing else."""
        keep, seed, again = self.on_crash
        try:
            self.open(keep, seed, again)
        except PowerCut:
            self.open(keep, seed, 0)
        self.look()
        if keep is None:  # now the machine, too: what was seen must not go away
            self.open(Keep.NOTHING, seed, 0)
            self.look()

    def open(self, keep: Keep | None, seed: int, cut: int) -> None:
        self.fs = self.fs.kill() if keep is None else self.fs.crash(keep, Random(seed))
        self.fs.cut_power_at(cut)
        self.world = FakeWorld(self.world.time_ns)
        self.account = self.world.account(fs=self.fs, resources=self.resources())
        self.account.recover()
        self.fs.cut_power_at(0)
        assert self.account.unrecovered == {}
        self.world.settle()

    def look(self) -> None:
        self.exists = "S" in self.account.streams
        assert self.changing or self.exists == self.existed
        if self.exists:
            self.check_survivors()
        self.naive_is_durable()

    def check_survivors(self) -> None:
        found = self.read()
        config = self.stream.config
        limits = (max(config.max_msgs, 0), max(config.max_msgs_per_subject, 0))
        assert limits in ((self.durable.most, self.durable.most_per_subject), self.wanted)
        for seq, message in self.durable.live.items():
            if seq in self.naive.live:
                assert found.get(seq) == message, "an acknowledged message is lost"
        for seq, message in found.items():
            assert message == self.sent[seq], "a message is not what was sent"
            assert seq in self.durable.live or seq > self.durable.last, "a removed message came back"
        assert self.stream.log.last_seq >= self.durable.last, "sequences will be used again"
        self.naive = NaiveStream(found, self.stream.log.last_seq, *limits)
        before = dict(found)
        self.naive.enforce()
        assert self.naive.live == before, "limits are not kept"

    # -- what is always true ----------------------------------------------------------------------

    def read(self) -> dict[int, Message]:
        log, record = self.stream.log, Record()
        found = {}
        for seq in list(log.sequences(1, log.last_seq)):
            assert log.get(seq, record)
            message_id = headers.find(record.headers(), b"Nats-Msg-Id") if record.header_size else None
            found[seq] = Message(record.subject().decode(), record.payload(), (message_id or b"").decode())
        return found

    @invariant()
    def holds_the_same(self) -> None:
        if not self.exists:
            return
        naive = self.naive
        assert self.read() == naive.live
        state = self.stream.state()
        assert (state.messages, state.last_seq) == (len(naive.live), naive.last)
        if naive.last:
            assert state.first_seq == next(iter(naive.live), naive.last + 1)
        assert state.num_subjects == len({message.subject for message in naive.live.values()})

    @invariant()
    def finds_the_same(self) -> None:
        if not self.exists:
            return
        log = self.stream.log
        for pattern in PATTERNS:
            of_pattern = self.naive.of(pattern)
            assert log.next_match(1, pattern.encode()) == (of_pattern[0] if of_pattern else 0)
            assert log.last_match(log.last_seq, pattern.encode()) == (of_pattern[-1] if of_pattern else 0)

    @invariant()
    def times_never_fall(self) -> None:
        if not self.exists:
            return
        log, record = self.stream.log, Record()
        last = 0
        for seq in self.naive.live:
            assert log.get(seq, record)
            assert record.timestamp >= last
            last = record.timestamp


class MemoryStreamMachine(StreamMachine):
    storage = StorageType.MEMORY


class IdsInFilesMachine(StreamMachine):
    """Nearly all ids are in files, which are merged and lost when the power goes."""

    ids_in_memory = 2


def live_a_life(machine: StreamMachine) -> None:
    """Do every operation once; repeat a creation or deletion that a crash undid."""
    for most, per_subject in ((0, 0), (0, 1), (4, 0)):
        machine.create(most, per_subject)
        if not machine.exists:
            machine.create(most, per_subject)
        machine.publish("s.a", b"one", "1")
        machine.publish("s.b", b"two", "")
        machine.publish_many_in_one_commit(["s.a", "s.b", "s.c.d"] * 4)
        machine.publish("s.a", b"again", "1")
        machine.roll_up("s.a", "sub")
        machine.wait(1)
        machine.purge("s.b", 0, 2)
        machine.update(5, 2)
        machine.publish_many_in_one_commit(["s.a", "s.c.d"] * 6)
        machine.purge("", 0, 0)
        machine.publish("s.a", b"late", "2")
        machine.delete()
        if machine.exists:
            machine.delete()


def cut_lives(
    monkeypatch: pytest.MonkeyPatch,
    keep: Keep | None,
    first: int,
    step: int,
    kind: type[StreamMachine] = StreamMachine,
) -> None:
    with_segments(monkeypatch, 250)
    whole = kind()
    live_a_life(whole)
    assert whole.fs.operations > 100
    for cut in range(first, whole.fs.operations + 1, step):
        machine = kind()
        machine.power_will_go(cut, keep, seed=cut, again=cut % 7)
        live_a_life(machine)
        machine.holds_the_same()


@pytest.mark.parametrize("keep", [*Keep, None])
def test_power_may_go_at_many_operations_of_a_life(
    keep: Keep | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_lives(monkeypatch, keep, 1, 3)


@pytest.mark.parametrize("keep", [*Keep, None])
def test_power_may_go_while_ids_are_written(keep: Keep | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_keeper, "_MERGED_AT_ONCE", 2)
    cut_lives(monkeypatch, keep, 2, 5, IdsInFilesMachine)


@pytest.mark.soak
@pytest.mark.parametrize("keep", [*Keep, None])
def test_power_may_go_at_every_operation_of_a_life(
    keep: Keep | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_lives(monkeypatch, keep, 1, 1)


def run(machine: type[StreamMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def with_segments(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(parts, "open_log", functools.partial(open_log, segment_size=size))
    monkeypatch.setattr(parts, "new_log", functools.partial(new_log, segment_size=size))


@pytest.mark.parametrize("segment_size", [DEFAULT_SEGMENT_SIZE, 250])
def test_a_stream_in_files_does_what_a_naive_one_does(
    segment_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_segments(monkeypatch, segment_size)
    run(StreamMachine, 80, 30)


def test_a_stream_with_ids_in_files_does_what_a_naive_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    with_segments(monkeypatch, 250)
    monkeypatch.setattr(id_keeper, "_MERGED_AT_ONCE", 2)
    run(IdsInFilesMachine, 80, 30)


@pytest.mark.parametrize("segment_size", [DEFAULT_SEGMENT_SIZE, 250])
def test_a_stream_in_memory_does_what_a_naive_one_does(
    segment_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_segments(monkeypatch, segment_size)
    run(MemoryStreamMachine, 30, 30)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("segment_size", [DEFAULT_SEGMENT_SIZE, 120, 250, 1000])
def test_a_stream_in_files_does_what_a_naive_one_does_for_long(
    segment_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_segments(monkeypatch, segment_size)
    run(StreamMachine, 5000, 60)
