"""A gateway as a process: on the server it was made for, or on another one that runs ASGI applications."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

from benchmarks.crew import process_cpu_s
from benchmarks.stream_store import resident_mib
from benchmarks.wire import Address, WireError
from millstream.gateway.app import build_app
from millstream.gateway.settings import Nats, Settings

OWN: Final = "ours"
_PATIENCE_S: Final = 60.0
_APPLICATION: Final = f"{__name__}:application"
_BROKER: Final = "GATEWAY_BENCHMARK_BROKER"
_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    OWN: ("millstream", "gateway", "--host", "127.0.0.1", "-p", "{port}", "--server", "{broker}"),
    "uvicorn": (
        *("uvicorn", _APPLICATION, "--factory", "--port", "{port}"),
        *("--http", "httptools", "--loop", "uvloop", "--no-access-log", "--log-level", "error"),
    ),
    "granian": (
        *("granian", _APPLICATION, "--factory", "--port", "{port}"),
        *("--interface", "asgi", "--loop", "uvloop", "--log-level", "error"),
    ),
    "hypercorn": ("hypercorn", f"{_APPLICATION}()", "-b", "127.0.0.1:{port}", "-k", "uvloop"),
}
OTHERS: Final = tuple(name for name in _COMMANDS if name != OWN)


def application() -> Any:
    """Return the application, for servers that import what they run."""
    return build_app(Settings(nats=Nats.at(os.environ[_BROKER])))


class GatewayProcess:
    """A gateway in front of the broker at `broker_url`; the constructor returns when it is ready."""

    def __init__(self, broker_url: str, on: str = OWN) -> None:
        self.address = Address("127.0.0.1", _free_port())
        words = (word.format(port=self.address.port, broker=broker_url) for word in _COMMANDS[on])
        self._process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env={**os.environ, _BROKER: broker_url},
            cwd=Path(__file__).parent.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def cpu_s(self) -> float:
        """Processor time used so far, by all its processes."""
        return _tree_cpu_s(self._process.pid)

    def memory_kib(self) -> float:
        """Memory that the gateway itself has in RAM now."""
        return resident_mib(self._process.pid) * 1024

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        url = f"http://{self.address.host}:{self.address.port}/v1/data/ready"
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
                return
            except OSError as error:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise WireError(f"the gateway did not become ready: {error}") from error
            time.sleep(0.05)


def _tree_cpu_s(pid: int) -> float:
    used = process_cpu_s(pid)
    for task in Path(f"/proc/{pid}/task").iterdir():
        used += sum(_tree_cpu_s(int(child)) for child in (task / "children").read_text().split())
    return used


def _free_port() -> int:
    """The servers we compare with can not tell which port they picked."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
