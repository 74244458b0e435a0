"""Servers and other commands that are forked, as their owner sees them."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

import millstream
from millstream.base.errors import MillstreamError
from tests.kits.nursery import Nursery
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess


@pytest.fixture
def nursery(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nursery]:
    nursery = Nursery()
    monkeypatch.setattr(ServerProcess, "nursery", nursery)
    yield nursery
    nursery.close()


def test_a_server_serves_stops_and_starts_again(nursery: Nursery) -> None:
    with ServerProcess(ServerKind.MILLSTREAM) as server:
        first = server.pid
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as client:
            assert client.recv(4) == b"INFO"
        assert server.stop() == 0
        assert "Server Exiting" in server.log
        server.start()
        assert server.pid != first
        server.kill()
        assert not server.running


def test_codes_are_those_of_a_process(nursery: Nursery) -> None:
    wrong = nursery.start(["serve", "--nonsense"])
    assert wrong.wait(PATIENCE_S) == 1
    assert b"nonsense" in wrong.stdout.read()
    wrong.stdout.close()
    killed = nursery.start(["serve", "-a", "127.0.0.1", "-p", "-1"])
    assert killed.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        killed.wait(0.01)
    killed.kill()
    assert killed.wait(PATIENCE_S) == -signal.SIGKILL
    killed.kill()  # of something that is gone: nothing
    killed.stdout.close()


def test_a_command_runs_to_its_end_with_its_own_environment(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = nursery.run(["version"], timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"millstream {millstream.__version__}")
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    done = nursery.run(["backup", "x", "--timeout", "0.1"], {"COLUMNS": "200"}, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr
    assert done.stdout == ""


def test_a_nursery_that_cannot_begin_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    nursery = Nursery()
    with pytest.raises((MillstreamError, OSError)):
        nursery.start(["serve", "-p", "-1"])
    nursery.close()


def test_nothing_outlives_its_nursery(nursery: Nursery) -> None:
    server = nursery.start(["serve", "-a", "127.0.0.1", "-p", "-1"])
    nursery.close()
    assert server.wait(PATIENCE_S) == -signal.SIGKILL
    deadline = time.monotonic() + PATIENCE_S
    while server.stdout.read(4096) and time.monotonic() < deadline:
        pass  # the end of the output is the end of the process
    server.stdout.close()
    again = nursery.start(["serve", "--nonsense"])
    assert again.wait(PATIENCE_S) == 1
    again.stdout.close()
