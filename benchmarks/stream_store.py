"""The cost of many messages beyond time: memory, disk, and a restart after kill -9.

Servers are started for each round, so that nothing of the last round is in their memory.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import crew
from benchmarks.stream_load import WindowPublisher
from benchmarks.stream_wire import Messages, create, stored
from benchmarks.wire import Address, WireError
from benchmarks.workloads import RATE, Figure, Outcome, outcome
from tests.kits.reference import Server, ServerProcess

MEBIBYTES: Final = "MiB"
MILLISECONDS: Final = "ms"
BYTES: Final = "B"
MILLION: Final = 1_000_000


def resident_mib(pid: int) -> float:
    """Memory that the process has in RAM now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise WireError(f"process {pid} has no memory")


def bytes_below(folder: Path) -> int:
    """Return the sum of the lengths of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def fill(server: ServerProcess, messages: Messages) -> Outcome:
    address = Address(server.host, server.port)
    create(address, messages, "file")
    shares = crew.run([WindowPublisher(address, messages)], server_pid=server.pid)
    seconds = (shares[0].ended_ns - shares[0].started_ns) / 1e9
    there = stored(address, messages.stream)
    if there != messages.count:
        raise WireError(f"{there} of {messages.count} messages were stored")
    return outcome({"rate": Figure(messages.count / seconds, RATE)}, shares, seconds)


@dataclass(frozen=True, slots=True)
class StoreWorkload:
    """A workload on one kind of server at a time; `prepare` may leave something for every round."""

    name: str
    title: str
    rows: tuple[str, ...]
    prepare: "Callable[[Server, float], Prepared]"
    most_rounds: int  # those that take many seconds


class Prepared:
    """One kind of server, ready for rounds."""

    def run(self) -> Outcome:
        raise NotImplementedError

    def close(self) -> None:
        """Remove what was prepared."""


class ManySubjects(Prepared):
    """A message to each of a million subjects."""

    def __init__(self, kind: Server, scale: float) -> None:
        self._kind = kind
        count = int(MILLION * scale)
        self._messages = Messages("M", 128, count, subjects=count)

    def run(self) -> Outcome:
        with ServerProcess(self._kind, jetstream=True) as server:
            found = fill(server, self._messages)
            found.figures["resident"] = Figure(resident_mib(server.pid), MEBIBYTES)
            return found


class Restart(Prepared):
    """Kill a server with a million messages; a round starts a server on a copy of what was left."""

    def __init__(self, kind: Server, scale: float) -> None:
        self._kind = kind
        self._messages = Messages("R", 128, int(MILLION * scale))
        self._left = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
        with ServerProcess(kind, jetstream=True, store_dir=self._left) as server:
            fill(server, self._messages)
            self._disk = bytes_below(self._left) / self._messages.count
            server.kill()

    def run(self) -> Outcome:
        with copy_of(self._left) as store:
            # The child inherits no clock: this is what somebody who waits for the server sees.
            began = time.perf_counter()
            with ServerProcess(self._kind, jetstream=True, store_dir=store) as server:
                address = Address(server.host, server.port)
                there = stored(address, self._messages.stream)
                seconds = time.perf_counter() - began
                resident = resident_mib(server.pid)
                used_s = crew.process_cpu_s(server.pid)
        if there != self._messages.count:
            raise WireError(f"{there} of {self._messages.count} messages came back")
        figures = {
            "time": Figure(seconds * 1000, MILLISECONDS),
            "resident": Figure(resident, MEBIBYTES),
            "disk": Figure(self._disk, BYTES),
        }
        return Outcome(figures, used_s / seconds, loader_cores=0.0, load_cores=0.0, server_s=used_s)

    def close(self) -> None:
        shutil.rmtree(self._left)


@contextmanager
def copy_of(folder: Path) -> Iterator[Path]:
    """A copy of a folder, for as long as the round takes."""
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as above:
        copied = Path(above, "store")
        shutil.copytree(folder, copied)
        os.sync()  # so that the round does not wait for the copy
        yield copied


STORE: Final = (
    StoreWorkload("million-subjects", "a million subjects", ("rate", "resident"), ManySubjects, 3),
    StoreWorkload("restart", "kill -9 with a million messages", ("time", "resident", "disk"), Restart, 9),
)
