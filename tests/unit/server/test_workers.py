"""Threads that work for the event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest_asyncio

from millstream.server.workers import Workers
from tests.kits.patience import PATIENCE_S


@pytest_asyncio.fixture
async def workers() -> AsyncIterator[Workers]:
    made = Workers(asyncio.get_running_loop(), 2, "test")
    yield made
    made.shutdown()


async def test_work_runs_in_another_thread_and_its_end_in_the_loop(workers: Workers) -> None:
    here = threading.get_ident()
    ran_in: list[int] = []
    ended: asyncio.Future[tuple[int, Exception | None]] = asyncio.get_running_loop().create_future()
    workers.submit(
        lambda: ran_in.append(threading.get_ident()),
        lambda problem: ended.set_result((threading.get_ident(), problem)),
    )
    assert await ended == (here, None)
    assert ran_in != [here]


async def test_what_work_raises_is_told_and_the_thread_goes_on(workers: Workers) -> None:
    told: asyncio.Queue[Exception | None] = asyncio.Queue()

    def fail() -> None:
        raise ValueError("no")

    for _ in range(3):
        workers.submit(fail, told.put_nowait)
        assert isinstance(await told.get(), ValueError)
    workers.submit(lambda: None, told.put_nowait)
    assert await told.get() is None


async def test_two_jobs_run_at_the_same_time(workers: Workers) -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE_S)
    told: asyncio.Queue[Exception | None] = asyncio.Queue()
    for _ in range(2):
        workers.submit(lambda: meeting.wait() and None, told.put_nowait)
    assert [await told.get(), await told.get()] == [None, None]


async def test_everything_submitted_is_done_when_shutdown_returns() -> None:
    workers = Workers(asyncio.get_running_loop(), 2, "test")
    done: list[int] = []
    for number in range(20):
        workers.submit(lambda number=number: done.append(number), lambda problem: None)  # type: ignore[misc]
    workers.shutdown()
    assert sorted(done) == list(range(20))
