"""Power goes at every single write, sync, rename and removal of a log's life."""

from __future__ import annotations

import errno
from random import Random

import pytest

from millstream.store import commit
from millstream.store.errors import StoreError
from tests.kits.crashfs import CrashFileSystem, Keep, PowerCut
from tests.kits.store.scenario import Life, read_all

BLOCK_SIZES = (0, 150)


def operations(block_size: int) -> int:
    fs = CrashFileSystem()
    Life(fs, block_size=block_size).run()
    return fs.operations


TOTAL = {block_size: operations(block_size) for block_size in BLOCK_SIZES}
either = pytest.mark.parametrize("block_size", BLOCK_SIZES, ids=["plain", "compressed"])
SEEDS = {Keep.NOTHING: 1, Keep.EVERYTHING: 1, Keep.PREFIX: 3, Keep.SECTORS: 4}


def test_the_life_has_many_points_to_cut() -> None:
    assert 80 < TOTAL[0] < TOTAL[150]


@either
@pytest.mark.parametrize("keep", Keep)
def test_a_power_cut_at_every_operation_loses_nothing_committed(keep: Keep, block_size: int) -> None:
    for cut in range(1, TOTAL[block_size] + 1):
        for seed in range(SEEDS[keep]):
            fs = CrashFileSystem()
            fs.cut_power_at(cut)
            life = Life(fs, block_size=block_size)
            with pytest.raises(PowerCut):
                life.run()
            life.fs = fs.crash(keep, Random(seed))
            life.open()
            life.check(life.log)
            if keep in (Keep.NOTHING, Keep.EVERYTHING, Keep.PREFIX):
                assert life.log.losses.damages == [], f"a crash at {cut} looks like damage"
            # It goes on as if nothing had happened, and a clean restart finds all of it.
            life.put(3)
            life.commit()
            before = read_all(life.log)
            life.log.close()
            life.open()
            assert read_all(life.log) == before
            assert life.log.last_seq == life.last_seq


@pytest.mark.parametrize("keep", Keep)
def test_a_power_cut_between_the_header_of_a_file_and_a_large_commit_loses_nothing(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_MOST_COPIED", 0)  # every commit is a large one
    total = operations(0)
    assert total > TOTAL[0]
    for cut in range(1, total + 1):
        fs = CrashFileSystem()
        fs.cut_power_at(cut)
        life = Life(fs)
        with pytest.raises(PowerCut):
            life.run()
        life.fs = fs.crash(keep, Random(cut))
        life.open()
        life.check(life.log)
        if keep is not Keep.SECTORS:
            assert life.log.losses.damages == [], f"a crash at {cut} looks like damage"
        life.put(3)
        life.commit()
        before = read_all(life.log)
        life.log.close()
        life.open()
        assert read_all(life.log) == before


@either
@pytest.mark.parametrize("keep", [Keep.NOTHING, Keep.SECTORS])
def test_a_second_power_cut_while_the_log_is_opened_changes_nothing(keep: Keep, block_size: int) -> None:
    for cut in range(1, TOTAL[block_size] + 1, 3):
        for second in range(1, 8):
            fs = CrashFileSystem()
            fs.cut_power_at(cut)
            life = Life(fs, block_size=block_size)
            with pytest.raises(PowerCut):
                life.run()
            life.fs = fs = fs.crash(keep, Random(cut))
            fs.cut_power_at(second)
            try:
                life.open()
            except PowerCut:
                life.fs = fs.crash(keep, Random(second))
                life.open()
            life.check(life.log)


@either
def test_what_is_seen_after_a_process_was_killed_survives_a_power_cut(block_size: int) -> None:
    for cut in range(1, TOTAL[block_size] + 1):
        fs = CrashFileSystem()
        fs.cut_power_at(cut)
        life = Life(fs, block_size=block_size)
        with pytest.raises(PowerCut):
            life.run()
        life.fs = fs = fs.kill()
        life.open()
        life.check(life.log)
        seen, last_seq = read_all(life.log), life.log.last_seq
        life.fs = fs.crash(Keep.NOTHING, Random(cut))
        life.open()
        assert read_all(life.log) == seen, f"after operation {cut}"
        assert life.log.last_seq == last_seq


def test_a_log_that_cannot_be_synced_is_not_opened_and_written_again_by_the_next_start() -> None:
    fs = CrashFileSystem()
    life = Life(fs)
    life.open()
    life.put(3)
    fs.cut_power_at(fs.operations + 3)  # create, write, sync
    with pytest.raises(PowerCut):
        life.commit()
    life.fs = fs = fs.kill()
    fs.fail(errno.EIO, kind="sync")
    with pytest.raises(StoreError):
        life.open()
    fs.heal()
    fs.fail(errno.EIO, kind="sync_folder")
    with pytest.raises(StoreError):
        life.open()
    fs.heal()
    life.open()
    assert len(read_all(life.log)) == 3
    life.fs = fs.crash(Keep.NOTHING, Random(1))
    life.open()
    assert len(read_all(life.log)) == 3


@either
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failure_at_every_operation_loses_nothing_even_if_power_goes_then(
    error: int, block_size: int
) -> None:
    for at in range(1, TOTAL[block_size] + 1):
        fs = CrashFileSystem()
        fs.fail(error, at=at)
        life = Life(fs, block_size=block_size)
        try:
            life.run()
        except StoreError as failure:
            if not failure.recoverable:
                raise
        life.fs = fs.crash(Keep.NOTHING, Random(at))
        life.open()
        life.check(life.log)
        assert life.log.losses.damages == []
