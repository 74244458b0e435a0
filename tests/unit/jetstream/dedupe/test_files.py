"""Files of ids: looking them up, merging, and every kind of damage."""

from __future__ import annotations

import contextlib
import random

import pytest

from millstream.base.checksum import crc32c
from millstream.base.siphash import KEY_SIZE
from millstream.jetstream.dedupe.builder import Builder, buckets_for, first_hash_of
from millstream.jetstream.dedupe.files import _END, _MAGIC, GivenUp, IdFile, IdFiles
from millstream.jetstream.dedupe.generation import DamagedIds
from millstream.jetstream.dedupe.window import Dedupe
from millstream.store.fs import MemoryFileSystem
from tests.kits.crashfs import CrashFileSystem

WINDOW = 10**9
KEY = bytes(KEY_SIZE)
FOLDER = "store/ids"


def new_window() -> Dedupe:
    window = Dedupe(WINDOW)
    window.use_key(KEY)
    return window


def written(files: IdFiles, number: int, first: int, end: int) -> IdFile:
    """Return a file with an id for each of these sequences; times are sequences."""
    window = new_window()
    for seq in range(first, end):
        window.add(b"id-%d" % seq, seq, seq)
    return files.write(number, window.recent.entries(), first, end - 1, end - 1, KEY)


def searching(*files: IdFile) -> Dedupe:
    window = new_window()
    window.search([each.generation for each in reversed(files)])
    return window


@pytest.mark.parametrize("count", [1, 2, 47, 48, 49, 1000, 5000])
def test_a_file_knows_its_ids_and_no_others(count: int) -> None:
    window = searching(written(IdFiles(MemoryFileSystem(), FOLDER, "me"), 1, 1, count + 1))
    assert [window.find(b"id-%d" % seq, 1) for seq in range(1, count + 1)] == list(range(1, count + 1))
    assert not any(window.find(b"other-%d" % seq, 1) for seq in range(1000))
    assert len(window) == count


def test_an_id_in_a_file_is_known_for_as_long_as_the_window() -> None:
    window = searching(written(IdFiles(MemoryFileSystem(), FOLDER, "me"), 1, 1, 100))
    assert window.find(b"id-50", 50 + WINDOW - 1) == 50
    assert window.find(b"id-50", 50 + WINDOW) == 0


