"""A disk that fills up, or does not sync any more, under a running server.

Publishers get the error, readers notice nothing, nothing acknowledged is lost, and when the disk is well
again so is the server, without a restart.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.jetstream.stream.ticket import Ticket
from millstream.server import workers
from millstream.server.blocking_server import BlockingServer
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import PATIENCE_S, Caller

STORE_FAILED = 10077


def publish_until(
    caller: Caller, subject: str, payload: bytes, *, error: bool, kept: dict[int, bytes]
) -> Any:
    """Publish numbered messages until one is refused, or until one is not; the last answer."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        text = b"%d " % len(kept) + payload
        answer = caller.publish(subject, text)
        if "error" not in answer:
            kept[answer["seq"]] = text
        if ("error" in answer) == error:
            return answer
        if not error:
            time.sleep(0.02)
    raise AssertionError(f"no {'refusal' if error else 'success'} within {PATIENCE_S} s")


def check_kept(caller: Caller, stream: str, kept: dict[int, bytes]) -> None:
    found = {seq: message.payload for seq, message in caller.read(stream).items()}
    assert {seq: found.get(seq) for seq in kept} == kept


def health(server: ServerProcess) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{server.monitor_url}/healthz?details=true") as answer:
            return json.load(answer)  # type: ignore[no-any-return]
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)  # type: ignore[no-any-return]


def fill_and_free(
    server: ServerProcess, fill: Callable[[], None], free: Callable[[], None], payload: bytes
) -> None:
    """Check a server whose disk takes nothing for a while."""
    kept: dict[int, bytes] = {}
    with Caller(server.port) as caller:
        caller.create("full")
        publish_until(caller, "full.a", payload, error=False, kept=kept)
        fill()
        refused = publish_until(caller, "full.a", payload, error=True, kept=kept)
        assert refused["error"]["err_code"] == STORE_FAILED
        check_kept(caller, "full", kept)
        assert caller.ask("STREAM.MSG.GET.full", {"seq": 1})["message"]["subject"] == "full.a"
        sick = health(server)
        assert sick["status"] == "error"
        assert "write error" in json.dumps(sick)
        free()
        publish_until(caller, "full.a", payload, error=False, kept=kept)
        assert health(server)["status"] == "ok"
        check_kept(caller, "full", kept)
        server.kill()
        server.start()
    with Caller(server.port) as caller:
        check_kept(caller, "full", kept)
        assert caller.state("full").get("lost") is None


def test_a_file_that_cannot_grow_is_an_error_for_publishers_until_it_can(tmp_path: Path) -> None:
    with ServerProcess(
        ServerKind.MILLSTREAM, jetstream=True, store_dir=tmp_path / "store", monitor=True
    ) as server:
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)

        def limit(size: int) -> None:
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, hard))

        fill_and_free(server, lambda: limit(200_000), lambda: limit(hard), b"x" * 5000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with some megabytes, where that is allowed."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("needs to mount a file system")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=40m", "none", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.decode()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(ballast: Path) -> None:
    """Take every byte that is left."""
    descriptor = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    with contextlib.suppress(OSError):
        while True:
            os.write(descriptor, bytes(4096))
    os.close(descriptor)


def test_a_full_disk_is_an_error_for_publishers_until_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"

    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=small_disk, monitor=True) as server:
        fill_and_free(server, lambda: fill(ballast), ballast.unlink, b"x" * 100_000)


def test_a_disk_that_is_full_when_the_server_starts_can_be_read_and_used_when_there_is_room(
    small_disk: Path,
) -> None:
    kept: dict[int, bytes] = {}
    ballast = small_disk / "ballast"
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=small_disk, monitor=True) as server:
        with Caller(server.port) as caller:
            caller.create("full")
            publish_until(caller, "full.a", b"x" * 100_000, error=True, kept=kept)
        server.kill()
        fill(ballast)
        server.start()
        with Caller(server.port) as caller:
            check_kept(caller, "full", kept)
            assert "error" in caller.publish("full.a", b"x" * 100_000)
            ballast.unlink()
            caller.ask("STREAM.PURGE.full", {"keep": 10})
            kept = dict(sorted(kept.items())[-5:])
            publish_until(caller, "full.a", b"y", error=False, kept=kept)
            check_kept(caller, "full", kept)


