"""Streams beside a commit journal: when their commits begin, and who syncs what it vouches for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kits.jetstream.stream import Site


class Journal:
    """Says what a test says, and notes what it is told."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.held: set[bytes] = set()
        self.crowded = False
        self.has_places = False
        self.waiting: list[Callable[[], None]] = []

    def failed(self, key: bytes) -> None:
        pass

    def synced(self, key: bytes) -> None:
        self.told.append(key)

    def holds(self, key: bytes) -> bool:
        return key in self.held

    def when_released(self, key: bytes, then: Callable[[], None]) -> None:
        raise AssertionError("nothing is erased here")

    def has_place(self, publisher: int) -> bool:
        return self.has_places

    def when_room(self, then: Callable[[], None]) -> None:
        self.waiting.append(then)

    def has_room(self) -> None:
        self.crowded = False
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


def site_of(*names: str) -> tuple[Site, Journal]:
    site = Site()
    journal = Journal()
    site.world.journal = journal  # type: ignore[assignment]
    for name in names:
        site.create(name)
    return site, journal


@pytest.mark.parametrize("server_stops", [True, False])
def test_a_journal_goes_on_vouching_for_streams_that_stop(server_stops: bool) -> None:
    site, journal = site_of("A")
    stream = site.account.streams["A"]
    site.publish("a.x")
    commit_without_sync(site, "A")
    journal.held.add(stream.journal_key)
    journal.told.clear()
    site.disk.syncs.clear()
    site.account.stop(server_stops=server_stops)
    synced = any(path.endswith(".log") for path in site.disk.syncs)
    assert synced is not server_stops  # the journal does it, for all at once, when it is closed
    assert (stream.journal_key in journal.told) is synced


def commit_without_sync(site: Site, name: str) -> None:
    """Commit a message as a journal does."""
    log = site.account.streams[name].log
    log.append(name.lower().encode() + b".x", b"1", 0, 0, 1, 1, 0)
    commit = log.begin_commit()
    assert commit is not None
    commit.run(sync=False)
    log.end_commit(commit)


def test_a_journal_need_not_vouch_for_a_stream_that_is_deleted() -> None:
    site, journal = site_of("A")
    key = site.account.streams["A"].journal_key
    journal.told.clear()
    site.account.delete(site.account.streams["A"])
    assert key in journal.told


def test_commits_begin_when_the_journal_has_room_with_all_that_gathered() -> None:
    site, journal = site_of("A", "B")
    journal.crowded = True
    for body in (b"1", b"2"):
        site.world.send(b"a.x", body, reply=b"me")
        site.world.settle()
    site.world.send(b"b.x", b"1", reply=b"me")
    site.world.settle()
    assert site.sent(b"me") == []
    assert len(journal.waiting) == 1
    site.disk.syncs.clear()
    journal.has_room()
    site.world.settle()
    assert len(site.sent(b"me")) == 3
    assert sum("/A/log/0" in path for path in site.disk.syncs) == 1


def test_a_commit_that_the_journal_has_a_place_for_does_not_wait() -> None:
    site, journal = site_of("A")
    journal.crowded = journal.has_places = True
    site.world.send(b"a.x", b"1", reply=b"me")
    site.world.settle()
    assert len(site.sent(b"me")) == 1
    assert journal.waiting == []


def test_streams_in_memory_do_not_wait_for_the_journal() -> None:
    site, journal = site_of()
    site.create("M", storage="memory")
    journal.crowded = True
    site.world.send(b"m.x", b"1", reply=b"me")
    site.world.settle()
    assert len(site.sent(b"me")) == 1


def test_a_stream_that_waits_for_room_can_be_deleted() -> None:
    site, journal = site_of("A", "B")
    journal.crowded = True
    for subject in (b"a.x", b"b.x"):
        site.world.send(subject, b"1", reply=b"me")
    site.world.settle()
    site.account.delete(site.account.streams["A"])
    journal.has_room()
    site.world.settle()
    assert [b'"B"' in each.payload for each in site.sent(b"me")][-1:] == [True]
