"""TLS handshakes that are cut, dripped, senseless or many: each ends in time, and others are served."""

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.certs import CertificateAuthority
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.websocket import Opcode, WebSocketStream, deflate
from tests.kits.wire import WireClient, WireError

FLOOD = 400
TIMEOUT_S = 2.0

BEGINNINGS = {
    "silent": b"",
    "half a record": b"\x16\x03\x01\x02\x00\x01\x00",
    "an endless hello": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"\x00" * 16_380,
    "half of a long hello": b"\x16\x03\x01\x40\x00\x01\x00\x80\x00" + b"\x00" * 9_000,
    "plain text": b"CONNECT {}\r\nPING\r\n",
    "noise": bytes(range(256)) * 40,
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="module", params=[False, True], ids=["anybody", "verify"])
def server(request: pytest.FixtureRequest, authority: CertificateAuthority) -> Iterator[ServerProcess]:
    issued = authority.issue_for_loopback()
    verify = "verify: true" if request.param else ""
    config = f"""tls {{ cert_file: "{issued.cert_file}", key_file: "{issued.key_file}"
        ca_file: "{authority.cert_file}", timeout: {TIMEOUT_S}, {verify} }}"""
    with ServerProcess(ServerKind.MILLSTREAM, config=config) as server:
        yield server


def dial(server: ServerProcess) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    while not sock.recv(4096).endswith(b"\r\n"):
        pass
    return sock


def visit(server: ServerProcess, authority: CertificateAuthority) -> None:
    """Connect like a client; try again if this machine was too busy for a handshake in time."""
    context = authority.client_context(authority.issue("visitor"))
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with WireClient.connect(server.port) as client:
            client.read_info()
            try:
                client.start_tls(context)
                client.handshake(read_info=False)
            except (OSError, WireError):
                assert time.monotonic() < deadline, "nobody is served"
                continue
            assert client.round_trip() == b""
            return


def memory_mb(server: ServerProcess) -> float:
    status = Path(f"/proc/{server.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize("beginning", BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_flood_of_handshakes_stops_nobody_and_ends(
    server: ServerProcess, authority: CertificateAuthority, beginning: bytes
) -> None:
    visit(server, authority)
    before = memory_mb(server)
    position = server.log_position
    with contextlib.ExitStack() as stack:
        flood = []
        for _ in range(FLOOD):
            sock = stack.enter_context(dial(server))
            with contextlib.suppress(OSError):
                sock.sendall(beginning)
            flood.append(sock)
        visit(server, authority)
        assert memory_mb(server) - before < FLOOD * 0.25
        for sock in flood:  # each is closed, whatever it has sent
            with contextlib.suppress(ConnectionError):
                while sock.recv(4096):
                    pass
    visit(server, authority)
    # How long a step takes depends on what else the machine does.
    said = [line for line in server.log.splitlines()[position:] if "held up all clients" not in line]
    assert not any("Traceback" in line for line in said)
    assert len(said) <= FLOOD  # one for each at most


def test_a_handshake_that_drips_is_cut_in_time(
    server: ServerProcess, authority: CertificateAuthority
) -> None:
    outgoing = ssl.MemoryBIO()
    client = authority.client_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    with dial(server) as sock, pytest.raises(ConnectionError):  # noqa: PT012 - whichever byte it is
        for at in range(len(hello)):  # more than a minute for all of it
            sock.sendall(hello[at : at + 1])
            time.sleep(0.2)


def test_tls_at_a_port_without_it_ends_with_a_word() -> None:
    with (
        ServerProcess(ServerKind.MILLSTREAM) as plain,
        socket.create_connection(("127.0.0.1", plain.port), timeout=PATIENCE_S) as sock,
    ):
        sock.recv(4096)
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while more := sock.recv(4096):
                answer += more
        assert b"Unknown Protocol Operation" in answer


def test_a_web_socket_message_before_the_login_is_small() -> None:
    config = """authorization { user: u, password: p }
        websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }"""
    compressed = {"Sec-WebSocket-Extensions": "permessage-deflate"}
    with ServerProcess(ServerKind.MILLSTREAM, config=config) as server:
        stream = WebSocketStream.open(server.websocket_port, headers=compressed)
        stream.send_frame(Opcode.BINARY, deflate(b"PING\r\n" * 50_000), compressed=True)
        client = WireClient(stream, timeout_s=PATIENCE_S)
        client.read_until_closed()
        client.close()
        # After it, the limit is that of messages.
        stream = WebSocketStream.open(server.websocket_port, headers=compressed)
        client = WireClient(stream, timeout_s=PATIENCE_S)
        client.handshake(user="u", **{"pass": "p"})
        stream.compress_next = True
        payload = b"x" * 500_000
        answer = client.round_trip(b"SUB a 1\r\nPUB a %d\r\n%b\r\n" % (len(payload), payload))
        assert payload in answer
        client.close()
