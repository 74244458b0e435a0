"""The cost of a thousand idle consumers: to create, to keep, beside publishing, to restart."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks import crew
from benchmarks.consumer_wire import Maker, create_command
from benchmarks.stream_load import WindowPublisher
from benchmarks.stream_store import (
    MEBIBYTES,
    MILLISECONDS,
    Prepared,
    StoreWorkload,
    copy_of,
    resident_mib,
)
from benchmarks.stream_wire import Messages, create, request
from benchmarks.wire import Address
from benchmarks.workloads import RATE, Figure, Outcome, outcome
from tests.kits.reference import Server, ServerProcess

_DURABLES: Final = 1_000
_PUBLISHED: Final = 150_000
_AT_ONCE: Final = 100


def _commands(stream: str) -> list[bytes]:
    return [
        create_command(stream, {"durable_name": f"idle{number:04d}", "ack_policy": "explicit"})
        for number in range(_DURABLES)
    ]


def make_durables(address: Address, stream: str, *, at_once: int) -> float:
    """A stream and its consumers; how long making those took, in ms."""
    create(address, Messages(stream, 128, 0), "file")
    commands = _commands(stream)
    maker = Maker(address)
    began = time.perf_counter()
    maker.make(commands, at_once=at_once)
    took = time.perf_counter() - began
    maker.close()
    return took * 1000


class Idle(Prepared):
    """A round has a server of its own."""

    def __init__(self, kind: Server, scale: float) -> None:
        self._kind = kind
        self._messages = Messages("A", 128, int(_PUBLISHED * scale))

    def run(self) -> Outcome:
        with ServerProcess(self._kind, jetstream=True) as server:
            address = Address(server.host, server.port)
            one_by_one = make_durables(address, "A", at_once=1)
            resident = resident_mib(server.pid)
            shares = crew.run([WindowPublisher(address, self._messages)], server_pid=server.pid)
            seconds = (shares[0].ended_ns - shares[0].started_ns) / 1e9
            together = make_durables(address, "B", at_once=_AT_ONCE)
            server.kill()  # a clean stop of nats-server takes many seconds here
        figures = {
            "made one by one": Figure(one_by_one, MILLISECONDS),
            "made 100 at once": Figure(together, MILLISECONDS),
            "resident": Figure(resident, MEBIBYTES),
            "publish": Figure(self._messages.count / seconds, RATE),
        }
        return outcome(figures, shares, seconds)


class IdleRestart(Prepared):
    """Kill a server with its consumers; a round starts a server on a copy of what was left."""

    def __init__(self, kind: Server, scale: float) -> None:
        self._kind = kind
        self._left = Path(tempfile.mkdtemp(prefix="millstream-bench-"))
        with ServerProcess(kind, jetstream=True, store_dir=self._left) as server:
            make_durables(Address(server.host, server.port), "A", at_once=_AT_ONCE)
            server.kill()

    def run(self) -> Outcome:
        with copy_of(self._left) as store:
            began = time.perf_counter()
            with ServerProcess(self._kind, jetstream=True, store_dir=store) as server:
                address = Address(server.host, server.port)
                request(address, f"CONSUMER.INFO.A.idle{_DURABLES - 1:04d}", {})
                seconds = time.perf_counter() - began
                resident = resident_mib(server.pid)
                used_s = crew.process_cpu_s(server.pid)
                server.kill()
        figures = {
            "time": Figure(seconds * 1000, MILLISECONDS),
            "resident": Figure(resident, MEBIBYTES),
        }
        return Outcome(figures, used_s / seconds, loader_cores=0.0, load_cores=0.0, server_s=used_s)

    def close(self) -> None:
        shutil.rmtree(self._left)


IDLE: Final = (
    StoreWorkload(
        "idle-durables",
        "1,000 idle durables",
        ("made one by one", "made 100 at once", "resident", "publish"),
        Idle,
        5,
    ),
    StoreWorkload("idle-restart", "kill -9 with 1,000 durables", ("time", "resident"), IdleRestart, 5),
)
