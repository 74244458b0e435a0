"""Real small file systems: full ones can be purged, read-only ones are refused."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import Caller, is_anything_deleted


def _mounted(path: Path, *options: str) -> bool:
    done = subprocess.run(["mount", *options, str(path)], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    path = tmp_path / "disk"
    path.mkdir()
    if not _mounted(path, "-t", "tmpfs", "-o", "size=24m", "tmpfs"):
        pytest.skip("file systems cannot be mounted here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def fill_up(caller: Caller, path: Path) -> str:
    """Publish until the disk is full, and return the error."""
    (path / "ballast").write_bytes(b"b" * (10 * 1024 * 1024))
    while True:
        answer = caller.publish("S.x", b"x" * 200_000)
        if "error" in answer:
            return str(answer["error"]["description"])


def test_a_full_disk_can_be_purged_and_takes_messages_again(disk: Path) -> None:
    with (
        ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=disk / "store") as server,
        Caller(server.port) as caller,
    ):
        caller.create("S")
        said = fill_up(caller, disk)
        assert "No space left" in said
        assert str(disk) not in said, "the client learns where the store is"
        assert "$G/streams/S/log/" in said
        assert "error" not in caller.ask("STREAM.PURGE.S")
        assert caller.state("S")["messages"] == 0
        wait_for(lambda: "error" not in caller.publish("S.x", b"new"))
        server.stop()
        server.start()
        with Caller(server.port) as again:
            assert again.state("S")["messages"] >= 1


def test_a_stream_on_a_full_disk_can_be_deleted(disk: Path) -> None:
    with (
        ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=disk / "store") as server,
        Caller(server.port) as caller,
    ):
        caller.create("S")
        fill_up(caller, disk)
        assert "error" not in caller.ask("STREAM.DELETE.S")
        wait_for(lambda: not is_anything_deleted(disk))
        caller.create("T")
        assert caller.publish("T.x", b"1")["seq"] == 1


def test_a_read_only_store_is_refused_in_one_line(disk: Path) -> None:
    server = ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=disk / "store")
    with server:
        with Caller(server.port) as caller:
            caller.create("S")
        server.stop()
        assert _mounted(disk, "-o", "remount,ro")
        try:
            with pytest.raises(Exception, match="Read-only file system") as refused:
                server.start()
            assert "Traceback" not in str(refused.value)
        finally:
            _mounted(disk, "-o", "remount,rw")
        server.start()
