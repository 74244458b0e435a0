"""Power cuts under a real kernel: a real server on a FUSE volume, real clients, one cut after another.

    python -m tests.power.cuts --cuts 100                         Millstream
    python -m tests.power.cuts --cuts 20 --server nats-server     the same for nats-server, at its defaults

The volume kills the server at an operation that is drawn from the seed, and forgets what was not synced.
Clients publish, read, acknowledge and remove (``tests.power.load``).  After some cuts, everything is read,
and the checker of the simulation (``tests.sim.checks.checker``) judges the whole history.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client

from tests.kits.nursery import Nursery
from tests.kits.paths import ROOT
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess, inherited_environment
from tests.power.load import CONSUMERS, STREAMS, Load
from tests.sim.checks.checker import check
from tests.sim.clients.actors import uid_of
from tests.sim.clients.client import parse_headers
from tests.sim.history import ConsumerLook, Final, History, Stored
from tests.sim.plans.plan import ConsumerPlan, Plan

CUTS_OF_A_STORE = 20  # then it is judged, and another begins
PUBLISHERS = 12
LONGEST_END_S = 120.0
LONGEST_LOAD_S = 20.0  # then power goes, whatever was written
FAULTS = ("fail sync", "fail write", "fail create", "full 3000")
_Act = Callable[[Client, int], Awaitable[object]]
_GONE = (nats.errors.Error, OSError, asyncio.TimeoutError, EOFError)


async def _expected(_: Exception) -> None:
    """Say nothing: connections break here."""


class Mount:
    """The volume, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "volume"
        self.path.mkdir()
        command = [sys.executable, "-m", "tests.power.volume", str(self.path), str(folder / "commands")]
        self._process = subprocess.Popen(command, cwd=ROOT)
        until = time.monotonic() + PATIENCE_S
        while not self.path.is_mount():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the volume cannot be mounted; is there /dev/fuse, and libfuse3?")
            time.sleep(0.05)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(folder / "commands"))
        self._lines = self._socket.makefile("rw")

    def tell(self, command: str) -> None:
        self._lines.write(command + "\n")
        self._lines.flush()
        answer = self._lines.readline()
        assert answer.startswith("ok"), answer

    def close(self) -> None:
        self._socket.close()
        subprocess.run(["fusermount3", "-u", "-z", str(self.path)], check=False)
        self._process.terminate()
        self._process.wait()


