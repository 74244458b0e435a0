"""A server that runs out of descriptors: the store goes on, and everything recovers when there are some."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.server.process import Caller


@contextmanager
def running(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(
        ServerKind.MILLSTREAM, jetstream=True, store_dir=tmp_path / "store", monitor=True
    ) as server:
        yield server


def limit(server: ServerProcess, most: int) -> None:
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, hard))


def in_use(server: ServerProcess) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


def wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def is_served(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as sock:
        sock.sendall(b"CONNECT {}\r\nPING\r\n")
        seen = b""
        while b"PONG" not in seen:
            try:
                data = sock.recv(4096)
            except OSError:
                return False
            if not data:
                return False
            seen += data
    return True


def idle_connections(stack: ExitStack, port: int, count: int) -> list[socket.socket]:
    return [
        stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
        for _ in range(count)
    ]


@pytest.mark.parametrize("where", ["clients", "monitoring"])
def test_connections_are_refused_before_the_store_has_no_descriptors(tmp_path: Path, where: str) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller, ExitStack() as stack:
        caller.create("S")
        limit(server, in_use(server) + 40)  # of which 16 are kept
        port = server.port if where == "clients" else server.monitor_port
        idle = idle_connections(stack, port, 120)
        for name in ("A", "B", "C"):
            caller.create(name)
            assert caller.publish(f"{name}.x", b"1")["seq"] == 1
        for number in range(1, 50):
            assert caller.publish("S.x", b"x" * 1000)["seq"] == number
        caller.ask("STREAM.PURGE.S")
        consumer = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"}}
        assert "error" not in caller.ask("CONSUMER.DURABLE.CREATE.S.c", consumer)
        assert caller.state("S")["messages"] == 0
        for sock in idle:
            sock.close()
        wait_for(lambda: is_served(server.port))


def test_a_stream_recovers_from_having_no_descriptor_at_all(tmp_path: Path) -> None:
    with running(tmp_path) as server, Caller(server.port) as caller:
        caller.create("S")
        caller.create("EMPTY")  # its file is opened by the first message
        assert caller.publish("S.x", b"1")["seq"] == 1
        limit(server, in_use(server))
        assert caller.publish("S.x", b"2")["seq"] == 2  # needs none
        assert "error" in caller.publish("EMPTY.x", b"1")
        assert "error" in caller.ask("STREAM.CREATE.NEW", {"name": "NEW", "subjects": ["NEW.>"]})
        caller.ask("STREAM.PURGE.S")
        limit(server, 1000)
        wait_for(lambda: "error" not in caller.publish("EMPTY.x", b"2"))
        assert "error" not in caller.ask("STREAM.CREATE.NEW", {"name": "NEW", "subjects": ["NEW.>"]})
        wait_for(lambda: "error" not in caller.publish("S.x", b"3"))
        wait_for(lambda: caller.state("S")["messages"] >= 1)
        assert caller.state("S")["first_seq"] >= 3


def test_the_soft_limit_is_raised_at_the_start(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        soft, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        assert soft == (hard if hard != resource.RLIM_INFINITY else 1 << 20)
