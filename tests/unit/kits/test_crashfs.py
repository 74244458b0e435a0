"""The disk that fails in tests must fail as it says, or the tests prove nothing."""

import errno
from random import Random

import pytest

from millstream.store.errors import StoreError
from tests.kits.crashfs import SECTOR, CrashFile, CrashFileSystem, Keep, PowerCut

ANY = Random(1)


def synced_file(fs: CrashFileSystem, content: bytes = b"synced") -> CrashFile:
    file = fs.open("s/f", create=True)
    file.append(content)
    file.sync()
    fs.sync_folder("s")
    return file


def test_unsynced_bytes_are_forgotten_and_synced_ones_are_not() -> None:
    fs = CrashFileSystem()
    synced_file(fs).append(b" and not")
    assert fs.read_all("s/f") == b"synced and not"
    assert fs.crash(Keep.NOTHING, ANY).read_all("s/f") == b"synced"


def test_everything_can_be_kept() -> None:
    fs = CrashFileSystem()
    synced_file(fs).append(b" and not")
    assert fs.crash(Keep.EVERYTHING, ANY).read_all("s/f") == b"synced and not"


def test_names_in_a_folder_that_was_renamed_do_not_come_back() -> None:
    fs = CrashFileSystem()
    fs.open("s/a/f", create=True).append(b"x")
    fs.rename("s/a", "gone/a")
    fs.sync_folder("s")
    assert fs.crash(Keep.EVERYTHING, ANY).paths() == ["gone/a/f"]


def test_a_name_needs_a_sync_of_its_folder() -> None:
    fs = CrashFileSystem()
    file = fs.open("s/f", create=True)
    file.append(b"x")
    file.sync()
    assert fs.crash(Keep.NOTHING, ANY).list("s") == []


def test_a_removed_name_comes_back_until_the_folder_is_synced() -> None:
    fs = CrashFileSystem()
    synced_file(fs)
    fs.remove("s/f")
    assert fs.list("s") == []
    fs = fs.crash(Keep.NOTHING, ANY)
    assert fs.list("s") == ["f"]
    fs.remove("s/f")
    fs.sync_folder("s")
    assert fs.crash(Keep.NOTHING, ANY).list("s") == []


def test_a_rename_happens_whole_or_not_at_all() -> None:
    outcomes = set()
    for seed in range(20):
        fs = CrashFileSystem()
        synced_file(fs)
        fs.rename("s/f", "s/g")
        outcomes.add(tuple(fs.crash(Keep.SECTORS, Random(seed)).list("s")))
    assert outcomes == {("f",), ("g",)}


def test_a_replacement_is_durable_when_it_returns_and_never_half_done() -> None:
    fs = CrashFileSystem()
    fs.replace("s/f", b"old")
    fs.replace("s/f", b"new!")
    assert fs.crash(Keep.NOTHING, ANY).read_all("s/f") == b"new!"
    for cut in range(1, 6):
        for seed in range(8):
            fs = CrashFileSystem()
            fs.replace("s/f", b"old")
            fs.cut_power_at(fs.operations + cut)
            with pytest.raises(PowerCut):
                fs.replace("s/f", b"new!")
            assert fs.crash(Keep.SECTORS, Random(seed)).read_all("s/f") in (b"old", b"new!")


def test_sectors_are_kept_one_by_one() -> None:
    parts = [bytes([65 + number]) * SECTOR for number in range(4)]
    seen = set()
    for seed in range(60):
        fs = CrashFileSystem()
        synced_file(fs, b"").append(b"".join(parts))
        data = fs.crash(Keep.SECTORS, Random(seed)).read_all("s/f")
        kept = tuple(data[at : at + SECTOR] for at in range(0, len(data), SECTOR))
        assert all(sector in (parts[number], bytes(SECTOR)) for number, sector in enumerate(kept))
        seen.add(tuple(sector == parts[number] for number, sector in enumerate(kept)))
    assert (True, False, True, False) in seen or (False, True, False, True) in seen
    assert () in seen or (False,) * 4 in seen


def test_a_prefix_has_no_holes() -> None:
    parts = b"".join(bytes([65 + number]) * SECTOR for number in range(4))
    sizes = set()
    for seed in range(60):
        fs = CrashFileSystem()
        synced_file(fs, b"").append(parts)
        data = fs.crash(Keep.PREFIX, Random(seed)).read_all("s/f")
        assert parts.startswith(data)
        sizes.add(len(data))
    assert sizes == {0, SECTOR, 2 * SECTOR, 3 * SECTOR, 4 * SECTOR}


def test_after_a_failed_sync_bytes_can_be_read_but_are_not_saved_by_the_next() -> None:
    fs = CrashFileSystem()
    file = synced_file(fs)
    file.append(b" lost")
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError) as caught:
        file.sync()
    assert caught.value.recoverable
    fs.heal()
    file.sync()
    assert file.read(0, 100) == b"synced lost"
    assert fs.crash(Keep.EVERYTHING, ANY).read_all("s/f") != b"synced lost"


def test_bytes_written_again_after_a_failed_sync_are_saved() -> None:
    fs = CrashFileSystem()
    file = synced_file(fs)
    file.append(b" lost")
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError):
        file.sync()
    fs.heal()
    file.overwrite(6, b" kept")
    assert fs.crash(Keep.NOTHING, ANY).read_all("s/f") == b"synced kept"


def test_a_full_disk_takes_what_fits_and_heals() -> None:
    fs = CrashFileSystem(space=10)
    file = fs.open("s/f", create=True)
    file.append(b"12345678")
    with pytest.raises(StoreError, match="No space") as caught:
        file.append(b"abcdef")
    assert caught.value.recoverable
    assert file.size() == 8
    assert len(fs.read_all("s/f")) <= 10
    fs.heal()
    file.append(b"xyz")
    assert fs.read_all("s/f")[:11] == b"12345678xyz"


def test_the_chosen_operation_fails_and_no_other() -> None:
    fs = CrashFileSystem()
    fs.fail(errno.EIO, at=3)
    file = fs.open("s/f", create=True)
    file.append(b"a")
    with pytest.raises(StoreError):
        file.append(b"b")
    file.append(b"c")
    assert fs.transcript == ["create f", "write f", "write f", "write f"]


def test_a_dead_machine_does_nothing_more() -> None:
    fs = CrashFileSystem()
    file = synced_file(fs)
    fs.cut_power_at(fs.operations + 1)
    with pytest.raises(PowerCut):
        file.append(b"1234")
    for act in (file.sync, lambda: fs.read_all("s/f"), lambda: fs.remove("s/f"), lambda: file.read(0, 1)):
        with pytest.raises(PowerCut):
            act()
    assert fs.crash(Keep.EVERYTHING, ANY).read_all("s/f") == b"synced12"


def test_the_same_seed_gives_the_same_crash() -> None:
    def crashed(seed: int) -> list[bytes]:
        fs = CrashFileSystem()
        for name in "abcdef":
            fs.open(f"s/{name}", create=True).append(name.encode() * 2000)
        survivor = fs.crash(Keep.SECTORS, Random(seed))
        return [survivor.read_all(path) for path in survivor.paths()]

    assert crashed(7) == crashed(7)
    assert crashed(7) != crashed(8)


def test_a_closed_file_is_not_used() -> None:
    fs = CrashFileSystem()
    file = synced_file(fs)
    file.close()
    with pytest.raises(AssertionError, match="after it was closed"):
        file.read(0, 1)
