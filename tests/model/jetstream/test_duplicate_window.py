"""A duplicate window against a dict: random lives with restarts, power cuts, removals and other windows.

So few ids may be in memory that nearly all are in files, which are merged all the time.  An id of an
acknowledged message is known for as long as the window.  Afterwards, and if nobody has sent it, it is not.
Only an id whose message was removed may be forgotten, at a restart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

import pytest

from millstream.jetstream.resources import Resources
from millstream.jetstream.stream import id_keeper
from millstream.jsapi.enums import StorageType
from millstream.jsapi.stream_types import StreamConfig
from millstream.protocol import headers
from millstream.store.record import Record
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.fake_world import FakeWorld

NS = 1_000_000_000
IDS = 80
WINDOWS = (20, 100, 400)  # seconds
STEPS = 250


@dataclass
class Known:
    """An id and its last message."""

    seq: int
    time_ns: int
    lapsed: bool = False  # the window was shorter than its age for a while
    removed: bool = False
    uncertain: bool = False  # it is removed, and the server has started again


class Life:
    """A stream on a disk whose power may go, and a dict."""

    def __init__(self, seed: int, ids_in_memory: int = 5) -> None:
        self.random = Random(seed)
        self.fs = CrashFileSystem()
        self.world = FakeWorld()
        self.ids_in_memory = ids_in_memory
        self.window_s = WINDOWS[1]
        self.known: dict[bytes, Known] = {}
        self.answered = self.duplicates = self.cuts = self.most_files = 0
        self.open()
        self.account.add(self.config())
        self.world.settle()

    def config(self) -> StreamConfig:
        return StreamConfig(
            name="S", subjects=["s.>"], storage=StorageType.FILE, duplicate_window=self.window_s * NS
        )

    def open(self) -> None:
        self.account = self.world.account(fs=self.fs, resources=Resources(ids_in_memory=self.ids_in_memory))
        self.account.recover()
        assert self.account.unrecovered == {}

    def step(self) -> None:
        random = self.random
        chance = random.random()
        if chance < 0.03:
            self.restart()
        elif chance < 0.06:
            self.remove()
        elif chance < 0.08:
            self.look()
            self.window_s = random.choice(WINDOWS)
            self.account.update(self.stream, self.config())
            self.world.settle()
        elif chance < 0.12:
            self.world.advance(random.choice((1, 10, 50)))
        else:
            self.publish(b"id-%d" % random.randrange(IDS), cut=random.randrange(1, 8) if chance > 0.94 else 0)
        self.most_files = max(self.most_files, len(self.stream.dedupe.generations))

    @property
    def stream(self) -> id_keeper.Stream:  # type: ignore[name-defined]
        return self.account.streams["S"]

    def look(self) -> None:
        for each in self.known.values():
            if each.time_ns <= self.world.time_ns - self.window_s * NS:
                each.lapsed = True

    def publish(self, message_id: bytes, *, cut: int) -> None:
        self.look()
        self.world.time_ns += 1
        now = self.world.time_ns
        known = self.known.get(message_id)
        within = known is not None and known.time_ns > now - self.window_s * NS
        if cut:
            self.fs.cut_power_at(self.fs.operations + cut)
        try:
            block = headers.make((b"Nats-Msg-Id", message_id))
            self.world.send(b"s.a", b"x", reply=b"me", headers=block)
            self.world.settle()
        except PowerCut:
            self.cuts += 1
            self.begin_again(self.fs.crash(self.random.choice(list(Keep)), self.random))
            self.find_what_survived(message_id, now)
            return
        self.fs.cut_power_at(0)
        (answer,) = (json.loads(each.payload) for each in self.world.published if each.subject == b"me")
        self.world.published.clear()
        duplicate = bool(answer.get("duplicate"))
        self.answered += 1
        self.duplicates += duplicate
        if known is None or not within:
            assert not duplicate
        elif not (known.lapsed or known.uncertain):
            assert duplicate
        if duplicate:
            assert known is not None
            assert answer["seq"] == known.seq
        else:
            self.known[message_id] = Known(answer["seq"], now)

    def find_what_survived(self, message_id: bytes, now: int) -> None:
        """Find out whether the message was stored; of its id, the answer to the next one tells."""
        log, record = self.stream.log, Record()
        last = max((each.seq for each in self.known.values()), default=0)
        for seq in log.sequences(last + 1, log.last_seq):
            assert log.get(seq, record)
            assert headers.find(record.headers(), b"Nats-Msg-Id") == message_id
            self.known[message_id] = Known(seq, record.timestamp)

    def restart(self) -> None:
        if self.random.random() < 0.5:
            self.account.stop()
            self.begin_again(self.fs.crash(self.random.choice(list(Keep)), self.random))
        else:
            self.begin_again(self.fs.kill())

    def begin_again(self, fs: CrashFileSystem) -> None:
        self.fs = fs
        time_ns = self.world.time_ns
        self.world = FakeWorld(time_ns)
        self.open()
        for each in self.known.values():
            each.uncertain = each.uncertain or each.removed
        self.world.settle()

    def remove(self) -> None:
        log = self.stream.log
        upto = self.random.randrange(log.last_seq + 1) if self.random.random() < 0.5 else 0
        if upto:
            log.remove_below(upto)
        elif log.last_seq:
            log.remove(self.random.randrange(1, log.last_seq + 1))
        self.account.committer.dirty(self.stream)
        self.world.settle()
        record = Record()
        for each in self.known.values():
            each.removed = each.removed or not log.get(each.seq, record)


@pytest.mark.parametrize("seed", range(40))
def test_a_window_knows_what_a_dict_knows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_keeper, "_MERGED_AT_ONCE", 3)
    life = Life(seed, ids_in_memory=2 + seed % 9)
    for _ in range(STEPS):
        life.step()
    assert life.answered > 100
    assert life.duplicates > 10
    assert life.most_files > 1
    assert life.cuts > 0
