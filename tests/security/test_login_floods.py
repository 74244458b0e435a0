"""Floods of wrong passwords do not keep anybody with the right one out."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator

import bcrypt
import pytest

from millstream.testing.reference import ServerKind, ServerProcess
from millstream.testing.wire import WireClient

COST = 9  # of bcrypt: some 20 ms on a quiet machine, enough for a queue to be seen
FLOOD = 300


def check_s() -> float:
    """Return what one check takes on this machine, now."""
    began = time.process_time()
    bcrypt.checkpw(b"x", bcrypt.hashpw(b"secret", bcrypt.gensalt(COST)))
    return (time.process_time() - began) / 2


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(COST)).decode()
    config = f"""authorization {{ timeout: 60, users: [
        {{user: ann, password: "{hashed}"}}, {{user: bob, password: "{hashed}"}}, {{user: plain, password: p}}
    ] }}"""
    with ServerProcess(ServerKind.MILLSTREAM, config=config) as server:
        yield server


def attempt(server: ServerProcess, password: str = "wrong", user: str = "ann") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    sock.recv(4096)
    sock.sendall(f'CONNECT {{"user":"{user}","pass":"{password}"}}\r\n'.encode())
    return sock


def log_in(server: ServerProcess, user: str = "ann", password: str = "secret") -> None:
    with WireClient.connect(server.port, timeout_s=120) as client:
        client.handshake(user=user, **{"pass": password})


def test_logins_of_clients_that_hung_up_are_not_checked(server: ServerProcess) -> None:
    """A check of each would take a hundred times what this may take."""
    used_before = _processor_s(server)
    for _ in range(FLOOD):
        attempt(server).close()
    log_in(server)
    log_in(server, "plain", "p")
    assert _processor_s(server) - used_before < FLOOD * check_s() / 2


@pytest.mark.parametrize("user", ["ann", "bob"], ids=["the same user", "another user"])
def test_a_good_login_does_not_wait_for_wrong_ones(server: ServerProcess, user: str) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(FLOOD):
            stack.enter_context(contextlib.closing(attempt(server)))
        used_before = _processor_s(server)
        log_in(server, user)
        assert _processor_s(server) - used_before < 30 * check_s()


def test_what_waits_is_bounded_and_the_rest_is_told(server: ServerProcess) -> None:
    with contextlib.ExitStack() as stack:
        flood = [stack.enter_context(contextlib.closing(attempt(server))) for _ in range(FLOOD)]
        for sock in flood:
            answer = b""
            while more := sock.recv(4096):
                answer += more
            assert answer.removeprefix(b"PING\r\n") == b"-ERR 'Authorization Violation'\r\n"
    server.wait_for_log("More than 64 passwords wait to be checked")  # perhaps in the test before: not often
    log_in(server)


def _processor_s(server: ServerProcess) -> float:
    with open(f"/proc/{server.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
