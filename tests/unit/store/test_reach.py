"""Logs that an origin fills again after a damaged end, and what they remember of it."""

from __future__ import annotations

import errno

import pytest

from millstream.store import reach
from millstream.store.errors import StoreError
from millstream.store.log import Log
from millstream.store.recovery import open_log
from tests.kits.crashfs import CrashFileSystem

PATH = "s/0000000001.log"


def put(log: Log, *bodies: bytes) -> None:
    for body in bodies:
        log.append(b"s", body, 0, 0, len(body), 1, 0)
    commit = log.begin_commit()
    assert commit is not None
    commit.run()
    log.end_commit(commit)


@pytest.fixture
def fs() -> CrashFileSystem:
    """Return a log of three messages whose last one is damaged."""
    fs = CrashFileSystem()
    log = open_log(fs, "s")
    put(log, b"one", b"two", b"three")
    log.close()
    fs.damage(PATH, lambda data: data.__setitem__(-1, data[-1] ^ 1))
    return fs


def test_a_log_of_its_own_skips_what_it_may_have_used(fs: CrashFileSystem) -> None:
    log = open_log(fs, "s")
    assert (log.last_seq, log.messages) == (3, 2)
    assert log.losses.messages == 1
    assert reach.NAME not in fs.list("s")


def test_a_log_with_an_origin_gets_the_same_sequences_again(fs: CrashFileSystem) -> None:
    log = open_log(fs, "s", refills=True)
    assert (log.last_seq, log.messages, log.losses.reach) == (2, 2, 3)
    assert log.losses.messages == 1
    put(log, b"three")
    log.close()
    log = open_log(fs, "s", refills=True)
    assert (log.last_seq, log.messages) == (3, 3)
    assert reach.NAME not in fs.list("s")


def test_a_log_that_became_independent_skips_what_clients_may_know(fs: CrashFileSystem) -> None:
    open_log(fs, "s", refills=True).close()
    again = open_log(fs, "s", refills=True)
    assert (again.last_seq, again.losses.reach) == (2, 3)
    again.close()
    log = open_log(fs, "s")
    assert (log.last_seq, log.messages) == (3, 2)
    put(log, b"another")
    assert log.last_seq == 4


def test_a_reach_that_is_not_a_number_is_none(fs: CrashFileSystem) -> None:
    fs.replace("s/reach", b"9x")
    assert reach.read(fs, "s") == 0


def test_a_log_that_cannot_remember_its_reach_is_not_opened_and_stays_as_it_is(fs: CrashFileSystem) -> None:
    before = fs.read_all(PATH)
    fs.fail(errno.EIO, kind="create")
    with pytest.raises(StoreError):
        open_log(fs, "s", refills=True)
    fs.heal()
    assert fs.read_all(PATH) == before
    assert open_log(fs, "s", refills=True).losses.reach == 3
