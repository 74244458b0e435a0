"""One workload on one server at one size, and the list of all workloads."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from benchmarks.paths.client import INBOX, Client
from benchmarks.scale_bytes import memory_mib, processor_s
from tests.kits.reference import ServerProcess


@dataclass(frozen=True, slots=True)
class Figure:
    """Operations in a second with the server's processor time for each; or a cost, where less is better."""

    value: float
    processor_us: float = 0.0
    is_cost: bool = False


@dataclass(slots=True)
class Run:
    """The input of a workload, and the place for its figures."""

    server: ServerProcess
    size: int
    figures: dict[str, Figure] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    _open: ExitStack = field(default_factory=ExitStack)
    _clients: int = 0

    def client(self) -> Client:
        """A connection that is closed at the end; the first listens to the inbox that ``pub`` names."""
        inbox = INBOX + b"%d" % self._clients if self._clients else INBOX
        self._clients += 1
        return self.keep(Client(self.server.port, inbox=inbox))

    def keep(self, client: Client) -> Client:
        """Close a connection when the workload has ended."""
        return self._open.enter_context(client)

    @contextmanager
    def timed(self, name: str, operations: int) -> Iterator[None]:
        """Measure so many operations."""
        pid, before, began = self.server.pid, processor_s(self.server.pid), time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        used = processor_s(self.server.pid) - (before if self.server.pid == pid else 0.0)
        self.figures[name] = Figure(operations / seconds, used / operations * 1e6)

    def restart(self, name: str = "", *, kill: bool = False) -> None:
        """Start the server again; with a name it is measured, in starts a second, without the stop."""
        self.close()
        if kill:
            self.server.kill()
        else:
            self.server.stop()
        began = time.perf_counter()
        self.server.start()
        if name:
            self.figures[name] = Figure(1 / (time.perf_counter() - began), processor_s(self.server.pid) * 1e6)

    def memory(self, name: str) -> None:
        self.figures[name] = Figure(memory_mib(self.server.pid, "VmRSS"), is_cost=True)

    def close(self) -> None:
        self._open.close()
        self._open = ExitStack()
        self._clients = 0


Work = Callable[[Run], None]


@dataclass(frozen=True, slots=True)
class Path:
    """A workload, its sizes and the configuration that it needs."""

    name: str
    work: Work
    sizes: tuple[int, ...]
    config: str | Callable[[], str]


PATHS: Final[list[Path]] = []


def path(*sizes: int, config: str | Callable[[], str] = "") -> Callable[[Work], Work]:
    """Add a workload to the list under the name of its function."""

    def add(work: Work) -> Work:
        PATHS.append(Path(work.__name__, work, sizes, config))
        return work

    return add
