"""Commits that share a journal: one sync for many, and when a journal is used again."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from millstream.server import commit_journal, journal_files
from millstream.server.commit_journal import CommitJournal
from millstream.server.workers import Workers
from millstream.store.commit_journal import read_batches
from millstream.store.errors import StoreError
from millstream.store.journal_batch import JournalBatch
from millstream.store.record import RecordBuffer
from tests.kits.patience import PATIENCE_S

SIZE = 256 * 1024


class Job:
    """A commit of one log, its owner and its ticket, as the journal sees them."""

    def __init__(self, folder: Path, name: str, data: bytes = b"data") -> None:
        self.journal_key = name.encode()
        self.path = folder / name
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        self.device = os.fstat(self.descriptor).st_dev
        self.data = data
        self.wait: Callable[[Any], None] | None = None
        self.refused = False
        self.ran = False
        self.ended = False
        self.asked_to_sync = 0
        self.told_synced = 0
        self.commit = self.owner = self
        self.publisher = 0
        self.tell: Callable[[Exception | None], None] = lambda _: None

    def size(self) -> int:
        return len(self.data)

    def begun(self, wait: Callable[[Any], None]) -> None:
        self.wait = wait

    def begin_journaled(self, batch: JournalBatch, device: int) -> bool:
        if self.refused or device != self.device:
            return False
        batch.add(self.journal_key, 1, 0, self.data, RecordBuffer(), self.descriptor)
        return True

    def turned_down(self) -> None:
        self.wait = None

    def run(self) -> None:
        self.ran = True

    def begin_plain(self) -> None:
        return None

    def plain_ended(self, failed_write: int, failed_sync: int) -> None:
        raise AssertionError("it goes another way")

    def journaled_ended(self) -> None:
        self.ended = True

    def sync_soon(self) -> None:
        self.asked_to_sync += 1

    def was_synced(self) -> None:
        self.told_synced += 1


class Site:
    def __init__(self, folder: Path, worth: int = 1) -> None:
        self.folder = folder
        self.workers = Workers(asyncio.get_running_loop(), 2, "test")
        self.done: list[Job] = []
        self.journal = CommitJournal(
            asyncio.get_running_loop(),
            str(folder),
            1,
            self.workers.submit,
            lambda _, callback, *arguments: callback(*arguments),
            size=SIZE,
            worth=worth,
        )

    def take(self, job: Job) -> bool:
        job.tell = lambda _: self.done.append(job)
        return self.journal.take(job)  # type: ignore[arg-type]

    async def write(self, *names: str, data: bytes = b"data") -> list[Job]:
        jobs = [Job(self.folder, name, data) for name in names]
        for job in jobs:
            assert self.take(job)
        await eventually(lambda: all(job in self.done for job in jobs))
        return jobs

    def journals(self) -> list[Path]:
        return list(self.folder.glob("*.journal"))

    def batches(self) -> list[list[bytes]]:
        found = [batch for path in self.journals() for batch in read_batches(path.read_bytes())]
        return [[entry.key for entry in entries] for _, entries in sorted(found, key=lambda each: each[0])]


async def eventually(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_true():  # noqa: ASYNC110 - the journal tells nobody else
            await asyncio.sleep(0.005)


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    yield made
    made.journal.close()
    made.workers.shutdown()


async def test_commits_of_one_turn_are_one_batch(site: Site) -> None:
    jobs = await site.write("a", "b", "c")
    assert site.batches() == [[b"a", b"b", b"c"]]
    assert [job.path.read_bytes() for job in jobs] == [b"data"] * 3
    assert all(job.ended for job in jobs)


async def test_what_comes_while_a_batch_is_written_goes_with_the_next(site: Site) -> None:
    await site.write("a")
    first, second, third = (Job(site.folder, name) for name in ("b", "c", "d"))
    site.take(first)
    await asyncio.sleep(0)  # it begins
    site.take(second)
    site.take(third)
    await eventually(lambda: len(site.done) == 4)
    assert site.batches() == [[b"a"], [b"b"], [b"c", b"d"]]


async def test_the_first_of_many_commits_goes_to_a_journal_that_is_there(site: Site) -> None:
    site.journal.expected = 100
    assert not site.journal.busy  # there is none
    await site.write("a")
    assert site.journal.busy
    site.journal.expected = 1
    assert not site.journal.busy


async def test_a_journal_can_be_closed_while_many_commits_are_expected(site: Site) -> None:
    await site.write("a")
    site.journal.expected = 100
    site.journal.close()
    assert site.journals() == []


async def test_those_who_wait_for_room_take_turns(site: Site) -> None:
    await site.write("a")
    calls: list[str] = []

    def call(name: str) -> None:
        calls.append(name)
        if len(calls) < 6:
            site.journal.when_room(lambda: call(name))

    site.journal.when_room(lambda: call("x"))
    site.journal.when_room(lambda: call("y"))
    await eventually(lambda: len(calls) == 7)
    assert calls == ["x", "y"] * 3 + ["x"]


async def test_a_commit_that_needs_more_and_a_large_one_go_another_way(site: Site) -> None:
    await site.write("a")
    refused = Job(site.folder, "b")
    refused.refused = True
    assert not site.take(refused)
    assert not site.take(Job(site.folder, "c", bytes(commit_journal.MOST_OF_ONE + 1)))
    nameless = Job(site.folder, "d")
    nameless.journal_key = b""
    assert not site.take(nameless)


async def test_who_cannot_wait_gets_the_end_of_a_commit_at_once(site: Site) -> None:
    job = Job(site.folder, "a")
    site.take(job)  # there is not even a journal
    assert job.wait is not None
    job.wait(job)
    assert job.ended
    assert job not in site.done  # that is told later
    await eventually(lambda: job in site.done)


async def test_the_other_commits_end_if_one_cannot_wait_for_the_batch(site: Site) -> None:
    """The thread's news of the batch comes when it has ended already, and says nothing new."""
    await site.write("start")
    jobs = [Job(site.folder, name) for name in "abcde"]
    assert all(site.take(job) for job in jobs)
    job = jobs[2]
    assert job.wait is not None
    job.wait(job)
    assert job.ended
    await eventually(lambda: all(each in site.done for each in jobs))


