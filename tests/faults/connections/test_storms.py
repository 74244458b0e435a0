"""Very many connections that come and go, politely or not: nothing of them stays behind."""

import os
import resource
import socket
import time
from pathlib import Path

import pytest

from tests.kits.certs import CertificateAuthority
from tests.kits.faults import (
    WatchedServer,
    Witness,
    dial,
    open_files,
    read_to_end,
    reset,
    resident_bytes,
)
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.wire import WireClient, WireError

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'


def wave(port: int, size: int) -> None:
    """Open `size` connections together, use each a little in one of five ways, close them all."""
    connections = [dial(port) for _ in range(size)]
    for number, connection in enumerate(connections):
        match number % 5:
            case 0:
                reset(connection)  # not even the greeting was read
            case 1:
                connection.close()
            case 2:
                connection.sendall(CONNECT + b"SUB a.* 1\r\nSUB > q 2\r\n")
                connection.close()
            case 3:
                connection.sendall(CONNECT + b"SUB a.b 1\r\nPUB a.b 5\r\nhello\r\nPUB a.b 500\r\ncut sh")
                reset(connection)
            case 4:
                connection.sendall(CONNECT + b"SUB b 1\r\nPING\r\n")
    for connection in connections[4::5]:
        received = b""
        while not received.endswith(b"PONG\r\n"):
            chunk = connection.recv(65536)
            assert chunk, received
            received += chunk
        connection.close()


def storm(total: int, size: int) -> None:
    with WatchedServer(max_closed_clients=100) as server:
        with Witness(server) as witness:
            for _ in range(3):  # caches, pools and free lists fill up first
                wave(server.port, size)
            server.wait_for_connections(1)
            files, memory, registered = open_files(), resident_bytes(), server.registered()
            for _ in range(total // size - 3):
                wave(server.port, size)
                witness.look()
            server.wait_for_connections(1)
            assert server.ask(lambda broker: broker.totals.connections) == total + 1
            assert server.ask(lambda broker: len(broker.closed)) == 100
            assert server.registered() == registered
            assert server.ask(lambda broker: len(broker.global_account.connections)) == 1
            assert open_files() <= files + 2
            # Loose, because the allocator and other tests in this process move it; a leak of one buffer
            # for each connection would be far above.
            assert resident_bytes() - memory < total * 8 * 1024
        server.wait_for_connections(0)


def test_ten_thousand_connections_leave_nothing_behind() -> None:
    storm(total=10_000, size=250)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_hundred_thousand_connections_leave_nothing_behind() -> None:
    storm(total=100_000, size=500)


def test_connections_refused_by_a_full_server_are_told_so_and_leave_nothing_behind() -> None:
    with WatchedServer(max_connections=10, max_closed_clients=5) as server:
        held = [dial(server.port) for _ in range(10)]
        server.wait_for_connections(10)
        for _ in range(200):
            with dial(server.port) as extra:
                assert read_to_end(extra).endswith(b"-ERR 'maximum connections exceeded'\r\n")
        assert server.ask(lambda broker: len(broker.connections)) == 10
        for connection in held:
            connection.close()
        server.wait_for_connections(0)
        with Witness(server) as witness:
            witness.look()


def test_subscriptions_of_a_storm_do_not_slow_down_others() -> None:
    with WatchedServer() as server, Witness(server) as witness:
        witness.look()
        before = server.registered()
        clients = [dial(server.port) for _ in range(50)]
        for number, connection in enumerate(clients):
            lines = b"".join(b"SUB storm.%d.%d.* %d\r\n" % (number, sid, sid) for sid in range(200))
            connection.sendall(CONNECT + lines)
            witness.look()
        server.wait_until(lambda broker: broker.global_account.space.tree.count == before + 10_000)
        for connection in clients:
            connection.shutdown(socket.SHUT_WR)
            connection.close()
        server.wait_for_connections(1)
        witness.look()
        server.wait_until(lambda broker: broker.global_account.space.tree.count == before)


def served(port: int) -> bool:
    with WireClient.connect(port) as client:
        try:
            return "server_id" in client.read_info()
        except WireError:
            return False


@pytest.mark.parametrize("tls", [False, True])
def test_a_server_out_of_files_recovers_when_some_are_free(tls: bool, tmp_path: Path) -> None:
    config = ""
    if tls:
        issued = CertificateAuthority(tmp_path).issue_for_loopback()
        config = f'tls {{ cert_file: "{issued.cert_file}", key_file: "{issued.key_file}" }}\n'
    with ServerProcess(ServerKind.MILLSTREAM, config=config) as server:
        used = len(os.listdir(f"/proc/{server.pid}/fd"))
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + 20, used + 20))
        crowd = [dial(server.port) for _ in range(60)]
        first = WireClient(crowd[0])
        assert first.read_info()["max_payload"] == 1048576  # those who came in time are served
        for connection in crowd:
            reset(connection)
        deadline = time.monotonic() + 10
        while not served(server.port):  # it may take a moment to notice that the crowd is gone
            assert time.monotonic() < deadline
        assert server.running
        assert "Traceback" not in server.log
