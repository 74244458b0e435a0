"""Publishers take turns, whatever each of them has."""

from __future__ import annotations

from millstream.jetstream.stream.committed_log import Committing
from millstream.jetstream.stream.committer import Committer
from millstream.jetstream.stream.fair_queue import FairQueue
from millstream.jetstream.stream.ticket import Ticket
from millstream.store.commit import Commit
from millstream.store.fs import MemoryFileSystem
from millstream.store.log import Log
from millstream.store.recovery import open_log
from tests.kits.fake_world import FakeWorld
from tests.kits.jetstream.stream import Site


def streams(count: int) -> list[Committing]:
    log: Log = open_log(MemoryFileSystem(), "log")
    committer = Committer(FakeWorld())
    return [Committing(committer, log, b"%d" % number, in_memory=False, sync=True) for number in range(count)]


def all_of(queue: FairQueue) -> list[tuple[bytes, int]]:
    found = []
    while (stream := queue.pop()) is not None:
        found.append((stream.journal_key, queue.publisher))
    return found


def test_each_publisher_has_its_turn() -> None:
    queue = FairQueue()
    a, b, c, d, e = streams(5)
    for stream in (a, b, c):
        queue.add(stream, 1)
    queue.add(d, 2)
    queue.add(e, 2)
    assert len(queue) == 5
    assert all_of(queue) == [(b"0", 1), (b"3", 2), (b"1", 1), (b"4", 2), (b"2", 1)]
    assert not queue
    assert queue.pop() is None


def test_a_stream_that_waits_keeps_its_place() -> None:
    queue = FairQueue()
    a, b = streams(2)
    queue.add(a, 1)
    queue.add(b, 1)
    queue.add(a, 2)
    assert all_of(queue) == [(b"0", 1), (b"1", 1)]


def test_a_stream_that_was_discarded_does_not_come_until_it_is_added_again() -> None:
    queue = FairQueue()
    a, b = streams(2)
    queue.add(a, 1)
    queue.add(b, 1)
    queue.discard(a)
    assert a not in queue
    assert all_of(queue) == [(b"1", 1)]
    queue.add(a, 1)
    queue.discard(a)
    queue.add(a, 2)
    assert a in queue
    assert [name for name, _ in all_of(queue)] == [b"0"]
    assert len(queue) == 0


def test_whoever_publishes_to_one_stream_does_not_wait_for_all_of_another() -> None:
    site = Site()
    begun: list[str] = []
    start = site.world.writers.start
    for number in range(10):
        site.create(f"S{number}")
    site.world.settle()

    def noted(commit: Commit, owner: Committing, publisher: int) -> Ticket:
        begun.append(commit.journal_key.decode().split("/")[-2])
        return start(commit, owner, publisher)

    site.world.writers.start = noted  # type: ignore[method-assign]
    for number in range(9):
        site.world.send(b"s%d.x" % number, b"1")
    site.world.publisher = 2
    site.world.send(b"s9.x", b"1")
    site.world.settle()
    assert begun[:3] == ["S0", "S9", "S1"]
