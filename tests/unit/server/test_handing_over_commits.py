"""A commit that cannot be handed to a thread has failed, and is tried again: nothing waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable
from pathlib import Path

import nats
import pytest

import millstream
from millstream.server import disk_writers
from millstream.server.workers import Workers
from millstream.testing.patience import PATIENCE_S


def _no_descriptors(*_: object) -> tuple[int, int]:
    raise OSError(errno.EMFILE, "Too many open files")


async def _publishes(folder: Path, hurt: Callable[[], None], heal: Callable[[], None]) -> list[int]:
    sequences = []
    async with millstream.Server(port=-1, store_dir=folder) as server:
        connection = await nats.connect(server.client_url)
        streams = connection.jetstream()
        await streams.add_stream(name="S", subjects=["s"])
        sequences.append((await streams.publish("s", b"1")).seq)
        hurt()
        with contextlib.suppress(nats.js.errors.APIError):  # it is told, not left waiting
            sequences.append((await streams.publish("s", b"2", timeout=PATIENCE_S)).seq)
        heal()
        for _ in range(100):
            try:
                sequences.append((await streams.publish("s", b"3", timeout=PATIENCE_S)).seq)
                break
            except nats.js.errors.APIError:
                await asyncio.sleep(0.1)
        await connection.close()
    return sequences


async def test_a_server_without_descriptors_for_writers_commits_the_other_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __init__(self, name: str) -> None:
            _no_descriptors()

    monkeypatch.setattr(disk_writers, "DiskWriter", Failing)
    assert await _publishes(tmp_path, lambda: None, lambda: None) == [1, 2, 3]


async def test_a_commit_for_which_there_is_no_thread_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Workers.commit

    def fails(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    found = await _publishes(
        tmp_path,
        lambda: monkeypatch.setattr(Workers, "commit", fails),
        lambda: monkeypatch.setattr(Workers, "commit", commit),
    )
    assert found[0] == 1
    assert found[-1] >= 2
    assert len(found) == 2