def test_purging_makes_room_on_a_full_disk(small_disk: Path) -> None:
    kept: dict[int, bytes] = {}
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=small_disk, monitor=True) as server:
        with Caller(server.port) as caller:
            caller.create("full")
            publish_until(caller, "full.a", b"x" * 100_000, error=True, kept=kept)
            caller.ask("STREAM.PURGE.full")
            kept.clear()
            publish_until(caller, "full.a", b"x" * 100_000, error=False, kept=kept)
            check_kept(caller, "full", kept)
            assert caller.state("full")["messages"] <= 2  # the refused one may be there
        server.kill()
        server.start()
        with Caller(server.port) as caller:
            check_kept(caller, "full", kept)


class NoWriters:
    """Writers that leave every commit to others."""

    def __init__(self, *unused: object) -> None: ...

    def write(self, ticket: Ticket) -> bool:
        return False

    def shutdown(self) -> None: ...


def test_a_failing_sync_is_an_error_for_publishers_until_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fdatasync
    broken: list[bool] = []

    def fdatasync(fd: int) -> None:
        if broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    # Threads without an interpreter ask the system itself: tests of theirs are in test_disk_writer.
    monkeypatch.setattr(workers, "DiskWriters", NoWriters)
    kept: dict[int, bytes] = {}
    with BlockingServer(store_dir=tmp_path) as server, Caller(server.port) as caller:
        caller.create("sync")
        caller.create("async", persist_mode="async")
        publish_until(caller, "sync.a", b"x", error=False, kept=kept)
        broken.append(True)
        refused = publish_until(caller, "sync.a", b"x", error=True, kept=kept)
        assert refused["error"]["err_code"] == STORE_FAILED
        assert "error" not in caller.publish("async.a", b"it did not ask for a sync")
        check_kept(caller, "sync", kept)
        assert caller.ask("STREAM.CREATE.new", {"name": "new", "subjects": ["new"]})["error"]["code"] in (
            500,
            503,
        )
        broken.clear()
        publish_until(caller, "sync.a", b"x", error=False, kept=kept)
        caller.create("new")
    with BlockingServer(store_dir=tmp_path) as server, Caller(server.port) as caller:
        check_kept(caller, "sync", kept)
        assert caller.state("async")["messages"] == 1
        assert caller.state("new")["messages"] == 0


@contextlib.contextmanager
def unreadable(folder: Path) -> Iterator[None]:
    """Let every read of the open files below `folder` fail, in this process; they can still be written."""
    kept: dict[int, int] = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            path = Path(os.readlink(f"/proc/self/fd/{name}"))
            if path.is_relative_to(folder) and path.is_file():
                kept[int(name)] = os.dup(int(name))
                blind = os.open(path, os.O_WRONLY)
                os.dup2(blind, int(name))
                os.close(blind)
    assert kept, "no file is open"
    try:
        yield
    finally:
        for number, sighted in kept.items():
            os.dup2(sighted, number)
            os.close(sighted)


def test_a_disk_that_cannot_be_read_costs_neither_connections_nor_messages(tmp_path: Path) -> None:
    kept: dict[int, bytes] = {}
    with BlockingServer(store_dir=tmp_path) as server, Caller(server.port) as caller:
        caller.create("read")
        publish_until(caller, "read.a", b"x", error=False, kept=kept)
        with unreadable(tmp_path / "jetstream"):
            assert caller.read("read") == {}
            answer = caller.ask("STREAM.MSG.GET.read", {"seq": 1})
            assert answer["error"]["err_code"] == 10037  # as nats-server
            assert caller.state("read")["messages"] == 1
        check_kept(caller, "read", kept)
        assert caller.state("read").get("lost") is None
