"""A file in compressed blocks reads like the plain one, whatever happens to it."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from millstream.store.block_file import (
    BlockFile,
    BlockWriter,
    finished_file,
    open_segment_file,
    overwrite_all,
)
from millstream.store.blocks import BLOCK_SIZE, find_blocks, pack, unpack
from millstream.store.errors import StoreError
from millstream.store.fs import FileSystem, MemoryFileSystem, RealFileSystem
from millstream.store.segment import file_header
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut

SMALL = 100  # bytes of a block
PATH = "s/0000000001.log"


def text(size: int, seed: int = 1) -> bytes:
    """Something that can be compressed, behind the header of a segment."""
    random = Random(seed)
    words = [b"orders ", b"of ", b"the ", b"day ", b"%08d " % seed]
    body = b"".join(random.choice(words) for _ in range(size))
    return (file_header(1) + body)[:size]


def written(data: bytes, fs: FileSystem | None = None, *, block_size: int = SMALL) -> BlockFile:
    fs = fs or MemoryFileSystem()
    file = fs.open(PATH, create=True)
    writer = BlockWriter(file, block_size)
    for start in range(0, len(data), 37):
        writer.append(data[start : start + 37])
    writer.finish()
    fs.sync_folder("s")
    made = finished_file(fs, PATH, file)
    assert isinstance(made, BlockFile)
    return made


def opened(fs: FileSystem) -> BlockFile:
    file = open_segment_file(fs, PATH)
    assert isinstance(file, BlockFile)
    return file


def flip(fs: CrashFileSystem, at: int) -> None:
    fs.damage(PATH, lambda data: data.__setitem__(at, data[at] ^ 1))


@pytest.mark.parametrize("size", [1, SMALL - 1, SMALL, SMALL + 1, 10 * SMALL, 10 * SMALL + 7])
def test_any_stretch_reads_as_in_the_plain_file(size: int) -> None:
    data = text(size)
    file = written(data)
    random = Random(size)
    assert (file.size(), file.read(0, size)) == (size, data)
    for _ in range(200):
        offset, length = random.randrange(size + 3), random.randrange(size + 3)
        assert file.read(offset, length) == data[offset : offset + length]


def test_an_empty_file_is_one_without_blocks() -> None:
    assert (written(b"").size(), written(b"").read(0, 10)) == (0, b"")


def test_it_is_opened_as_what_it_is() -> None:
    fs = MemoryFileSystem()
    written(text(500), fs)
    assert opened(fs).read(0, 500) == text(500)
    plain = fs.open("s/0000000002.log", create=True)
    plain.append(text(500))
    assert open_segment_file(fs, "s/0000000002.log") is plain


def test_a_plain_file_with_a_damaged_header_is_still_plain() -> None:
    fs = MemoryFileSystem()
    block = pack(0, b"the image of a block", 0)  # in a payload, that is: at another place than it says
    for data in (b"", b"MSL", bytes(16) + text(500)[16:], bytes(16) + block):
        fs.replace(PATH, data)
        assert not isinstance(open_segment_file(fs, PATH), BlockFile)


def test_what_cannot_be_compressed_takes_hardly_more_room() -> None:
    fs = MemoryFileSystem()
    noise = Random(1).randbytes(3 * BLOCK_SIZE)
    assert written(noise, fs, block_size=BLOCK_SIZE).read(0, len(noise)) == noise
    assert len(fs.read_all(PATH)) < len(noise) * 1.002


def test_what_can_be_compressed_takes_less() -> None:
    fs = MemoryFileSystem()
    written(text(100_000), fs, block_size=BLOCK_SIZE)
    assert len(fs.read_all(PATH)) < 50_000


def test_it_cannot_grow_or_be_cut() -> None:
    file = written(text(500))
    with pytest.raises(StoreError, match="compressed"):
        file.append(b"x")
    with pytest.raises(StoreError, match="compressed"):
        file.truncate(3)


def test_a_flipped_bit_anywhere_costs_at_most_one_block() -> None:
    data = text(1000)
    whole = MemoryFileSystem()
    written(data, whole)
    for at in range(len(whole.read_all(PATH))):
        fs = CrashFileSystem()
        written(data, fs).close()
        flip(fs, at)
        found = opened(fs).read(0, 2000)
        assert len(found) == len(data)
        wrong = [
            start for start in range(0, len(found), SMALL) if found[start:][:SMALL] != data[start:][:SMALL]
        ]
        assert len(wrong) <= 1
        for start in wrong:
            assert found[start:][:SMALL] == bytes(len(found[start:][:SMALL])), "it should read as zeros"


def test_a_block_that_was_destroyed_with_its_header_does_not_move_the_others() -> None:
    data = text(1000)
    for index_too in (False, True):
        fs = CrashFileSystem()
        written(data, fs).close()
        blocks = find_blocks(fs.read_all(PATH))
        assert blocks is not None
        place, length = blocks.places[4], blocks.lengths[4]
        fs.damage(PATH, lambda raw, place=place, n=length: raw.__setitem__(slice(place, place + n), bytes(n)))
        if index_too:
            fs.damage(PATH, lambda raw: raw.__delitem__(slice(-9, None)))
        assert opened(fs).read(0, 1000) == data[:400] + bytes(100) + data[500:]


def test_a_file_that_was_cut_has_the_blocks_before_the_cut() -> None:
    data = text(1000)
    for cut in range(1, 600, 7):
        fs = CrashFileSystem()
        written(data, fs).close()
        whole = len(fs.read_all(PATH))
        fs.damage(PATH, lambda raw, cut=cut: raw.__delitem__(slice(-cut, None)))
        file = open_segment_file(fs, PATH)
        if isinstance(file, BlockFile):
            assert data.startswith(file.read(0, 1000))
        else:
            assert whole - cut < 100  # not even the first block is whole


def test_an_index_that_lies_is_not_believed() -> None:
    """The index is that of another file, with a valid checksum."""
    fs = CrashFileSystem()
    written(text(1000), fs).close()
    other = CrashFileSystem()
    written(text(900, 2), other).close()
    tail = other.read_all(PATH)[-30:]
    fs.damage(PATH, lambda raw: raw.__setitem__(slice(-30, None), tail))
    assert opened(fs).read(0, 2000) == text(1000)


def test_damage_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    fs = CrashFileSystem()
    file = written(text(1000), fs)
    flip(fs, 30)
    for _ in range(3):
        file.read(0, 1000)
    assert [record.getMessage() for record in caplog.records] == [f"{PATH}: damaged block at 0"]


def test_a_block_says_what_it_holds() -> None:
    block = pack(300, b"abc" * 50, 77)
    assert unpack(block, 77) == (300, b"abc" * 50)
    assert unpack(block, 78) is None
    assert unpack(block[:-1], 77) is None
    assert unpack(b"", 77) is None


# -- overwriting ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fs_kind", ["memory", "real", "crash"])
def test_overwriting_changes_what_is_meant_and_leaves_no_copy(fs_kind: str, tmp_path: Path) -> None:
    fs: FileSystem = {"memory": MemoryFileSystem, "real": RealFileSystem, "crash": CrashFileSystem}[fs_kind]()
    path = f"{tmp_path}/{PATH}" if fs_kind == "real" else PATH
    fs.make_folder(path.rpartition("/")[0])
    data = bytearray(text(1000))
    file = fs.open(path, create=True)
    writer = BlockWriter(file, SMALL)
    writer.append(data)
    writer.finish()
    made = finished_file(fs, path, file)
    parts = [(950, b"Z" * 50), (90, b"X" * 230), (5, b"Y")]
    for offset, piece in parts:
        data[offset : offset + len(piece)] = piece
    overwrite_all(made, parts)
    assert made.read(0, 1000) == data
    assert open_segment_file(fs, path).read(0, 1000) == data
    assert fs.list(path.rpartition("/")[0]) == ["0000000001.log"]
    made.close()


def test_the_blocks_that_were_overwritten_are_destroyed_in_the_file_that_is_replaced() -> None:
    fs = CrashFileSystem()
    file = written(text(1000), fs)
    old = fs.open(PATH, create=False)  # keeps the file without a name
    file.overwrite(450, b"X" * 100)
    blocks = find_blocks(old.read(0, 5000))
    assert blocks is not None
    assert blocks.starts == [0, 100, 200, 300, 600, 700, 800, 900]
    assert fs.transcript[-2:] == ["overwrite 0000000001.log"] * 2


def test_power_that_goes_at_any_moment_of_overwriting_leaves_the_old_or_the_new_file() -> None:
    before = text(1000)
    after = before[:450] + b"X" * 100 + before[550:]
    outcomes = set()
    for keep in Keep:
        for step in range(1, 12):
            fs = CrashFileSystem()
            file = written(before, fs)
            fs.cut_power_at(fs.operations + step)
            try:
                file.overwrite(450, b"X" * 100)
            except PowerCut:
                found = opened(fs.crash(keep, Random(step))).read(0, 2000)
                assert found in (before, after)
                outcomes.add(found == after)
            else:
                assert opened(fs.crash(keep, Random(step))).read(0, 2000) == after
    assert outcomes == {False, True}


def test_a_disk_that_fails_at_any_moment_of_overwriting_leaves_the_old_or_the_new_file() -> None:
    before = text(1000)
    after = before[:450] + b"X" * 100 + before[550:]
    failures = 0
    for step in range(1, 12):
        fs = CrashFileSystem()
        file = written(before, fs)
        fs.fail(errno.EIO, at=fs.operations + step)
        try:
            file.overwrite(450, b"X" * 100)
        except StoreError:
            failures += 1
            assert file.read(0, 2000) == before
        fs.heal()
        file.overwrite(450, b"X" * 100)
        assert file.read(0, 2000) == after
        assert opened(fs).read(0, 2000) == after
        assert fs.list("s") == ["0000000001.log"]
    assert failures >= 4


def test_a_damaged_block_stays_lost_when_another_is_overwritten() -> None:
    fs = CrashFileSystem()
    data = text(1000)
    file = written(data, fs)
    flip(fs, 30)
    file.overwrite(450, b"X" * 100)
    assert file.read(0, 1000) == bytes(100) + data[100:450] + b"X" * 100 + data[550:]


def test_a_block_that_claims_to_stand_far_behind_does_not_make_the_file_large() -> None:
    """A gap before a block reads as zeros: a few hundred bytes must not ask for gigabytes."""
    fs = MemoryFileSystem()
    near, far = pack(0, b"near" * 20, 0), pack(4_000_000_000, b"far" * 20, 0)
    fs.replace(PATH, near + pack(4_000_000_000, b"far" * 20, len(near)))
    assert open_segment_file(fs, PATH).size() == len(b"near" * 20)
    assert unpack(far, 0) is None
