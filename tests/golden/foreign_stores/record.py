"""Record what several versions of nats-server leave on disk.

    python -m tests.golden.foreign_stores.record BINARY…

Each binary is started in an empty folder, gets a stream, a key-value bucket and a consumer, and is stopped.
The folder goes to `stores/nats-server-<version>.tar.xz`, a few kB each.  Tests do not need the binaries.
"""

import asyncio
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import nats

from tests.kits.recorded_stores import anonymous

STORES = Path(__file__).parent


async def _fill(port: int) -> None:
    connection = await nats.connect(f"nats://127.0.0.1:{port}")
    streams = connection.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.>"])
    for number in range(3):
        await streams.publish(f"orders.{number}", b"order %d" % number)
    bucket = await streams.create_key_value(bucket="settings")
    await bucket.put("colour", b"blue")
    reader = await streams.pull_subscribe("orders.>", durable="billing")
    for message in await reader.fetch(1):
        await message.ack_sync()
    await connection.close()


def record(binary: str) -> Path:
    """Write the archive of one version, and return its path."""
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    version = told.strip().rpartition("v")[2]
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "-js", "-sd", folder, "-a", "127.0.0.1", "-p", "-1"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            for line in server.stderr:
                if found := re.search(r"Listening for client connections on 127\.0\.0\.1:(\d+)", line):
                    break
            asyncio.run(_fill(int(found[1])))  # type: ignore[index]
            server.send_signal(signal.SIGTERM)
            server.communicate()
        path = STORES / f"nats-server-{version}.tar.xz"
        with tarfile.open(path, "w:xz") as archive:
            archive.add(f"{folder}/jetstream", "jetstream", filter=anonymous)
    return path


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(record(each))
