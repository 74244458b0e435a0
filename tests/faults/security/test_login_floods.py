"""Floods of wrong passwords do not keep anybody with the right one out.

Whose password is checked first, and whose not at all: `tests/unit/broker/test_password_checks.py`.
"""

import contextlib
import signal
import socket
from collections.abc import Iterator

import bcrypt
import pytest

from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.wire import WireClient

COST = 9  # of bcrypt: some 20 ms on a quiet machine, enough for a queue to be seen
FLOOD = 90  # fewer than wait for a server that does not accept them


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(COST)).decode()
    config = f"""authorization {{ timeout: {PATIENCE_S}, users: [
        {{user: ann, password: "{hashed}"}}, {{user: bob, password: "{hashed}"}}, {{user: plain, password: p}}
    ] }}"""
    with ServerProcess(ServerKind.MILLSTREAM, config=config) as server:
        yield server


@contextlib.contextmanager
def flood(server: ServerProcess) -> Iterator[list[socket.socket]]:
    """Attempts that the server finds all at once, however slowly this process makes them."""
    with contextlib.ExitStack() as stack:
        server.signal(signal.SIGSTOP)
        attempts = []
        for _ in range(FLOOD):
            sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
            attempts.append(stack.enter_context(contextlib.closing(sock)))
            sock.sendall(b'CONNECT {"user":"ann","pass":"wrong"}\r\n')
        server.signal(signal.SIGCONT)
        yield attempts


def log_in(server: ServerProcess, user: str = "ann", password: str = "secret") -> None:
    with WireClient.connect(server.port) as client:
        client.handshake(user=user, **{"pass": password})


def test_clients_that_hung_up_keep_nobody_out(server: ServerProcess) -> None:
    with flood(server):
        pass
    log_in(server)
    log_in(server, "plain", "p")


def test_clients_that_wait_keep_nobody_out(server: ServerProcess) -> None:
    with flood(server):
        for user, password in (("ann", "secret"), ("bob", "secret"), ("plain", "p")):
            log_in(server, user, password)


def test_what_waits_is_bounded_and_the_rest_is_told(server: ServerProcess) -> None:
    with flood(server) as attempts:
        for sock in attempts:
            answer = b""
            while more := sock.recv(4096):
                answer += more
            refusal = answer.partition(b"\r\n")[2].removeprefix(b"PING\r\n")  # behind INFO
            assert refusal == b"-ERR 'Authorization Violation'\r\n"
    server.wait_for_log("More than 64 passwords wait to be checked")
    log_in(server)
