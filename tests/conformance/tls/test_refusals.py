"""Clients whose certificates are not good enough: refused at every connection, and told why by an alert."""

import contextlib
import itertools
import socket
import ssl
import time
from collections.abc import Callable

import pytest

from tests.kits.certs import IssuedCertificate
from tests.kits.conformance.clients import Dial, ServerFactory, closed_reason
from tests.kits.conformance.papers import Papers
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess
from tests.kits.websocket import WebSocketStream

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
BEYOND_S = 1.1  # certificates know whole seconds
PINGS = b'CONNECT {"verbose":false}\r\nPING\r\n'
ANYBODY = "authorization { users: [ { user: short.example.com } ] }\n"

Secure = Callable[[socket.socket, ssl.SSLContext], ssl.SSLSocket]


def dialled(port: int, *, first: bool = False) -> socket.socket:
    """Return a socket over which the handshake comes next."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    if not first:
        line = b""
        while not line.endswith(b"\r\n"):
            line += plain.recv(1)
    return plain


def talk(secured: ssl.SSLSocket, hello: bytes) -> bytes:
    """Say something, read until an answer is there; what TLS says about it is raised."""
    with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
        secured.sendall(hello)
    answer = b""
    while b"PONG" not in answer and b"\r\n\r\n" not in answer and (more := secured.recv(4096)):
        answer += more
    return answer


def refusal(
    port: int, context: ssl.SSLContext, *, first: bool = False, session: ssl.SSLSession | None = None
) -> str:
    """Return the alert that the client is told."""
    with dialled(port, first=first) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secured:
                return f"none: {talk(secured, PINGS)!r}"
        except ssl.SSLError as error:
            return error.reason


# -- alerts -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def expired(papers: Papers) -> IssuedCertificate:
    return papers.authority.issue("expired", begins_in_s=-7200, ends_in_s=-3600)


@pytest.mark.parametrize("first", [False, True], ids=["info-first", "handshake-first"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("whose", ["nobody", "stranger", "expired"])
def test_the_alert_says_what_is_wrong_with_the_certificate(
    shared_server: ServerFactory,
    papers: Papers,
    expired: IssuedCertificate,
    whose: str,
    version: ssl.TLSVersion,
    first: bool,
) -> None:
    server = shared_server(config=papers.tls("verify: true" + (", handshake_first: true" if first else "")))
    context = papers.context({"nobody": None, "stranger": papers.stranger, "expired": expired}[whose])
    context.minimum_version = context.maximum_version = version
    if whose == "nobody":
        old = version is ssl.TLSVersion.TLSv1_2
        wanted = "SSLV3_ALERT_HANDSHAKE_FAILURE" if old else "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    else:
        wanted = {"stranger": "TLSV1_ALERT_UNKNOWN_CA", "expired": "SSLV3_ALERT_CERTIFICATE_EXPIRED"}[whose]
    assert refusal(server.port, context, first=first) == wanted


def test_the_alert_names_the_version(shared_server: ServerFactory, papers: Papers) -> None:
    server = shared_server(config=papers.tls('min_version: "1.3"'))
    context = papers.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert refusal(server.port, context) == "TLSV1_ALERT_PROTOCOL_VERSION"


def test_no_suite_in_common_is_told(shared_server: ServerFactory, papers: Papers) -> None:
    server = shared_server(config=papers.tls("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]"))
    context = papers.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    assert refusal(server.port, context) == "SSLV3_ALERT_HANDSHAKE_FAILURE"


@pytest.mark.parametrize("whose", ["stranger", "expired"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_web_socket_client_is_told_too(
    shared_server: ServerFactory,
    server_kind: ServerKind,
    papers: Papers,
    expired: IssuedCertificate,
    whose: str,
    version: ssl.TLSVersion,
) -> None:
    server = shared_server(config=f'websocket {{ listen: "127.0.0.1:-1"\n {papers.tls("verify: true")} }}')
    context = papers.context(papers.stranger if whose == "stranger" else expired)
    context.minimum_version = context.maximum_version = version
    wanted = {"stranger": "TLSV1_ALERT_UNKNOWN_CA", "expired": "SSLV3_ALERT_CERTIFICATE_EXPIRED"}[whose]
    with pytest.raises((ssl.SSLError, ConnectionError)) as raised:
        WebSocketStream.open(server.websocket_port, context=context)
    if isinstance(raised.value, ssl.SSLError):
        assert raised.value.reason == wanted
    else:  # the alert was overtaken by the end of the connection
        assert server_kind is ServerKind.NATS_SERVER


@pytest.mark.parametrize("version", VERSIONS)
def test_a_certificate_that_is_not_pinned_ends_in_an_orderly_way(
    shared_server: ServerFactory, papers: Papers, version: ssl.TLSVersion
) -> None:
    """The handshake succeeds on both servers, then the connection is closed without INFO or error."""
    other = papers.authority.issue("other")
    pins = f'verify: true, pinned_certs: ["{papers.client.public_key_sha256}"]'
    server = shared_server(config=papers.tls(pins))
    context = papers.context(other)
    context.minimum_version = context.maximum_version = version
    assert refusal(server.port, context) == "none: b''"


def test_a_reload_sends_away_who_is_not_pinned_any_more(
    own_server: ServerFactory, dial: Dial, papers: Papers
) -> None:
    other = papers.authority.issue("pinned later")
    server = own_server(config=papers.tls("verify: true"), monitor=True)
    going, staying = dial(server), dial(server)
    for client, certificate in ((going, papers.client), (staying, other)):
        client.read_info()
        client.start_tls(papers.context(certificate))
        client.handshake(read_info=False)
    server.reload(papers.tls(f'verify: true, pinned_certs: ["{other.public_key_sha256}"]'))
    assert going.read_until_closed() == b""
    assert closed_reason(server, going) == "TLS Handshake Failure"
    assert staying.round_trip() == b""


# -- sessions ---------------------------------------------------------------------------------------


def admitted_with_a_short_life(
    papers: Papers,
    version: ssl.TLSVersion,
    tickets: bool,
    connect: Callable[[ssl.SSLContext], ssl.SSLSession],
) -> tuple[ssl.SSLContext, ssl.SSLSession]:
    """Connect with a certificate that is good for moments; longer ones if the machine is that busy."""
    for life_s in (2, 4, 8, 16):
        short = papers.authority.issue("short", dns=["short.example.com"], ends_in_s=life_s)
        ends = time.time() + life_s
        context = papers.context(short)
        context.minimum_version = context.maximum_version = version
        if not tickets:
            context.options |= ssl.OP_NO_TICKET
        try:
            session = connect(context)
        except (ssl.SSLError, OSError):
            assert time.time() > ends - 1, "a good certificate was refused"
            continue
        while time.time() < ends + BEYOND_S:
            time.sleep(0.05)
        return context, session
    raise AssertionError("the machine is too slow for this")


@pytest.mark.parametrize(
    ("version", "tickets"),
    [(VERSIONS[0], True), (VERSIONS[0], False), (VERSIONS[1], True)],
    ids=["1.2-ticket", "1.2-session-id", "1.3"],
)
@pytest.mark.parametrize(
    ("block", "first"),
    [("verify: true", False), ("verify_and_map: true", False), ("verify: true, handshake_first: true", True)],
    ids=["verify", "map", "first"],
)
def test_a_session_does_not_outlive_its_certificate(
    shared_server: ServerFactory,
    papers: Papers,
    block: str,
    first: bool,
    version: ssl.TLSVersion,
    tickets: bool,
) -> None:
    server = shared_server(config=papers.tls(block) + ANYBODY * ("map" in block))

    def connect(context: ssl.SSLContext) -> ssl.SSLSession:
        with (
            dialled(server.port, first=first) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            assert b"PONG" in talk(secured, PINGS)
            session = secured.session
            assert session is not None
            with contextlib.suppress(OSError):
                secured.unwrap()
            return session

    context, session = admitted_with_a_short_life(papers, version, tickets, connect)
    assert refusal(server.port, context, first=first, session=session) == "SSLV3_ALERT_CERTIFICATE_EXPIRED"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_web_socket_session_does_not_outlive_its_certificate(
    shared_server: ServerFactory, papers: Papers, version: ssl.TLSVersion
) -> None:
    server = shared_server(config=f'websocket {{ listen: "127.0.0.1:-1"\n {papers.tls("verify: true")} }}')
    request = (
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )

    def connect(context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSession:
        with (
            dialled(server.websocket_port, first=True) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as secured,
        ):
            assert talk(secured, request).startswith(b"HTTP/1.1 101")
            assert secured.session is not None
            return secured.session

    context, session = admitted_with_a_short_life(papers, version, True, connect)
    with pytest.raises(ssl.SSLError) as raised:
        connect(context, session)
    assert raised.value.reason == "SSLV3_ALERT_CERTIFICATE_EXPIRED"


def test_a_connection_outlives_its_certificate(
    shared_server: ServerFactory, papers: Papers, dial: Dial
) -> None:
    """Neither server looks at it again: whoever is in stays until it is sent away."""
    server = shared_server(config=papers.tls("verify: true"))
    client = dial(server)

    def connect(context: ssl.SSLContext) -> ssl.SSLSession:
        nonlocal client
        client = dial(server)
        client.read_info()
        client.start_tls(context)
        client.handshake(read_info=False)
        assert isinstance(client.stream, ssl.SSLSocket)
        assert client.stream.session is not None
        return client.stream.session

    admitted_with_a_short_life(papers, VERSIONS[0], True, connect)
    assert client.round_trip() == b""


# -- nonsense ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "junk",
    [b"GET / HTTP/1.1\r\n\r\n", b"CONNECT {}\r\nPING\r\n", b"\x00" * 64],
    ids=["http", "nats", "zeros"],
)
def test_what_is_not_tls_is_closed_and_not_logged_as_an_error(
    own_server: ServerFactory, papers: Papers, junk: bytes
) -> None:
    """A scan of ports does not fill the log."""
    server = own_server(config=papers.tls())
    for _ in range(20):
        with dialled(server.port) as plain:
            plain.sendall(junk)
            with contextlib.suppress(ConnectionError):
                while plain.recv(4096):
                    pass
    server.stop()
    assert "[ERR]" not in server.log


def test_a_handshake_cut_anywhere_stalls_nobody(server: ServerProcess, papers: Papers, dial: Dial) -> None:
    """Every beginning of a client's first flight, half of them left open, half closed."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = papers.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    opened: list[socket.socket] = []
    for size, stays in zip(range(0, len(hello), 3), itertools.cycle([True, False]), strict=False):
        plain = dialled(server.port)
        plain.sendall(hello[:size])
        if stays:
            opened.append(plain)
        else:
            plain.close()
    legit = dial(server)
    legit.read_info()
    legit.start_tls(papers.context())
    legit.handshake(read_info=False)
    assert legit.round_trip() == b""
    for plain in opened:
        plain.close()


@pytest.fixture
def server(shared_server: ServerFactory, papers: Papers) -> ServerProcess:
    return shared_server(config=papers.tls())
