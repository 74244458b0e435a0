"""The gateway's application on the HTTP servers it could run on: single publishes a second at 32 connections.

    python -m benchmarks.gateway_servers [--requests 8000] [--rounds 3] [--server millrace]

Every server runs the same application in front of the same broker, in turns; the figure is the median of the
ratios to ours in the same turn.  Client, gateway and broker share the machine.  uvicorn does not speak
HTTP/2, and granian does not speak the upgrade to it; they are here to see what that costs.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.machine import describe
from millrace.gateway.app import build_app
from millrace.gateway.settings import Nats, Settings
from millrace.testing.reference import ServerKind, ServerProcess

_CONNECTIONS: Final = 32
_PORT: Final = 18_080
_BODY: Final = b"eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4"
_REQUEST: Final = b"POST /v1/data/subject/bench.a HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_BODY),
    _BODY,
)
_HERE: Final = "benchmarks.gateway_servers"
_PYTHON: Final = (sys.executable, "-m")
_SERVERS: Final[dict[str, tuple[str, ...]]] = {
    "ours": ("millrace", "gateway", "--host", "127.0.0.1", "-p", str(_PORT)),
    "uvicorn": (
        *("uvicorn", f"{_HERE}:application", "--factory", "--port", str(_PORT)),
        *("--http", "httptools", "--loop", "uvloop", "--no-access-log", "--log-level", "error"),
    ),
    "granian": (
        *("granian", f"{_HERE}:application", "--factory", "--port", str(_PORT)),
        *("--interface", "asgi", "--loop", "uvloop", "--log-level", "error"),
    ),
    "hypercorn": ("hypercorn", f"{_HERE}:application()", "-b", f"127.0.0.1:{_PORT}", "-k", "uvloop"),
}


def application() -> Any:
    """For servers that import what they run."""
    return build_app(Settings(nats=Nats(servers=(os.environ["NATS_URL"],))))


class _Caller(asyncio.Protocol):
    """Sends a request, waits for its answer, sends the next."""

    def __init__(self, run: "_Run") -> None:
        self._run = run
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._transport.write(_REQUEST)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"}"):
            return
        assert b" 200 " in self._received[:20], self._received
        self._received = b""
        self._run.answered += 1
        if self._run.answered >= self._run.wanted:
            if not self._run.done.done():
                self._run.done.set_result(None)
        else:
            self._transport.write(_REQUEST)


class _Run:
    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.answered = 0
        self.done = asyncio.get_running_loop().create_future()


async def _load(requests: int) -> float:
    """Requests a second."""
    loop = asyncio.get_running_loop()
    run = _Run(requests)
    started = time.perf_counter()
    callers = [
        await loop.create_connection(lambda: _Caller(run), "127.0.0.1", _PORT) for _ in range(_CONNECTIONS)
    ]
    await run.done
    took = time.perf_counter() - started
    for transport, _ in callers:
        transport.abort()
    return requests / took


def _turn(name: str, url: str, requests: int) -> float:
    process = subprocess.Popen(
        [*_PYTHON, *_SERVERS[name]],
        env={**os.environ, "NATS_URL": url},
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready()
        uvloop.run(_load(requests // 8))
        return uvloop.run(_load(requests))
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready() -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/v1/data/ready", timeout=5).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server", choices=list(ServerKind), default=ServerKind.MILLRACE)
    chosen = parser.parse_args()
    print(describe())
    figures: dict[str, list[float]] = {name: [] for name in _SERVERS}
    with ServerProcess(ServerKind(chosen.server), jetstream=True) as server:
        asyncio.run(_make_stream(server.client_url))
        for _ in range(chosen.rounds):
            for name, found in figures.items():
                found.append(_turn(name, server.client_url, chosen.requests))
    for name, found in figures.items():
        ratio = statistics.median(one / ours for one, ours in zip(found, figures["ours"], strict=True))
        print(f"{name:10} {statistics.median(found):8.0f} publishes/s   {ratio:5.2f} of ours")


async def _make_stream(url: str) -> None:
    import nats

    connection = await nats.connect(url)
    await connection.jetstream().add_stream(name="bench", subjects=["bench.*"])
    await connection.close()


if __name__ == "__main__":
    main()
