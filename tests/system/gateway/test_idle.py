"""Ten thousand connections on which nothing happens cost little, and nobody else waits for them."""

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.kits.gateway.v1 import PATIENCE_S, GatewayProcess

_CONNECTIONS = 9_900  # the limit is 10,000
_REQUEST = b"GET /v1/data/alive HTTP/1.1\r\nHost: x\r\n\r\n"
_KIB_EACH = 6


def _resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("there is no such process")


@contextmanager
def _open_files(wanted: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"{wanted} open files are not allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _crowd(port: int) -> list[socket.socket]:
    """Connections that have each had an answer."""
    crowd: list[socket.socket] = []
    while len(crowd) < _CONNECTIONS:
        some = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(100)]
        crowd += some
        for connection in some:
            connection.sendall(_REQUEST)
        for connection in some:
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    return crowd


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
async def test_ten_thousand_idle_connections_are_cheap_and_others_are_served() -> None:
    with _open_files(12_000):
        gateway = GatewayProcess("--server", "nats://127.0.0.1:1")
        crowd: list[socket.socket] = []
        try:
            await gateway.started()
            async with httpx.AsyncClient(base_url=gateway.url, timeout=PATIENCE_S) as client:
                assert (await client.get("/v1/data/alive")).status_code == 200
                before = _resident_kib(gateway.pid)
                crowd = await asyncio.to_thread(_crowd, gateway.ports[0])
                grown = _resident_kib(gateway.pid) - before
                assert grown < _CONNECTIONS * _KIB_EACH
                assert (await client.get("/v1/data/alive")).status_code == 200
                text = (await client.get("/metrics")).text
            assert f"millstream_gateway_connections {_CONNECTIONS + 1}.0" in text
        finally:
            for connection in crowd:
                connection.close()
            gateway.close()