async def test_a_full_journal_is_turned_and_used_again(site: Site) -> None:
    seen: list[Job] = []
    for number in range(24):  # several times what both of them hold
        seen += await site.write(f"a{number}", data=bytes(60_000))
    assert len(site.journals()) == 2
    assert all(job.ended or job.ran for job in seen)
    assert any(job.told_synced for job in seen)


async def test_a_journal_that_is_free_before_the_other_is_made_stays_in_use(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.write("a")
    may_make = threading.Event()
    make = journal_files.make_journal

    def slow(path: str, size: int, mark: bytes) -> int:
        may_make.wait(PATIENCE_S)
        return make(path, size, mark)

    monkeypatch.setattr(journal_files, "make_journal", slow)
    first = site.journal.files.active
    site.journal.files.turn()
    await eventually(lambda: site.journal.files.active is first)
    may_make.set()
    await eventually(lambda: not site.journal.files.making)
    assert site.journal.files.active is first
    assert site.journal.files.other is not None
    assert len(site.journals()) == 2


async def test_a_journal_is_cleared_when_the_logs_are_synced(site: Site) -> None:
    await site.write("a", "b")
    released: list[bool] = []
    assert site.journal.holds(b"a")
    site.journal.when_released(b"a", lambda: released.append(True))
    await eventually(lambda: bool(released))
    assert not site.journal.holds(b"a")
    assert not site.journal.holds(b"b")
    assert site.batches() == []
    await site.write("c")
    assert site.batches() == [[b"c"]]


async def test_logs_are_synced_one_by_one_if_the_file_system_cannot_be(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_files, "sync_file_system", lambda _: errno.EIO)
    jobs = await site.write(*"abcdefgh")
    released: list[bool] = []
    site.journal.when_released(b"a", lambda: released.append(True))
    for _ in jobs:  # some at a time
        await eventually(lambda: any(job.asked_to_sync for job in jobs))
        assert sum(job.asked_to_sync for job in jobs) <= 4
        job = next(job for job in jobs if job.asked_to_sync)
        job.asked_to_sync = 0
        assert not released
        site.journal.synced(job.journal_key)
    await eventually(lambda: bool(released))
    assert not any(job.told_synced for job in jobs)
    assert site.batches() == []


async def test_commits_go_another_way_if_the_journal_cannot_be_written(site: Site) -> None:
    await site.write("a")
    active = site.journal.files.active
    assert active is not None
    good, active.descriptor = active.descriptor, os.open(active.path, os.O_RDONLY)
    failed = Job(site.folder, "b")
    site.take(failed)
    await eventually(lambda: failed in site.done)
    assert failed.ran
    assert not failed.ended
    active.descriptor = good
    await site.write("c")
    assert [b"c"] in site.batches()


async def test_a_commit_on_another_disk_than_the_journal_goes_another_way(site: Site) -> None:
    await site.write("a")
    here, elsewhere = Job(site.folder, "b"), Job(site.folder, "c")
    elsewhere.device += 1
    assert not site.take(elsewhere)
    site.take(here)
    await eventually(lambda: here in site.done)
    assert (here.ended, here.ran) == (True, False)


async def test_a_journal_with_enough_for_a_batch_says_when_it_has_room(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_journal, "_MOST_IN_A_BATCH", 2)
    await site.write("a")
    assert not site.journal.crowded
    jobs = [Job(site.folder, name) for name in "bc"]
    for job in jobs:
        site.take(job)
    assert site.journal.crowded
    told: list[bool] = []
    site.journal.when_room(lambda: told.append(site.journal.crowded))
    assert told == []
    await eventually(lambda: bool(told))
    assert told == [False]
    site.journal.when_room(lambda: told.append(True))  # there is room now
    await eventually(lambda: len(told) == 2)
    await eventually(lambda: all(job in site.done for job in jobs))


async def test_a_full_batch_has_places_for_publishers_that_have_none_in_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_journal, "_MOST_IN_A_BATCH", 3)
    await site.write("a")
    jobs = [Job(site.folder, name) for name in "bcde"]
    jobs[3].publisher = 7
    for job in jobs[:3]:
        assert site.take(job)
    assert site.journal.crowded
    assert not site.journal.has_place(0)
    assert site.journal.has_place(7)
    assert site.take(jobs[3])
    assert not site.journal.has_place(7)
    await eventually(lambda: all(job in site.done for job in jobs))
    assert "".join(job.path.name for job in site.done) == "abecd"  # publishers take turns