class Trial:
    """One store and the cuts on it."""

    def __init__(self, seed: int, mount: Mount, server: ServerProcess, *, faults: bool) -> None:
        self.random = Random(f"cuts {seed}")
        self.seed = seed
        self.mount = mount
        self.server = server
        self.history = History()
        self.connections = 0
        self.cuts = 0
        self.faults = faults

    @property
    def now(self) -> float:
        return time.monotonic()

    async def run(self, cuts: int) -> list[str]:
        """Cut power so often; return the broken promises."""
        self.server.start()
        await self._set_up()
        for _ in range(cuts):
            self.mount.tell(f"watch {self.server.pid}")
            self.mount.tell(f"cut {self.random.choice((3, 30, 120, 500, 2_000))}")
            await self._load()
            self.server.wait()
            self.cuts += 1
            self.history.faults += 1
            self.history.power_cuts += 1
            self.history.ends.append(self.now)
            self.mount.tell(f"restart {self.random.randrange(1 << 30)}")
            self.server.start()
        await self._read_all()
        self.server.kill()
        plan = Plan(self.seed, STREAMS, CONSUMERS, (), (), (), False)
        return self.history.problems + check(plan, self.history)

    async def _connect(self) -> tuple[Client, int]:
        client = await nats.connect(
            self.server.client_url, allow_reconnect=False, connect_timeout=PATIENCE_S, error_cb=_expected
        )
        self.connections += 1
        return client, self.connections

    async def _api(self, client: Client, endpoint: str, body: Any = None) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        return json.loads((await client.request(f"$JS.API.{endpoint}", data, timeout=PATIENCE_S)).data)

    async def _set_up(self) -> None:
        client, _ = await self._connect()
        for name, config in STREAMS.items():
            created = await self._api(client, f"STREAM.CREATE.{name}", {"name": name, **config})
            assert "error" not in created, created
        for consumer in CONSUMERS:
            body = {"stream_name": consumer.stream, "config": consumer.config}
            created = await self._api(client, f"CONSUMER.DURABLE.CREATE.{consumer.path}", body)
            assert "error" not in created, created
        await client.close()

    # -- load -------------------------------------------------------------------------------------

    async def _load(self) -> None:
        """Publish and read until the server is dead; in a third of the loads, the disk fails for a while."""
        dead = self._death()
        async with asyncio.TaskGroup() as group:
            load = Load(self.history, self.random)
            acts: list[_Act] = [partial(load.publish_something, f"p{number}") for number in range(PUBLISHERS)]
            acts += [partial(load.fetch, consumer, 1.0) for consumer in CONSUMERS]
            tasks = [group.create_task(self._as_client(act, dead)) for act in acts]
            if self.faults and self.random.random() < 0.3:
                tasks.append(group.create_task(self._disturb()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(dead), LONGEST_LOAD_S)
            if not dead.done():
                os.kill(self.server.pid, signal.SIGKILL)  # nothing is written any more
                await dead
            for task in tasks:
                task.cancel()  # nobody answers any more

    def _death(self) -> asyncio.Future[None]:
        """Return a future that is set when the server is dead."""
        loop = asyncio.get_running_loop()
        dead: asyncio.Future[None] = loop.create_future()
        process = os.pidfd_open(self.server.pid)

        def ended() -> None:
            loop.remove_reader(process)
            os.close(process)
            dead.set_result(None)

        loop.add_reader(process, ended)
        return dead

    async def _disturb(self) -> None:
        await asyncio.sleep(self.random.random() * 0.1)
        self.mount.tell(self.random.choice(FAULTS))
        self.history.faults += 1
        try:
            await asyncio.sleep(self.random.random() * 2)
        finally:
            self.mount.tell("heal")

    async def _as_client(self, act: _Act, dead: asyncio.Future[None]) -> None:
        """Repeat an action on a connection, and on another one if that breaks, until the server is dead."""
        while not dead.done():  # nats-py may take a cancellation for the end of a connection
            with contextlib.suppress(*_GONE):
                client, number = await self._connect()
                try:
                    while client.is_connected and not dead.done():
                        await act(client, number)
                finally:
                    with contextlib.suppress(*_GONE):
                        await client.close()
            await asyncio.sleep(0.01)

    # -- the end ----------------------------------------------------------------------------------

    async def _read_all(self) -> None:
        client, number = await self._connect()
        load = Load(self.history, self.random)
        for consumer in CONSUMERS:
            await self._drain(load, consumer, client, number)
        await self._follow(client)
        for name in STREAMS:
            self.history.final[name] = await self._content(client, name)
        for consumer in CONSUMERS:
            info = await self._api(client, f"CONSUMER.INFO.{consumer.path}")
            if "error" not in info:
                self.history.looks.append(ConsumerLook(self.now, consumer.stream, consumer.name, info))
        await client.close()

    async def _drain(self, load: Load, consumer: ConsumerPlan, client: Client, number: int) -> None:
        """Read until nothing is left."""
        until = self.now + LONGEST_END_S
        empty = 0
        while empty < 3 and self.now < until:
            empty = 0 if await load.fetch(consumer, 1.0, client, number) else empty + 1
        if empty < 3:
            self.history.problems.append(f"{consumer.path} is not drained after {LONGEST_END_S:.0f} s")

    async def _follow(self, client: Client) -> None:
        """Wait until mirrors and sourcing streams have what their origin has."""
        until = self.now + LONGEST_END_S
        while self.now < until:
            found = [await self._api(client, f"STREAM.INFO.{name}") for name in ("M", "G")]
            sources = [info.get("mirror") or (info.get("sources") or [{}])[0] for info in found]
            if all(each.get("lag", 1) == 0 and each.get("active", -1) >= 0 for each in sources):
                return
            await asyncio.sleep(0.1)
        self.history.problems.append("a mirror or a sourcing stream stays behind")

    async def _content(self, client: Client, name: str) -> Final:
        details = {"subjects_filter": ">", "deleted_details": True}
        info = await self._api(client, f"STREAM.INFO.{name}", details)
        if "error" in info:
            return Final([], {}, complete=False)
        content: list[Stored] = []
        seq = info["state"]["first_seq"]
        while True:
            found = await self._api(client, f"STREAM.MSG.GET.{name}", {"seq": seq, "next_by_subj": ">"})
            if "error" in found:
                return Final(content, info["state"], config=info["config"])
            message = found["message"]
            headers = parse_headers(base64.b64decode(message["hdrs"])) if "hdrs" in message else {}
            data = base64.b64decode(message.get("data", ""))
            content.append(Stored(message["seq"], message["subject"], uid_of(data), message["time"], headers))
            seq = message["seq"] + 1


def run_trial(kind: ServerKind, seed: int, cuts: int, *, faults: bool = False) -> tuple[Trial, list[str]]:
    """Run one store; return it with the broken promises.  With `faults`, the disk fails now and then."""
    with tempfile.TemporaryDirectory(prefix="power-") as name:
        mount = Mount(Path(name))
        try:
            server = ServerProcess(kind, jetstream=True, store_dir=mount.path / "store")
            try:
                trial = Trial(seed, mount, server, faults=faults)
                return trial, asyncio.run(trial.run(cuts))
            finally:
                if server.running:
                    server.kill()
                server.close()
        finally:
            mount.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests.power.cuts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--server", type=ServerKind, default=ServerKind.MILLSTREAM)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", action="store_true", help="writes and syncs fail now and then")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing stays mounted
    ServerProcess.nursery = Nursery(inherited_environment())
    try:
        return run_trials(chosen.server, chosen.seed, chosen.cuts, faults=chosen.faults)
    finally:
        ServerProcess.nursery.close()


def run_trials(kind: ServerKind, seed: int, wanted: int, *, faults: bool) -> int:
    """Run stores until power was cut so often; print what they show, and return 1 if one failed."""
    began = time.monotonic()
    done, checked, failed = 0, 0, 0
    while done < wanted:
        cuts = min(CUTS_OF_A_STORE, wanted - done)
        trial, violations = run_trial(kind, seed, cuts, faults=faults)
        done += trial.cuts
        checked += trial.history.operations
        failed += bool(violations)
        for line in violations[:10]:
            print(f"seed {seed}: {line}", flush=True)
        took = time.monotonic() - began
        print(
            f"{done} cuts in {took:.0f} s, {checked} operations checked, {failed} stores failed", flush=True
        )
        seed += 1
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