def test_the_filter_keeps_nearly_all_unknown_ids_from_the_disk() -> None:
    fs = MemoryFileSystem()
    window = searching(written(IdFiles(fs, FOLDER, "me"), 1, 1, 20_000))
    (path,) = [f"{FOLDER}/{name}" for name in fs.list(FOLDER)]
    reads = 0
    file = fs.open(path, create=False)
    read = file.read

    def counted(offset: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        return read(offset, size)

    file.read = counted  # type: ignore[method-assign]
    for number in range(20_000):
        window.find(b"other-%d" % number, 1)
    assert reads < 400


def test_the_last_message_of_an_id_counts() -> None:
    files = IdFiles(MemoryFileSystem(), FOLDER, "me")
    window = new_window()
    for seq, message_id in enumerate([b"a", b"b", b"a"], 1):
        window.add(message_id, seq, seq)
    one = files.write(1, window.recent.entries(), 1, 3, 3, KEY)
    assert searching(one).find(b"a", 1) == 3
    two = searching(one)
    two.add(b"a", 9, 9)
    assert two.find(b"a", 1) == 9


@pytest.mark.parametrize("part", [1, 3, 4096])
def test_a_merged_file_has_all_ids(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.jetstream.dedupe.files._PART", part)
    fs = MemoryFileSystem()
    files = IdFiles(fs, FOLDER, "me")
    sizes = [1, 700, 3, 1200, 50]
    parts, first = [], 1
    for number, size in enumerate(sizes, 1):
        parts.append(written(files, number, first, first + size))
        first += size
    merged = files.merge(parts, KEY, lambda: False)
    files.remove(parts)
    assert fs.list(FOLDER) == ["0000000001-0000000005.ids"]
    generation = merged.generation
    assert (generation.count, generation.first_seq, generation.last_seq) == (sum(sizes), 1, sum(sizes))
    loaded = IdFiles(fs, FOLDER, "me").load(fs.list(FOLDER), sum(sizes))
    for window in (searching(merged), searching(*loaded.files)):
        assert all(window.find(b"id-%d" % seq, 1) == seq for seq in range(1, sum(sizes) + 1))
        assert not any(window.find(b"other-%d" % seq, 1) for seq in range(1000))


def test_a_merge_that_is_given_up_leaves_nothing() -> None:
    fs = MemoryFileSystem()
    files = IdFiles(fs, FOLDER, "me")
    parts = [written(files, 1, 1, 10), written(files, 2, 10, 20)]
    with pytest.raises(GivenUp):
        files.merge(parts, KEY, lambda: True)
    assert fs.list(FOLDER) == ["0000000001-0000000001.ids", "0000000002-0000000002.ids"]


def test_what_a_crash_left_beside_a_merged_file_is_removed() -> None:
    fs = MemoryFileSystem()
    files = IdFiles(fs, FOLDER, "me")
    parts = [written(files, 1, 1, 10), written(files, 2, 10, 20)]
    files.merge(parts, KEY, lambda: False)
    fs.open(f"{FOLDER}/0000000003-0000000003.ids.new", create=True).append(b"x")
    fs.open(f"{FOLDER}/of somebody else", create=True).append(b"x")
    loaded = IdFiles(fs, FOLDER, "me").load(fs.list(FOLDER), 19)
    assert [(each.first, each.last) for each in loaded.files] == [(1, 2)]
    assert loaded.damaged == []
    assert fs.list(FOLDER) == ["0000000001-0000000002.ids", "of somebody else"]


@pytest.mark.parametrize(
    ("owner", "last_seq", "reason"),
    [("another", 100, "of another stream"), ("me", 8, "it reaches 9, and the stream only 8")],
)
def test_a_file_that_is_not_of_this_log_is_not_used(owner: str, last_seq: int, reason: str) -> None:
    fs = MemoryFileSystem()
    written(IdFiles(fs, FOLDER, "me"), 1, 1, 10)
    loaded = IdFiles(fs, FOLDER, owner).load(fs.list(FOLDER), last_seq)
    assert loaded.files == []
    assert reason in loaded.damaged[0]
    assert fs.list(FOLDER) == []


def test_every_changed_byte_is_noticed() -> None:
    """In the tables and the end it is noticed at once, elsewhere when an id of its bucket is looked for."""
    fs = MemoryFileSystem()
    written(IdFiles(fs, FOLDER, "me"), 1, 1, 60)
    path = f"{FOLDER}/0000000001-0000000001.ids"
    sound = fs.read_all(path)
    for at in range(len(sound)):
        changed = bytearray(sound)
        changed[at] ^= 1 << (at % 8)
        fs.replace(path, bytes(changed))
        loaded = IdFiles(fs, FOLDER, "me").load(fs.list(FOLDER), 1000)
        if not loaded.files:
            assert loaded.damaged
            continue
        assert at < 59 * 32
        window = searching(*loaded.files)
        wrong = 0
        for seq in range(1, 60):
            try:
                assert window.find(b"id-%d" % seq, 1) == seq
            except DamagedIds:
                wrong += 1
        assert wrong > 0
    for size in range(0, len(sound), 97):
        fs.replace(path, sound[:size])
        assert IdFiles(fs, FOLDER, "me").load(fs.list(FOLDER), 1000).files == []


def test_a_damaged_bucket_is_used_again_when_it_is_mended() -> None:
    fs = MemoryFileSystem()
    one = written(IdFiles(fs, FOLDER, "me"), 1, 1, 1000)
    generation = one.generation
    entries = [generation.entries_of(bucket) for bucket in range(generation.buckets)]
    file = fs.open(f"{FOLDER}/0000000001-0000000001.ids", create=False)
    file.overwrite(32 * 500, bytes(32))
    found: list[DamagedIds] = []
    window = searching(one)
    window.damaged = found.append
    for seq in range(1, 1000):
        with contextlib.suppress(DamagedIds):
            assert window.find(b"id-%d" % seq, 1) == seq
    (bucket,) = {each.bucket for each in found}
    with pytest.raises(DamagedIds):
        generation.entries_in(0, generation.buckets)
    generation.mend(bucket, entries[bucket])
    assert all(window.find(b"id-%d" % seq, 1) == seq for seq in range(1, 1000))
    assert generation.entries_in(0, generation.buckets) == b"".join(entries)


def test_a_disk_that_is_full_keeps_no_part_of_a_file() -> None:
    fs = CrashFileSystem(space=20_000)
    with pytest.raises(Exception, match="No space"):
        written(IdFiles(fs, FOLDER, "me"), 1, 1, 1000)
    assert fs.list(FOLDER) == []


def test_buckets_divide_all_hashes() -> None:
    generator = random.Random(1)
    for count in (1, 48, 49, 1000, 123_456):
        buckets = buckets_for(count)
        assert first_hash_of(0, buckets) == 0
        assert first_hash_of(buckets, buckets) == 2**32
        for _ in range(200):
            bucket = generator.randrange(buckets)
            first = first_hash_of(bucket, buckets)
            assert (first * buckets) >> 32 == bucket
            assert first == 0 or ((first - 1) * buckets) >> 32 == bucket - 1


def test_only_buckets_of_the_file_are_added() -> None:
    with pytest.raises(ValueError, match="no such buckets"):
        Builder(3).add(b"", 2, 4)
    with pytest.raises(ValueError, match="no such buckets"):
        Builder(3).add(b"x", 0, 3)


@pytest.mark.parametrize("starts", [{3: 2**31}, {3: 0}, {0: 1}], ids=["behind the end", "falling", "late"])
def test_a_forged_index_leads_nowhere(starts: dict[int, int]) -> None:
    """Checksums find accidents and not forgers, and no file may lead out of the memory of its entries."""
    fs = MemoryFileSystem()
    files = IdFiles(fs, FOLDER, "me")
    written(files, 1, 1, 1000)
    file = fs.open(f"{FOLDER}/0000000001-0000000001.ids", create=False)
    data = bytearray(file.read(0, file.size()))
    index, end = 32 * 999, len(data) - _END.size
    for bucket, start in starts.items():
        data[index + 8 * bucket : index + 8 * bucket + 4] = start.to_bytes(4, "little")
    data[-8:-4] = crc32c(bytes(data[index:end])).to_bytes(4, "little")
    data[-4:] = crc32c(bytes(data[end:-4])).to_bytes(4, "little")
    file.overwrite(0, bytes(data))
    loaded = files.load(["0000000001-0000000001.ids"], 10_000)
    assert loaded.files == []
    assert "the index leads to no entries" in loaded.damaged[0]


def test_a_forged_file_without_buckets() -> None:
    fs = MemoryFileSystem()
    fs.make_folder(FOLDER)
    end = _END.pack(_MAGIC, 0, 0, 1, 9, 9, KEY, b"me".ljust(32, b"\0"), crc32c(b""), 0)[:-4]
    name = "0000000001-0000000001.ids"
    fs.open(f"{FOLDER}/{name}", create=True).append(end + crc32c(end).to_bytes(4, "little"))
    loaded = IdFiles(fs, FOLDER, "me").load([name], 10_000)
    assert loaded.files == []
    assert "the tables have another size" in loaded.damaged[0]
