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
from millstream.server import disk_writers, workers
from millstream.server.workers import Workers
from millstream.store.disk_writer import DiskWriter
from millstream.store.record import RecordBuffer
from tests.kits.patience import PATIENCE_S


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
    start = Workers.start

    def fails(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    found = await _publishes(
        tmp_path,
        lambda: monkeypatch.setattr(Workers, "start", fails),
        lambda: monkeypatch.setattr(Workers, "start", start),
    )
    assert found[0] == 1
    assert found[-1] >= 2
    assert len(found) == 2


class Always:
    """A pace that leaves every commit to the loop."""

    def __init__(self, *_: object) -> None:
        self.written = 0

    def allows(self, size: int) -> bool:
        return True

    def disturbed(self) -> None:
        pass

    def ended(self, took_ns: int, on_loop: bool) -> None:
        self.written += on_loop


class Breakable:
    """A disk writer that can be told to fail."""

    broken = False

    def __init__(self, name: str) -> None:
        self._real = DiskWriter(name)
        self.failed_write = 0
        self.failed_sync = 0
        self.took_ns = 1
        self.fileno = self._real.fileno
        self.close = self._real.close

    def write_now(self, descriptor: int, buffer: RecordBuffer, fill: bool) -> None:
        self.failed_write = errno.ENOSPC if self.broken else 0
        if not self.broken:
            self._real.write_now(descriptor, buffer, fill)


async def _stored(folder: Path) -> list[bytes]:
    async with millstream.Server(port=-1, store_dir=folder) as server:
        connection = await nats.connect(server.client_url)
        streams = connection.jetstream()
        count = (await streams.stream_info("S")).state.last_seq
        found = [(await streams.get_msg("S", seq)).data or b"" for seq in range(1, count + 1)]
        await connection.close()
    return found


async def test_commits_that_the_loop_writes_are_acknowledged_in_order_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = Always()
    monkeypatch.setattr(workers, "SyncPace", lambda *_: pace)
    async with millstream.Server(port=-1, store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        streams = connection.jetstream()
        await streams.add_stream(name="S", subjects=["s"])
        for number in range(20):
            assert (await streams.publish("s", b"%d" % number)).seq == number + 1
        together = await asyncio.gather(*[streams.publish("s", b"%d" % number) for number in range(20, 40)])
        assert [ack.seq for ack in together] == list(range(21, 41))
        await connection.close()
    assert pace.written >= 20
    assert await _stored(tmp_path) == [b"%d" % number for number in range(40)]


async def test_a_write_on_the_loop_that_fails_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "SyncPace", Always)
    monkeypatch.setattr(disk_writers, "DiskWriter", Breakable)
    found = await _publishes(
        tmp_path,
        lambda: monkeypatch.setattr(Breakable, "broken", True),
        lambda: monkeypatch.setattr(Breakable, "broken", False),
    )
    assert found[0] == 1
    assert found[-1] >= 2
    assert len(found) == 2
    assert await _stored(tmp_path) == [b"1", b"2", *[b"3"] * (found[-1] - 2)]
