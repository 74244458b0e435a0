"""Work for a thread that its owner may do himself."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from millstream.jetstream.stream.committed_log import Committing
from millstream.jetstream.stream.ticket import Ticket
from millstream.jetstream.stream.worker_job import WorkerJob
from millstream.store.commit import Commit
from tests.kits.jetstream.stream import Site


class Job(WorkerJob):
    """A job whose work is a method, as in commits."""

    def __init__(self) -> None:
        super().__init__(self._work_of_mine)
        self.runs = 0

    def _work_of_mine(self) -> None:
        self.runs += 1


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_whoever_takes_a_job_first_runs_it_and_nobody_else() -> None:
    job = Job()
    job.run()
    job.run()
    job.finish()
    assert job.runs == 1


def test_a_job_that_has_ended_is_freed_without_the_garbage_collector(no_collector: None) -> None:
    job = Job()
    gone = weakref.ref(job)
    job.run()
    del job
    assert gone() is None


def test_a_commit_that_has_ended_is_freed_without_the_garbage_collector(no_collector: None) -> None:
    commits: list[weakref.ref[Commit]] = []
    site = Site()
    start = site.world.writers.start

    def noted(commit: Commit, owner: Committing, publisher: int) -> Ticket:
        commits.append(weakref.ref(commit))
        return start(commit, owner, publisher)

    site.world.writers.start = noted  # type: ignore[method-assign]
    site.create()
    for _ in range(3):
        site.world.send(b"s.a", b"x" * 10_000)
        site.world.settle()
    assert len(commits) == 3
    assert [commit() for commit in commits] == [None, None, None]
