"""A server's life at random: ``make fuzz FUZZ=tests.fuzz.life SECONDS=180``.

A real server process, with sanitizers if the environment has them, and clients that publish, pull,
acknowledge, update, purge, send garbage and leave.  Now and then the server is killed and started on the same
store.  In the end every message whose publish was acknowledged, and that nobody removed, is still there, and
the server never ended by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import nats
from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

_SETTLED = "KEPT"  # the stream that nobody removes anything from


class Life:
    """One server, again and again, and what its clients know."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.acknowledged: dict[int, bytes] = {}
        self.did: Counter[str] = Counter()
        self.deaths: list[str] = []
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        flags = ("-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._folder / "store"))
        log = (self._folder / "server.log").open("ab")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "millstream", "serve", *flags, stdout=log, stderr=log
        )
        for _ in range(600):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            await asyncio.sleep(0.1)
        raise SystemExit("the server does not start: " + (self._folder / "server.log").read_text()[-2000:])

    async def kill(self) -> None:
        """Kill it; note it if it has ended by itself before."""
        process = self._process
        assert process is not None
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        elif process.returncode != 0:
            self.deaths.append(f"exit {process.returncode}")
        await process.wait()

    async def client(self, end: float) -> None:
        while time.monotonic() < end:
            try:
                connection = await nats.connect(
                    f"nats://127.0.0.1:{self.port}",
                    allow_reconnect=False,
                    connect_timeout=5,
                    error_cb=_ignore,
                )
            except (NatsError, OSError, TimeoutError):
                await asyncio.sleep(0.2)
                continue
            with contextlib.suppress(NatsError, JetStreamError, OSError, TimeoutError):
                async with asyncio.timeout(20):
                    await self._talk(connection, min(end, time.monotonic() + self.random.uniform(1, 8)))
            with contextlib.suppress(Exception):
                await connection.close()

    async def _talk(self, connection: nats.NATS, end: float) -> None:
        streams = connection.jetstream(timeout=3)
        with contextlib.suppress(JetStreamError):
            await streams.add_stream(name=_SETTLED, subjects=["kept.>"])
            await streams.add_stream(
                name="LOSSY", subjects=["lossy.>"], max_msgs=500, max_msgs_per_subject=20
            )
        while time.monotonic() < end:
            step = self.random.choice(
                ("kept", "kept", "lossy", "pull", "purge", "update", "info", "garbage", "core")
            )
            with contextlib.suppress(JetStreamError, TimeoutError):
                await self._step(step, connection, streams)
                self.did[step] += 1

    async def _step(self, step: str, connection: nats.NATS, streams: nats.js.JetStreamContext) -> None:
        body = self.random.randbytes(self.random.choice((0, 10, 500, 20_000)))
        headers = {"Nats-Msg-Id": str(self.random.randrange(10**9))} if self.random.random() < 0.3 else None
        if step == "kept":
            ack = await streams.publish(f"kept.{self.random.randrange(50)}", body, headers=headers)
            self.acknowledged[ack.seq] = body
        elif step == "lossy":
            for _ in range(20):
                await connection.publish(f"lossy.{self.random.randrange(90)}", body, headers=headers)
        elif step == "pull":
            consumer = await streams.pull_subscribe("kept.>", f"c{self.random.randrange(3)}", stream=_SETTLED)
            for message in await consumer.fetch(self.random.randrange(1, 30), timeout=1):
                await self.random.choice((message.ack, message.nak, message.in_progress, message.term))()
            await consumer.unsubscribe()
        elif step == "purge":
            await streams.purge_stream("LOSSY", subject=f"lossy.{self.random.randrange(90)}")
        elif step == "update":
            most = self.random.choice((50, 500, -1))
            await streams.update_stream(name="LOSSY", subjects=["lossy.>"], max_msgs=most)
        elif step == "info":
            await streams.stream_info(_SETTLED, subjects_filter=">")
        elif step == "core":
            await connection.subscribe(f"core.{self.random.randrange(9)}.>")
            await connection.publish(f"core.{self.random.randrange(9)}.x", body)
            await connection.flush(3)
        else:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(b"CONNECT {}\r\nPUB kept.1 5\r\n" + self.random.randbytes(200))
            writer.close()

    async def check(self) -> int:
        """Return how many acknowledged messages are missing or changed."""
        connection = await nats.connect(f"nats://127.0.0.1:{self.port}")
        streams = connection.jetstream(timeout=10)
        wrong = 0
        for seq, body in self.acknowledged.items():
            try:
                wrong += ((await streams.get_msg(_SETTLED, seq)).data or b"") != body
            except JetStreamError:
                wrong += 1
        await connection.close()
        return wrong


async def _ignore(_: Exception) -> None: ...


async def live(seconds: float, seed: int, folder: Path) -> int:
    life = Life(folder, seed)
    await life.start()
    end = time.monotonic() + seconds
    clients = [asyncio.create_task(life.client(end)) for _ in range(5)]
    kills = 0
    while time.monotonic() < end:
        await asyncio.sleep(life.random.uniform(5, 20))
        await life.kill()
        await life.start()
        kills += 1
    await asyncio.gather(*clients)
    wrong = await life.check()
    await life.kill()
    print(f"{kills} kills, {len(life.acknowledged)} acknowledged, {wrong} wrong")
    print(dict(life.did), life.deaths)
    complaints = [
        line
        for line in (folder / "server.log").read_text().splitlines()
        if "Sanitizer" in line or "Traceback" in line
    ]
    for line in complaints[:20]:
        print("   ", line)
    return 1 if wrong or life.deaths or complaints else 0


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    chosen = arguments.parse_args()
    print(f"seed {chosen.seed}, sanitizers {'on' if 'ASAN_OPTIONS' in os.environ else 'off'}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(live(chosen.seconds, chosen.seed, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
