"""A million messages taken out of a server and put into another: time, size and memory.

Each side takes a snapshot of its own stream and restores its own archive, over the wire and with the same
client, which acknowledges at once and keeps nothing.  `command` is what a user runs: `millstream backup`,
which writes, syncs, digests and reads back.
"""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks import crew
from benchmarks.stream_store import (
    BYTES,
    MEBIBYTES,
    MILLION,
    MILLISECONDS,
    Prepared,
    StoreWorkload,
    fill,
    resident_mib,
)
from benchmarks.stream_wire import Messages
from benchmarks.wire import WireError
from benchmarks.workloads import Figure, Outcome
from millstream.link.link import Link
from millstream.link.options import LinkOptions, parse_servers
from millstream.transfer.api import JetStreamApi
from millstream.transfer.snapshots import Snapshot
from millstream.transfer.upload import from_chunks, send_archive
from tests.kits.reference import Server, ServerProcess

_READ: Final = 512 * 1024


class _Filled(Prepared):
    """A server with the messages; it stays up for all rounds."""

    def __init__(self, kind: Server, scale: float) -> None:
        self._kind = kind
        self._messages = Messages("SNAP", 128, int(MILLION * scale), subjects=1000)
        self._server = ServerProcess(kind, jetstream=True).start()
        fill(self._server, self._messages)

    def close(self) -> None:
        self._server.close()


class Snapshots(_Filled):
    """A snapshot to its last chunk."""

    def run(self) -> Outcome:
        pid = self._server.pid
        before, used = resident_mib(pid), crew.process_cpu_s(pid)
        began = time.perf_counter()
        size, highest = asyncio.run(take(self._server, self._messages.stream, None))
        seconds = time.perf_counter() - began
        figures = {
            "time": Figure(seconds * 1000, MILLISECONDS),
            "size": Figure(size / self._messages.count, BYTES),
            "growth": Figure(max(highest - before, 0.1), MEBIBYTES),
        }
        return Outcome(figures, (crew.process_cpu_s(pid) - used) / seconds, 0.0, 0.0)


class Restores(_Filled):
    """The archive of that server, restored on a fresh one of the same kind."""

    def __init__(self, kind: Server, scale: float) -> None:
        super().__init__(kind, scale)
        self._folder = tempfile.TemporaryDirectory(prefix="millstream-bench-")
        self._archive = Path(self._folder.name, "archive")
        asyncio.run(take(self._server, self._messages.stream, self._archive))

    def run(self) -> Outcome:
        with ServerProcess(self._kind, jetstream=True) as server:
            before = resident_mib(server.pid)
            used = crew.process_cpu_s(server.pid)
            began = time.perf_counter()
            there, highest = asyncio.run(put(server, self._messages.stream, self._archive))
            seconds = time.perf_counter() - began
            cores = (crew.process_cpu_s(server.pid) - used) / seconds
        if there != self._messages.count:
            raise WireError(f"{there} of {self._messages.count} messages were restored")
        figures = {
            "time": Figure(seconds * 1000, MILLISECONDS),
            "growth": Figure(max(highest - before, 0.1), MEBIBYTES),
        }
        return Outcome(figures, cores, 0.0, 0.0)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


class Command(_Filled):
    """`millstream backup`, as a process of its own."""

    def run(self) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
            command = [sys.executable, "-m", "millstream", "backup", folder, "--json"]
            began = time.perf_counter()
            pid = os.posix_spawn(
                sys.executable,
                [*command, "--server", self._server.client_url],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
            )
            _, status, usage = os.wait4(pid, 0)
            seconds = time.perf_counter() - began
        if status != 0:
            raise WireError("millstream backup failed")
        figures = {
            "time": Figure(seconds * 1000, MILLISECONDS),
            "memory": Figure(usage.ru_maxrss / 1024, MEBIBYTES),
        }
        cpu = usage.ru_utime + usage.ru_stime
        return Outcome(figures, 0.0, cpu / seconds, cpu / seconds)


async def _connected(server: ServerProcess) -> Link:
    link = Link(LinkOptions(servers=parse_servers(server.client_url)))
    await link.connect()
    return link


async def take(server: ServerProcess, stream: str, path: Path | None) -> tuple[int, float]:
    """Bytes of the archive, and the most memory that the server had."""
    link = await _connected(server)
    size, highest = 0, 0.0
    file = path.open("wb") if path is not None else None
    try:
        async with Snapshot(JetStreamApi(link), stream) as snapshot:
            async for chunk in snapshot:
                if size // _READ != (size + len(chunk)) // _READ:
                    highest = max(highest, resident_mib(server.pid))
                size += len(chunk)
                if file is not None:
                    file.write(chunk)
    finally:
        if file is not None:
            file.close()
        await link.close()
    return size, highest


async def put(server: ServerProcess, stream: str, path: Path) -> tuple[int, float]:
    """Messages that are there afterwards, and the most memory that the server had."""
    link = await _connected(server)
    highest = 0.0

    def sent(_: int) -> None:
        nonlocal highest
        highest = max(highest, resident_mib(server.pid))

    config: dict[str, Any] = {
        "name": stream,
        "subjects": [f"{stream}.>"],
        "retention": "limits",
        "storage": "file",
        "num_replicas": 1,
    }
    try:
        with path.open("rb") as file:
            chunks = from_chunks(iter(lambda: file.read(_READ), b""))
            answer = await send_archive(JetStreamApi(link), config, {}, chunks, sent)
        sent(0)
    finally:
        await link.close()
    return int(answer["state"]["messages"]), highest


SNAPSHOTS: Final = (
    StoreWorkload("snapshot", "snapshot of a million messages", ("time", "size", "growth"), Snapshots, 5),
    StoreWorkload("restore", "restore of a million messages", ("time", "growth"), Restores, 5),
    StoreWorkload("backup-command", "millstream backup of them", ("time", "memory"), Command, 3),
)
