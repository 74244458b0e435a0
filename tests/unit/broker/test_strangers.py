"""Connections before their login: the oldest one of the address with the most is closed first."""

import asyncio
import logging

import pytest

from millstream.broker.strangers import Strangers


async def forever() -> None:
    await asyncio.Event().wait()


async def test_the_oldest_of_the_busiest_address_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    strangers = Strangers(3, "a word", logging.getLogger("test"))
    quiet = asyncio.create_task(forever())
    strangers.add(quiet, "10.0.0.1")
    loud = [asyncio.create_task(forever()) for _ in range(20)]
    for task in loud:
        strangers.add(task, "10.0.0.2")
    await asyncio.sleep(0)
    assert len(strangers) == 3
    assert [task.cancelled() for task in loud] == [True] * 18 + [False] * 2
    assert not quiet.done()
    assert len(caplog.records) == 1
    assert "3 connections without a word, 3 of them from 10.0.0.2: dropped 1" in caplog.text
    for task in strangers:
        task.cancel()
    await asyncio.gather(quiet, *loud, return_exceptions=True)
    assert len(strangers) == 0


async def test_whoever_is_known_does_not_count_any_more() -> None:
    strangers = Strangers(1, "a word", logging.getLogger("test"))
    first, second = (asyncio.create_task(forever()) for _ in range(2))
    strangers.add(first, "10.0.0.1")
    strangers.discard(first)
    strangers.add(second, "10.0.0.1")
    await asyncio.sleep(0)
    assert not first.cancelled()
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
