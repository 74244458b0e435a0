"""Peers that begin and do not go on: they cost a socket for a while, and nobody else anything."""

import contextlib
import socket
import ssl
from collections.abc import Iterator

import pytest

from millstream.broker.options import Authorization, TlsOptions, User, WebSocketOptions
from tests.kits.certs import CertificateAuthority
from tests.kits.faults import WatchedServer, Witness, dial, in_the_end, open_files, read_to_end, reset
from tests.kits.wire import WireClient, WireError

TIMEOUT_S = 0.4
LONGER_S = 2.0  # where another client has to be in time


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("papers"))


def tls_options(
    authority: CertificateAuthority, timeout_s: float = TIMEOUT_S, **options: object
) -> TlsOptions:
    issued = authority.issue_for_loopback()
    return TlsOptions(
        cert_file=str(issued.cert_file), key_file=str(issued.key_file), timeout_s=timeout_s, **options
    )  # type: ignore[arg-type]


def client_hello(context: ssl.SSLContext) -> bytes:
    """The first bytes that a TLS client sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


def tls_round_trip(server: WatchedServer, context: ssl.SSLContext) -> None:
    with WireClient.connect(server.port) as client:
        client.read_info()
        client.start_tls(context)
        client.handshake(read_info=False)
        assert client.round_trip(b"SUB a 1\r\nPUB a 1\r\n!\r\n") == b"MSG a 1 1\r\n!\r\n"


def login(server: WatchedServer) -> WireClient:
    client = WireClient.connect(server.port)
    try:
        client.handshake(user="ann", **{"pass": "secret"})
    except WireError:
        client.close()
        raise
    return client


def test_silent_clients_of_a_server_with_passwords_are_sent_away() -> None:
    users = (User(name="ann", password="secret"),)
    with WatchedServer(authorization=Authorization(users=users, timeout_s=LONGER_S)) as server:
        files = open_files()
        silent = [dial(server.port) for _ in range(100)]
        for number, connection in enumerate(silent):
            with contextlib.suppress(OSError):  # its time may be over
                connection.sendall(b'CONNECT {"user":"an'[: number % 20])  # nothing, or not enough
        with in_the_end(lambda: login(server)) as client:
            assert client.round_trip(b"SUB a 1\r\nPUB a 1\r\n!\r\n") == b"MSG a 1 1\r\n!\r\n"
            for connection in silent:
                assert read_to_end(connection).endswith(b"-ERR 'Authentication Timeout'\r\n")
                connection.close()
            server.wait_for_connections(1)
            assert client.round_trip() == b""
        server.wait_for_connections(0)
        assert open_files() <= files + 2


def test_silent_clients_of_an_open_server_disturb_nobody() -> None:
    with WatchedServer() as server, Witness(server) as witness:
        silent = [dial(server.port) for _ in range(300)]
        for number, connection in enumerate(silent):
            connection.sendall(b"PUB foo 100000\r\nxxxxxxxxxx"[: number % 27])
        server.wait_for_connections(301)
        for _ in range(20):
            witness.look()
        for connection in silent:
            reset(connection)
        server.wait_for_connections(1)


@pytest.fixture(params=["tls", "tls first"])
def tls_server(
    request: pytest.FixtureRequest, authority: CertificateAuthority
) -> Iterator[tuple[WatchedServer, bool]]:
    first = request.param == "tls first"
    timeout_s = TIMEOUT_S if first else LONGER_S
    with WatchedServer(tls=tls_options(authority, timeout_s, handshake_first=first)) as server:
        yield server, first


@pytest.mark.parametrize("part", [0, 1, 5, 50, -1])
def test_a_tls_handshake_that_stops_ends_after_its_timeout(
    tls_server: tuple[WatchedServer, bool],
    authority: CertificateAuthority,
    part: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, first = tls_server
    context = authority.client_context()
    hello = client_hello(context)
    files = open_files()
    stuck = [dial(server.port) for _ in range(10)]
    for connection in stuck:
        if not first:
            assert connection.recv(4096).startswith(b"INFO ")
        connection.sendall(hello if part < 0 else hello[:part])
    if not first:
        in_the_end(lambda: tls_round_trip(server, context))  # meanwhile another client is served
    for connection in stuck:
        read_to_end(connection)
        connection.close()
    server.wait_for_connections(0)
    server.wait_until(lambda broker: not server._server._listener._handshakes)
    assert open_files() <= files + 2


def test_tls_clients_that_vanish_in_mid_handshake_leave_nothing_behind(
    authority: CertificateAuthority,
) -> None:
    context = authority.client_context()
    hello = client_hello(context)
    with WatchedServer(tls=tls_options(authority, 20.0)) as server:
        files = open_files()
        for number in range(60):
            connection = dial(server.port)
            connection.sendall(hello[: number * 9])
            (reset if number % 2 else socket.socket.close)(connection)
        tls_round_trip(server, context)
        server.wait_until(lambda broker: not server._server._listener._handshakes)
        server.wait_for_connections(0)
        assert open_files() <= files + 2


@pytest.mark.parametrize(
    "noise", [b"CONNECT {}\r\nPING\r\n", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 4]
)
def test_plain_bytes_on_a_tls_port_close_the_connection(
    authority: CertificateAuthority, noise: bytes
) -> None:
    with WatchedServer(tls=tls_options(authority, 20.0)) as server:
        with dial(server.port) as connection:
            connection.sendall(noise)
            assert b"PONG" not in read_to_end(connection)
        tls_round_trip(server, authority.client_context())
        server.wait_for_connections(0)


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def test_a_websocket_that_never_finishes_its_upgrade_is_closed() -> None:
    websocket = WebSocketOptions(host="127.0.0.1", port=-1, handshake_timeout_s=TIMEOUT_S)
    with WatchedServer(websocket=websocket) as server, Witness(server) as witness:
        files = open_files()
        stuck = []
        for part in (0, 1, 3, 40, len(UPGRADE) - 1):
            connection = dial(server.websocket_port)
            connection.sendall(UPGRADE[:part])
            stuck.append(connection)
        witness.look()
        for connection in stuck:
            read_to_end(connection)
            connection.close()
        witness.look()
        server.wait_for_connections(1)
        assert open_files() <= files + 2


def test_an_upgrade_in_single_bytes_is_an_upgrade() -> None:
    websocket = WebSocketOptions(host="127.0.0.1", port=-1, handshake_timeout_s=20.0)
    with WatchedServer(websocket=websocket) as server, dial(server.websocket_port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for index in range(len(UPGRADE)):
            connection.sendall(UPGRADE[index : index + 1])
        answer = b""
        while b"INFO {" not in answer:
            chunk = connection.recv(4096)
            assert chunk
            answer += chunk
        assert answer.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    "after",
    [
        b"\x82",  # a frame cut in its header
        b"\x82\xfe\xff\xff\x00\x00\x00\x00",  # a long frame that never comes
        b"\x82\x85\x00\x00\x00\x00PING",  # one byte short
    ],
)
def test_a_websocket_that_stops_inside_a_frame_disturbs_nobody(after: bytes) -> None:
    websocket = WebSocketOptions(host="127.0.0.1", port=-1)
    with WatchedServer(websocket=websocket) as server, Witness(server) as witness:
        connection = dial(server.websocket_port)
        connection.sendall(UPGRADE)
        assert connection.recv(4096).startswith(b"HTTP/1.1 101 ")
        connection.sendall(after)
        server.wait_for_connections(2)
        witness.look()
        reset(connection)
        server.wait_for_connections(1)


@pytest.mark.parametrize("noise", [b"\x00" * 100, b"PING\r\n" * 100, b"GET /\r\n\r\n", b"x" * 100_000])
def test_noise_on_the_websocket_port_closes_the_connection(noise: bytes) -> None:
    websocket = WebSocketOptions(host="127.0.0.1", port=-1, handshake_timeout_s=TIMEOUT_S)
    with WatchedServer(websocket=websocket) as server, Witness(server) as witness:
        with dial(server.websocket_port) as connection:
            with contextlib.suppress(OSError):  # it may be closed while we are still talking
                connection.sendall(noise)
            assert b"INFO" not in read_to_end(connection)
        witness.look()
        server.wait_for_connections(1)


def test_files_of_a_stopped_server_are_closed(authority: CertificateAuthority) -> None:
    with WatchedServer():
        pass  # the first event loop of a process opens a pipe that stays
    files = open_files()
    websocket = WebSocketOptions(host="127.0.0.1", port=-1)
    with WatchedServer(websocket=websocket, tls=tls_options(authority)) as server:
        connections = [dial(server.port), dial(server.websocket_port)]
    for connection in connections:
        connection.close()
    assert open_files() <= files + 1