async def test_the_store_is_marked_before_a_journal_is_made(tmp_path: Path) -> None:
    seen: list[int] = []
    site = Site(tmp_path)
    site.journal.files._before_made = lambda: seen.append(len(site.journals()))
    await site.write("a")
    assert seen == [0]
    site.journal.close()
    site.workers.shutdown()


async def test_no_journal_is_made_if_the_store_cannot_be_marked(site: Site) -> None:
    def full() -> None:
        raise StoreError("replace", "millstream.json", "No space left on device")

    site.journal.files._before_made = full
    job = Job(site.folder, "a")
    site.take(job)
    await eventually(lambda: job in site.done)
    assert job.ran
    assert site.journals() == []


async def test_a_commit_whose_own_file_cannot_be_written_goes_another_way(site: Site) -> None:
    await site.write("a")
    good, bad = Job(site.folder, "b"), Job(site.folder, "c")
    bad.descriptor = os.open(bad.path, os.O_RDONLY)
    site.take(good)
    site.take(bad)
    await eventually(lambda: good in site.done and bad in site.done)
    assert (good.ended, good.ran) == (True, False)
    assert (bad.ended, bad.ran) == (False, True)


async def test_a_journal_is_made_when_many_commits_come_at_once(tmp_path: Path) -> None:
    site = Site(tmp_path, worth=5)
    jobs = [Job(site.folder, name) for name in "abcdefg"]
    assert [site.take(job) for job in jobs] == [False] * 4 + [True] * 3
    await eventually(lambda: len(site.done) == 3)
    assert site.batches() == [[b"e", b"f", b"g"]]
    site.journal.close()
    site.workers.shutdown()


async def test_a_server_without_room_for_a_journal_commits_the_other_way(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal_files, "make_journal", full)
    job = Job(site.folder, "a")
    assert site.take(job)
    await eventually(lambda: job in site.done)
    assert job.ran
    assert not site.take(Job(site.folder, "b"))  # for a while it is not tried again
    assert site.journals() == []


async def test_the_end_syncs_what_a_journal_vouches_for_and_removes_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.write("a")
    site.journal.close()
    assert site.journals() == []
    site.workers.shutdown()


async def test_the_end_keeps_a_journal_for_a_log_whose_sync_failed(tmp_path: Path) -> None:
    """The system forgets what it could not write, and then reports that everything is synced."""
    site = Site(tmp_path)
    await site.write("a")
    site.journal.failed(b"a")
    site.journal.close()
    assert site.batches() == [[b"a"]]
    site.workers.shutdown()


async def test_a_log_whose_sync_failed_is_not_synced_with_the_others(tmp_path: Path) -> None:
    site = Site(tmp_path)
    await site.write("a", "b")
    site.journal.failed(b"a")
    site.journal.files.turn()
    await eventually(lambda: site.journal.files.other is not None and not site.journal.files.making)
    other = site.journal.files.other
    assert other is not None
    await eventually(lambda: b"b" not in other.unsynced)
    assert b"a" in other.unsynced
    site.workers.shutdown()


async def test_a_journal_that_is_still_needed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_files, "sync_file_system", lambda _: errno.EIO)
    site = Site(tmp_path)
    await site.write("a")
    site.journal.close()
    assert site.batches() == [[b"a"]]
    site.workers.shutdown()


async def test_a_failed_sync_of_the_file_system_is_not_made_good_by_the_next(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was for the logs of the other file, too: the system may have dropped what they got meanwhile."""
    may_fail = threading.Event()

    def fail(_: int) -> int:
        may_fail.wait(PATIENCE_S)
        return errno.EIO

    monkeypatch.setattr(journal_files, "sync_file_system", fail)
    (early,) = await site.write("early")
    files = site.journal.files
    files.turn()
    await eventually(lambda: not files.making)
    (late,) = await site.write("late")
    may_fail.set()
    await eventually(lambda: early.asked_to_sync > 0)
    monkeypatch.setattr(journal_files, "sync_file_system", lambda _: 0)
    site.journal.synced(b"early")
    await eventually(lambda: not site.journal.holds(b"early"))
    files.turn()
    await eventually(lambda: late.asked_to_sync > 0)
    assert not late.told_synced
