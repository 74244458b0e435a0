"""kill -9 while segments are compressed: every acknowledged message is there, and the work goes on."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from millstream.store.block_file import BlockFile, open_segment_file
from millstream.store.fs import RealFileSystem
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import Caller, Ledger, Publisher

KILLS = 3


def log_folder(store: Path) -> Path:
    (folder,) = store.glob("**/streams/packed/log")
    return folder


def packed(folder: Path) -> int:
    """Return the number of compressed segments."""
    fs, count = RealFileSystem(), 0
    for path in folder.glob("*.log"):
        file = open_segment_file(fs, str(path))
        count += isinstance(file, BlockFile)
        file.close()
    return count


def kill_while_packing(server: ServerProcess, ledger: Ledger, folder: Path, random: Random) -> bool:
    """Publish until a segment is being compressed, and kill the server then; whether it came to that."""
    publisher = Publisher(server.port, f"p{random.getrandbits(32):08x}", [ledger], random.getrandbits(32))
    publisher.start()
    deadline = time.monotonic() + PATIENCE_S
    seen = False
    while not seen and time.monotonic() < deadline:
        seen = any(folder.glob("*.log.new"))
        time.sleep(0.001)
    server.kill()
    publisher.finish()
    assert server.start().running
    return seen


def wait_until_packed(folder: Path) -> None:
    """All but the active segment."""
    deadline = time.monotonic() + PATIENCE_S
    while packed(folder) < len(list(folder.glob("*.log"))) - 1:
        assert time.monotonic() < deadline, "segments are not compressed"
        time.sleep(0.05)


@pytest.mark.timeout(240)
def test_servers_killed_while_they_compress_lose_nothing(tmp_path: Path) -> None:
    random = Random(5)
    store = tmp_path / "store"
    ledger = Ledger("packed", padding=100_000)
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=store) as server:
        with Caller(server.port) as caller:
            caller.create("packed", compression="s2")
        folder = log_folder(store)
        for _ in range(KILLS):
            assert kill_while_packing(server, ledger, folder, random)
            with Caller(server.port) as caller:
                ledger.check(caller)
        wait_until_packed(folder)
        with Caller(server.port) as caller:
            ledger.check(caller, thoroughly=True)
            assert caller.state("packed").get("lost") is None
        assert ledger.refused == []
        assert sum(path.stat().st_size for path in folder.glob("*.log")) < len(ledger.acked) * 100_000 / 2
