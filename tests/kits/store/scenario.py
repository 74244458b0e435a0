"""A life of a log in which everything happens once, and what must be true wherever it is cut short."""

from __future__ import annotations

from dataclasses import dataclass, field

from millstream.store.block_file import open_segment_file
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem
from millstream.store.log import Log
from millstream.store.record import Record
from millstream.store.recovery import open_log
from millstream.store.segment import Segment

SEGMENT = 400


@dataclass
class Life:
    """Operations on a log, and how much of them was committed."""

    fs: FileSystem
    folder: str = "s"
    block_size: int = 0  # 0: segments are not compressed
    stored: dict[int, bytes] = field(default_factory=dict)  # every body ever appended
    live: dict[int, bytes] = field(default_factory=dict)
    last_seq: int = 0
    durable: dict[int, bytes] = field(default_factory=dict)  # as of the last commit
    durable_last: int = 0
    erasing: list[bytes] = field(default_factory=list)
    erased: list[bytes] = field(default_factory=list)

    def open(self) -> None:
        self.log: Log = open_log(self.fs, self.folder, segment_size=SEGMENT, block_size=self.block_size)

    def put(self, count: int, subject: bytes = b"a") -> None:
        for _ in range(count):
            number = self.log.last_seq + 1
            body = b"<%05d>" % number * (number % 4 + 1)
            seq = self.log.append(subject, body, 0, 0, len(body), number, 0)
            self.stored[seq] = self.live[seq] = body
            self.last_seq = seq

    def remove(self, *seqs: int) -> None:
        for seq in seqs:
            assert self.log.remove(seq)
            del self.live[seq]

    def remove_below(self, seq: int) -> None:
        self.log.remove_below(seq)
        self.live = {each: body for each, body in self.live.items() if each >= seq}

    def erase(self, seq: int) -> None:
        assert self.log.erase(seq)
        self.erasing.append(self.live.pop(seq))

    def skip_to(self, seq: int) -> None:
        self.log.skip_to(seq, seq)
        self.last_seq = seq

    def commit(self) -> None:
        commit = self.log.begin_commit()
        if commit is None:
            return
        try:
            commit.run()
        except StoreError:
            self.log.fail_commit(commit)
            raise
        self.log.end_commit(commit)
        self.durable, self.durable_last = dict(self.live), self.last_seq
        self.erased += self.erasing
        self.erasing = []

    def compact(self) -> None:
        segment = self.log.upkeep.candidate()
        assert segment is not None, "the scenario should have something to compact here"
        self._compact(segment)
        while self.block_size:
            self.commit()
            segment = self.log.upkeep.candidate()
            if segment is None:
                return
            self._compact(segment)

    def _compact(self, segment: Segment) -> None:
        compaction = self.log.upkeep.begin_job(segment)
        try:
            compaction.run()
        finally:
            self.log.end_job(compaction)

    def run(self) -> None:
        """Do every operation once: about a hundred operations on files."""
        self.open()
        self.put(3)
        self.commit()
        self.put(20)
        self.commit()  # rolls
        self.remove(5, 7, 8)
        self.put(2, b"b")
        self.commit()
        self.erase(6)
        self.erase(25)
        self.commit()
        self.put(12)
        self.remove(*[seq for seq in self.live if seq % 4])
        self.commit()
        self.compact()
        self.put(1)
        self.commit()
        self.erase(12)  # in a segment that was exchanged
        self.commit()
        self.skip_to(60)
        self.put(8, b"c")
        self.commit()
        self.compact()
        self.commit()
        self.remove_below(30)  # drops
        self.commit()
        self.put(30)
        self.commit()
        self.remove_below(self.last_seq + 1)
        self.commit()
        self.put(2)
        self.commit()

    # -- afterwards -------------------------------------------------------------------------------

    def check(self, log: Log) -> None:
        """Assert that committed records are there, removed ones are not, and nothing is damaged."""
        found = read_all(log)
        for seq, body in found.items():
            assert body == self.stored.get(seq), f"sequence {seq} is not what was stored"
            assert seq in self.durable or seq > self.durable_last, f"sequence {seq} came back"
        lost = [seq for seq in self.durable if seq in self.live and seq not in found]
        assert lost == [], "committed messages are lost"
        assert log.messages == len(found)
        assert log.first_seq == min(found, default=log.last_seq + 1)
        assert log.last_seq >= self.durable_last, "sequences are used twice"
        for name in log.chain.fs.list(self.folder):
            data = log.chain.fs.read_all(f"{self.folder}/{name}") + self._unpacked(log, name)
            assert not [body for body in self.erased if body in data], "erased content is still there"

    def _unpacked(self, log: Log, name: str) -> bytes:
        if not name.endswith(".log"):
            return b""
        file = open_segment_file(log.chain.fs, f"{self.folder}/{name}")
        data = file.read(0, file.size())
        file.close()
        return data


def read_all(log: Log) -> dict[int, bytes]:
    record = Record()
    return {seq: record.payload() for seq in list(log.sequences(0, log.last_seq)) if log.get(seq, record)}
