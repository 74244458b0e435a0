"""Nobody but owner and group reads what a server writes, whatever the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

import millstream


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


async def test_files_of_a_store_are_for_owner_and_group_only(tmp_path: Path, umask: int) -> None:
    async with millstream.Server(port=-1, store_dir=tmp_path / "store") as server:
        connection = await nats.connect(server.client_url)
        streams = connection.jetstream()
        await streams.add_stream(name="S", subjects=["s.>"])
        await streams.add_consumer("S", durable_name="c")
        for _ in range(50):
            await streams.publish("s.x", b"x" * 700_000)  # two segments, so that there is a summary
        await streams.update_stream(name="S", subjects=["s.>"], max_msgs=100)
        await connection.close()
        found = list((tmp_path / "store" / "jetstream").rglob("*"))
    assert {"meta.json", "0000000001.log", "0000000001.sum"} <= {path.name for path in found}
    for path in found:
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode & ~(0o750 if path.is_dir() else 0o640) == 0, f"{path.name} has {mode:o}"
