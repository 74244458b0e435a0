"""Bits flip, files are cut, zeroed and deleted: everything else is still there, and nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from millstream.store.block_file import BlockFile, open_segment_file
from millstream.store.blocks import find_blocks
from millstream.store.log import Log
from millstream.store.recovery import open_log
from millstream.store.segment import FILE_HEADER_SIZE
from tests.kits.crashfs import SECTOR, CrashFileSystem
from tests.kits.store.scenario import SEGMENT, Life, read_all

COUNT = 60
SEALED, LAST, SUMMARY = "sealed", "last", "summary"


class Damaged:
    """A log at rest, with some messages removed, that something is done to."""

    def __init__(self, seed: int, block_size: int = 0) -> None:
        self.random = Random(seed)
        self.fs = CrashFileSystem()
        self.life = Life(self.fs, block_size=block_size)
        self.life.open()
        self.life.put(COUNT)
        self.life.commit()
        self.life.remove(2, 9, 10, 31, 58)
        self.life.commit()
        if block_size:
            self.life.compact()
        self.places = self._places()
        self.life.log.close()
        self.blocks = {path: self._blocks(path) for path in self.fs.paths() if path.endswith(".log")}

    def _places(self) -> dict[int, tuple[str, int, int]]:
        """Return the place of each live record: path, offset, end."""
        places = {}
        for segment in self.life.log.chain.segments:
            self.life.log.reader.load(segment)
            path = f"s/{segment.number:010d}.log"
            for seq in self.life.live:
                ordinal = segment.ordinal_of(seq)
                if ordinal >= 0:
                    places[seq] = (path, segment.offset_at(ordinal), segment.end_of(ordinal))
        return places

    def _blocks(self, path: str) -> list[tuple[int, int, int, int]]:
        """Return, for each block of a compressed file, its place there and its place in the plain file."""
        file = open_segment_file(self.fs, path)
        if not isinstance(file, BlockFile):
            return []
        index = find_blocks(self.fs.read_all(path))
        assert index is not None
        ends = [*index.starts[1:], index.size]
        return [
            (place, place + length, start, end)
            for place, length, start, end in zip(index.places, index.lengths, index.starts, ends, strict=True)
        ]

    def choose(self, kind: str) -> str:
        """One file of a kind."""
        logs = [path for path in self.fs.paths() if path.endswith(".log")]
        if kind == LAST:
            return logs[-1]
        if kind == SEALED:
            return self.random.choice(logs[:-1])
        return self.random.choice([path for path in self.fs.paths() if path.endswith(".sum")])

    def hit(self, path: str, start: int, end: int) -> set[int]:
        """Sequences of messages that have a byte in this stretch, or in a block that has one."""
        stretches = [(start, end)]
        if self.blocks.get(path):
            stretches = [block[2:] for block in self.blocks[path] if block[0] < end and start < block[1]]
        return {
            seq
            for seq, (where, first, last) in self.places.items()
            if where == path and any(first < high and low < last for low, high in stretches)
        }

    def size(self, path: str) -> int:
        return len(self.fs.read_all(path))

    def reopen(self) -> Log:
        log = open_log(self.fs, "s", segment_size=SEGMENT)
        found = read_all(log)
        for seq, body in found.items():
            assert body == self.life.stored[seq], f"sequence {seq} is not what was stored"
        return log


def flip(damaged: Damaged, path: str) -> set[int]:
    bit = damaged.random.randrange(8 * damaged.size(path))
    damaged.fs.damage(path, lambda data: data.__setitem__(bit >> 3, data[bit >> 3] ^ (1 << (bit & 7))))
    return damaged.hit(path, bit >> 3, (bit >> 3) + 1)


def overwrite(damaged: Damaged, path: str, filler: Callable[[int], bytes]) -> set[int]:
    size = damaged.size(path)
    start = damaged.random.randrange(size)
    end = min(size, start + damaged.random.choice([1, 20, 100, 512]))
    damaged.fs.damage(path, lambda data: data.__setitem__(slice(start, end), filler(end - start)))
    return damaged.hit(path, start, end)


def zero(damaged: Damaged, path: str) -> set[int]:
    return overwrite(damaged, path, bytes)


def scribble(damaged: Damaged, path: str) -> set[int]:
    return overwrite(damaged, path, damaged.random.randbytes)


def truncate(damaged: Damaged, path: str) -> set[int]:
    size = damaged.size(path)
    end = damaged.random.randrange(size)
    damaged.fs.damage(path, lambda data: data.__delitem__(slice(end, None)))
    return damaged.hit(path, end, size)


def delete(damaged: Damaged, path: str) -> set[int]:
    damaged.fs.lose(path)
    return damaged.hit(path, 0, 1 << 32)


def held(damaged: Damaged, path: str) -> set[int]:
    return damaged.hit(path, 0, 1 << 32)


@pytest.mark.parametrize("harm", [flip, zero, scribble, truncate, delete])
@pytest.mark.parametrize("kind", [SEALED, LAST, SUMMARY])
@pytest.mark.parametrize("with_summaries", [True, False], ids=["summaries", "no-summaries"])
@pytest.mark.parametrize("block_size", [0, 120], ids=["plain", "compressed"])
def test_damage_costs_what_it_hit(
    kind: str, harm: Callable[[Damaged, str], set[int]], with_summaries: bool, block_size: int
) -> None:
    for seed in range(40):
        damaged = Damaged(seed, block_size)
        path = damaged.choose(kind)
        before = bytes(damaged.fs.read_all(path))
        hit = harm(damaged, path)
        changed = path not in damaged.fs.paths() or damaged.fs.read_all(path) != before
        if not with_summaries:
            for each in damaged.fs.paths():
                if each.endswith(".sum"):
                    damaged.fs.lose(each)
        log = damaged.reopen()
        found = set(read_all(log))
        live = set(damaged.life.live)
        assert live - found <= hit, f"seed {seed}: more is lost than was hit"
        lost = live - found
        if lost and changed:
            excused = kind == LAST and harm in (truncate, delete) and not (harm is delete and with_summaries)
            excused = excused or (harm is delete and not with_summaries)
            assert log.losses.damages or excused, f"seed {seed}: a loss is not reported"
            assert log.losses.messages >= len(lost) or excused or (kind == LAST and harm is not flip)
        if kind != LAST or harm not in (truncate, delete):
            assert log.last_seq >= COUNT, f"seed {seed}: sequences are used twice"
        # Removed messages stay away unless the word of their removal was itself destroyed.
        if kind == SUMMARY or harm is flip:
            assert len(found - live) <= (0 if kind == SUMMARY else 5)
        # And it goes on: new messages come behind, and the next restart finds the same.
        expected = read_all(log)
        body = b"after"
        new = log.append(b"z", body, 0, 0, len(body), 1, 0)
        assert new not in found
        commit = log.begin_commit()
        assert commit is not None
        commit.run()
        log.end_commit(commit)
        log.close()
        again = open_log(damaged.fs, "s", segment_size=SEGMENT)
        assert read_all(again) == {**expected, new: body}


def test_damage_under_a_sound_summary_is_found_by_reading() -> None:
    damaged = Damaged(1)
    path, first, last = damaged.places[5]
    damaged.fs.damage(path, lambda data: data.__setitem__(last - 1, data[last - 1] ^ 1))
    log = open_log(damaged.fs, "s", segment_size=SEGMENT)
    assert log.losses.messages == 0
    assert log.has(5)
    assert sorted(read_all(log)) == [seq for seq in sorted(damaged.life.live) if seq != 5]
    assert log.losses.messages == 1
    (damage,) = log.losses.damages
    assert (damage.path, damage.offset, damage.bytes) == (path, first, last - first)
    assert not log.has(5)


def test_a_lost_message_is_told_once_and_not_again_after_it_was_given_up() -> None:
    damaged = Damaged(1)
    path, _, last = damaged.places[5]
    damaged.fs.damage(path, lambda data: data.__setitem__(last - 1, data[last - 1] ^ 1))
    log = damaged.reopen()
    commit = log.begin_commit()
    assert commit is not None
    commit.run()
    log.end_commit(commit)
    log.close()
    again = damaged.reopen()
    assert again.losses.damages == []
    assert 5 not in read_all(again)


def test_the_last_messages_numbers_are_not_given_out_again() -> None:
    """The end of the last file is destroyed, with messages that were acknowledged."""
    for size in (1, 30, 100, 300):
        for filler in (bytes, Random(size).randbytes):
            damaged = Damaged(2)
            path = damaged.choose(LAST)
            end = damaged.size(path)
            start = max(end - size, FILE_HEADER_SIZE)
            fill = filler(end - start)
            damaged.fs.damage(
                path, lambda data, start=start, fill=fill: data.__setitem__(slice(start, None), fill)
            )
            log = damaged.reopen()
            assert log.last_seq >= COUNT
            assert log.losses.damages
            # Also not after another crash before anything was written.
            assert open_log(damaged.fs, "s", segment_size=SEGMENT).last_seq >= COUNT


@pytest.mark.parametrize("at", range(FILE_HEADER_SIZE))
def test_an_empty_log_goes_on_behind_what_it_removed_though_its_header_is_lost(at: int) -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s", segment_size=SEGMENT)
    for seq in range(1, 4):
        log.append(b"a", bytes(SEGMENT), 0, 0, SEGMENT, seq, 0)
    commit(log)
    for seq in range(1, 4):
        log.remove(seq)
        commit(log)
    logs = [path for path in fs.paths() if path.endswith(".log")]
    assert len(logs) == 1
    fs.damage(logs[0], lambda data: data.__setitem__(slice(at, FILE_HEADER_SIZE), bytes(16 - at)))
    for _ in range(2):  # the second time with the mended header
        again = open_log(fs, "s", segment_size=SEGMENT)
        assert (again.messages, again.last_seq, again.first_seq) == (0, 3, 4)


@pytest.mark.parametrize("at", range(FILE_HEADER_SIZE))
def test_a_damaged_byte_of_a_header_costs_nothing(at: int) -> None:
    """Nothing else tells the sequence of a file that is empty: power went during its first commit."""
    fs = CrashFileSystem()
    log = open_log(fs, "s", segment_size=SEGMENT, first_seq=70_000)
    log.append(b"a", b"", 0, 0, 0, 1, 0)
    commit(log)
    log.close()
    path = fs.paths()[0]
    fs.damage(path, lambda data: data.__delitem__(slice(FILE_HEADER_SIZE, None)))
    for bit in range(8):
        fs.damage(path, lambda data, bit=bit: data.__setitem__(at, data[at] ^ 1 << bit))
        again = open_log(fs, "s", segment_size=SEGMENT)
        assert (again.last_seq, again.losses.damages) == (69_999, [])


def test_what_a_torn_commit_displaced_stays() -> None:
    """Power goes while messages and the removal of older ones are written, and only the end survives."""
    fs = CrashFileSystem()
    log = open_log(fs, "s", segment_size=1 << 20)
    for seq in range(1, 4):
        log.append(b"a", b"old", 0, 0, 3, seq, 0)
    commit(log)
    path = fs.paths()[0]
    start = len(fs.read_all(path))
    for seq in range(4, 7):
        log.append(b"a", b"n" * 600, 0, 0, 600, seq, 0)
        log.remove(seq - 3)
    commit(log)
    lost = slice(-(-start // SECTOR) * SECTOR, -(-start // SECTOR) * SECTOR + SECTOR)
    fs.damage(path, lambda data: data.__setitem__(lost, bytes(SECTOR)))
    again = open_log(fs, "s", segment_size=1 << 20)
    assert {1, 2, 3} <= read_all(again).keys()
    again.append(b"a", b"new", 0, 0, 3, 9, 0)
    again.remove(1)
    commit(again)
    assert 1 not in read_all(open_log(fs, "s", segment_size=1 << 20))  # that commit counts


@pytest.mark.parametrize("sector", [0, 1])
def test_an_origin_sends_again_what_a_torn_commit_lost(sector: int) -> None:
    fs = CrashFileSystem()
    log = open_log(fs, "s", segment_size=1 << 20, refills=True)
    for seq in range(1, 7):
        log.append(b"a", b"n" * 600, 0, 0, 600, seq, 0)
    commit(log)
    lost = slice(sector * SECTOR, (sector + 1) * SECTOR)
    fs.damage(fs.paths()[0], lambda data: data.__setitem__(lost, bytes(SECTOR)))
    for _ in range(2):  # the second time with the header that the first has written
        again = open_log(fs, "s", segment_size=1 << 20, refills=True)
        assert (again.last_seq, again.losses.reach) == (0, 6)


def commit(log: Log) -> None:
    begun = log.begin_commit()
    assert begun is not None
    begun.run()
    log.end_commit(begun)


def test_a_deleted_last_file_is_noticed_and_its_numbers_are_left_out() -> None:
    damaged = Damaged(3)
    path = damaged.choose(LAST)
    damaged.fs.lose(path)
    log = damaged.reopen()
    assert [damage.reason for damage in log.losses.damages] == ["the segment is missing"]
    assert log.last_seq > COUNT


def test_a_deleted_sealed_file_is_counted_by_its_summary() -> None:
    damaged = Damaged(4)
    path = "s/0000000002.log"
    lost = held(damaged, path)
    damaged.fs.lose(path)
    log = damaged.reopen()
    assert log.losses.messages == len(lost)
    assert "s/0000000002.sum" not in damaged.fs.paths()


def test_summary_and_segment_damaged_while_the_log_is_open() -> None:
    """The tables are loaded from the file, and that holds less than was known."""
    damaged = Damaged(5)
    log = open_log(damaged.fs, "s", segment_size=SEGMENT)
    segment = log.chain.segments[2]
    assert not segment.loaded
    path = f"s/{segment.number:010d}.log"
    lost = min(held(damaged, path))
    _, first, last = damaged.places[lost]
    damaged.fs.lose(path.replace(".log", ".sum"))
    damaged.fs.damage(path, lambda data: data.__setitem__(slice(first, last), bytes(last - first)))
    assert sorted(read_all(log)) == sorted(set(damaged.life.live) - {lost})
    assert log.messages == len(damaged.life.live) - 1
    assert sum(node.count for _, node in log.index.match(b">")) == log.messages
    assert log.losses.damages


def test_a_summary_lost_while_the_log_is_open_is_made_again() -> None:
    damaged = Damaged(6)
    log = open_log(damaged.fs, "s", segment_size=SEGMENT)
    damaged.fs.lose("s/0000000003.sum")
    assert read_all(log) == damaged.life.live
    for segment in log.chain.segments:
        log.reader.load(segment)
    assert log.losses.damages == []
    log.append(b"z", b"", 0, 0, 0, 1, 0)
    commit = log.begin_commit()
    assert commit is not None
    commit.run()
    log.end_commit(commit)
    assert "s/0000000003.sum" in damaged.fs.paths()


def test_a_summary_of_another_segment_is_not_believed() -> None:
    damaged = Damaged(7)
    other = damaged.fs.read_all("s/0000000004.sum")
    damaged.fs.damage("s/0000000003.sum", lambda data: data.__setitem__(slice(None), other))
    assert read_all(damaged.reopen()) == damaged.life.live


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_damage_in_several_places_is_never_taken_for_a_message() -> None:
    for seed in range(100_000, 104_000):
        damaged = Damaged(seed)
        hit: set[int] = set()
        for _ in range(damaged.random.randint(1, 4)):
            path = damaged.choose(damaged.random.choice([SEALED, LAST, SUMMARY]))
            hit |= damaged.random.choice([flip, zero, scribble])(damaged, path)
        log = damaged.reopen()
        assert set(damaged.life.live) - set(read_all(log)) <= hit
