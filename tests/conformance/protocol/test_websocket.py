"""WebSocket: the upgrade, frames in all their forms, and the protocol inside them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kits.conformance.clients import (
    AUTHORIZATION_VIOLATION,
    ServerFactory,
    library,
    message,
    monitor,
    publish,
)
from tests.kits.conformance.papers import Papers
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess, ServerProcessError
from tests.kits.websocket import Opcode, UpgradeRefused, WebSocketStream, deflate
from tests.kits.wire import WireClient

PLAIN = """
websocket {
  listen: "127.0.0.1:-1", no_tls: true
  headers { "X-Mill": "race" }
}
"""
COMPRESSING = 'websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }'


class Sockets:
    """Opens WebSockets and closes them when the test ends."""

    def __init__(self) -> None:
        self._opened: list[WebSocketStream] = []

    def stream(self, server: ServerProcess, **options: Any) -> WebSocketStream:
        stream = WebSocketStream.open(server.websocket_port, **options)
        self._opened.append(stream)
        return stream

    def join(
        self, server: ServerProcess, connect: dict[str, Any] | None = None, **options: Any
    ) -> WireClient:
        client = WireClient(self.stream(server, **options))
        client.handshake(**(connect or {}))
        return client

    def close(self) -> None:
        for stream in self._opened:
            stream.close()


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    opened = Sockets()
    yield opened
    opened.close()


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=PLAIN, monitor=True)


def stream_of(client: WireClient) -> WebSocketStream:
    assert isinstance(client.stream, WebSocketStream)
    return client.stream


# -- the upgrade ------------------------------------------------------------------------------------


def test_answer_to_an_upgrade(server: ServerProcess, sockets: Sockets) -> None:
    key = "dGhlIHNhbXBsZSBub25jZQ=="  # the example of RFC 6455, section 1.3
    stream = sockets.stream(server, headers={"Sec-WebSocket-Key": key})
    assert stream.response_headers == {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        "x-mill": "race",
    }


@pytest.mark.parametrize(
    "headers",
    [
        {"Upgrade": ""},
        {"Upgrade": "h2c"},
        {"Connection": "close"},
        {"Sec-WebSocket-Key": ""},
        {"Sec-WebSocket-Key": "c2hvcnQ="},
        {"Sec-WebSocket-Version": "8"},
        {"Sec-WebSocket-Version": ""},
    ],
)
def test_bad_upgrade(server: ServerProcess, sockets: Sockets, headers: dict[str, str]) -> None:
    with pytest.raises(UpgradeRefused) as refusal:
        sockets.stream(server, headers=headers)
    assert (refusal.value.status, refusal.value.body) == (400, "Bad Request\n")


@pytest.mark.parametrize("headers", [{"Upgrade": "WebSocket"}, {"Connection": "keep-alive, upgrade"}])
def test_upgrade_in_other_words(server: ServerProcess, sockets: Sockets, headers: dict[str, str]) -> None:
    assert sockets.join(server, headers=headers).round_trip() == b""


@pytest.mark.parametrize("path", ["/", "/any/path", "/with?query=1"])
def test_any_path(server: ServerProcess, sockets: Sockets, path: str) -> None:
    assert sockets.join(server, path=path).round_trip() == b""


# -- the protocol inside ----------------------------------------------------------------------------


def test_info_tells_the_websocket_port(server: ServerProcess, sockets: Sockets) -> None:
    client = WireClient(sockets.stream(server))
    info = client.read_info()
    assert info["client_ip"] == "127.0.0.1"
    assert "tls_required" not in info
    assert stream_of(client).data_frames[0].opcode is Opcode.BINARY


def test_publish_and_subscribe(server: ServerProcess, sockets: Sockets) -> None:
    client = sockets.join(server)
    assert client.round_trip(b"SUB ws 1\r\n" + publish("ws", b"hi")) == message("ws", 1, b"hi")


def test_websocket_and_tcp_see_each_other(server: ServerProcess, sockets: Sockets, join: Any) -> None:
    browser, plain = sockets.join(server), join(server)
    browser.round_trip(b"SUB to.browser 1\r\n")
    plain.round_trip(b"SUB to.plain 1\r\n" + publish("to.browser", b"a"))
    browser.send(publish("to.plain", b"b"))
    assert browser.read_frame() == message("to.browser", 1, b"a")
    assert plain.read_frame() == message("to.plain", 1, b"b")


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 1_000_000])
def test_payload_sizes(server: ServerProcess, sockets: Sockets, size: int) -> None:
    client = sockets.join(server)
    payload = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    assert client.round_trip(b"SUB size 1\r\n" + publish("size", payload)) == message("size", 1, payload)


def test_frames_need_not_follow_operations(server: ServerProcess, sockets: Sockets) -> None:
    client = sockets.join(server)
    for byte in b"SUB cut 1\r\nPUB cut 2\r\nhi\r\nPING\r\n":
        client.send(bytes([byte]))
    assert client.read_until_pong() == message("cut", 1, b"hi")


def test_fragmented_message(server: ServerProcess, sockets: Sockets) -> None:
    client = sockets.join(server)
    stream = stream_of(client)
    stream.send_frame(Opcode.BINARY, b"SUB fr", final=False)
    stream.send_frame(Opcode.CONTINUATION, b"ag 1\r\nPUB frag 5\r\nhe", final=False)
    stream.send_frame(Opcode.PING, b"between")
    stream.send_frame(Opcode.CONTINUATION, b"llo\r\nPING\r\n")
    assert client.read_until_pong() == message("frag", 1, b"hello")
    assert [(frame.opcode, frame.payload) for frame in stream.controls] == [(Opcode.PONG, b"between")]


def test_text_frames_are_taken_too(server: ServerProcess, sockets: Sockets) -> None:
    client = sockets.join(server)
    stream_of(client).send_frame(Opcode.TEXT, b"PING\r\n")
    assert client.read_until_pong() == b""


@pytest.mark.parametrize("payload", [b"", b"hello", b"x" * 125])
def test_ping_frame_is_answered(server: ServerProcess, sockets: Sockets, payload: bytes) -> None:
    client = sockets.join(server)
    stream = stream_of(client)
    stream.send_frame(Opcode.PING, payload)
    client.round_trip()
    assert [(frame.opcode, frame.payload) for frame in stream.controls] == [(Opcode.PONG, payload)]


def test_pong_frame_is_ignored(server: ServerProcess, sockets: Sockets) -> None:
    client = sockets.join(server)
    stream_of(client).send_frame(Opcode.PONG, b"?")
    assert client.round_trip() == b""


@pytest.mark.parametrize(("payload", "status"), [(b"\x03\xe8bye", 1000), (b"\x0f\xa0", 4000), (b"", 1005)])
def test_close_frame_is_answered(
    server: ServerProcess, sockets: Sockets, payload: bytes, status: int
) -> None:
    client = sockets.join(server)
    stream = stream_of(client)
    stream.send_frame(Opcode.CLOSE, payload)
    assert client.read_until_closed() == b""
    assert stream.controls[0].opcode is Opcode.CLOSE
    assert stream.controls[0].close_status == status


@pytest.mark.parametrize(
    "fault",
    [
        "unmasked",
        "unknown opcode",
        "reserved bit",
        "long ping",
        "split ping",
        "stray continuation",
        "compressed",
    ],
)
def test_bad_frame_ends_the_connection(server: ServerProcess, sockets: Sockets, fault: str) -> None:
    client = sockets.join(server)
    stream = stream_of(client)
    if fault == "unmasked":
        stream.masked = False
        stream.send_frame(Opcode.BINARY, b"PING\r\n")
    elif fault == "unknown opcode":
        stream.send_frame(5, b"PING\r\n")
    elif fault == "reserved bit":
        stream.send_frame(Opcode.BINARY, b"PING\r\n", reserved=0x20)
    elif fault == "long ping":
        stream.send_frame(Opcode.PING, b"x" * 126)
    elif fault == "split ping":
        stream.send_frame(Opcode.PING, b"x", final=False)
    elif fault == "stray continuation":
        stream.send_frame(Opcode.CONTINUATION, b"PING\r\n")
    else:
        stream.send_frame(Opcode.BINARY, deflate(b"PING\r\n"), compressed=True)
    assert client.read_until_closed() == b""
    # nats-server often closes the connection before its writer has sent the close frame.
    assert [frame.close_status for frame in stream.controls] in ([1002], [])


@pytest.mark.parametrize(
    ("sent", "answer", "status"),
    [
        (b"PUB foo 9999999\r\n", b"-ERR 'Maximum Payload Violation'\r\n", 1009),
        (b"SUB " + b"a" * 5000, b"-ERR 'maximum control line exceeded'\r\n", 1008),
        (b'CONNECT {"protocol":7}\r\n', b"-ERR 'invalid client protocol'\r\n", 1002),
    ],
)
def test_refused_operation_gives_a_close_frame(
    server: ServerProcess, sockets: Sockets, sent: bytes, answer: bytes, status: int
) -> None:
    client = sockets.join(server)
    client.send(sent)
    assert client.read_until_closed() == answer
    assert [frame.close_status for frame in stream_of(client).controls] == [status]


@pytest.mark.parametrize("sent", [b"FOO\r\n", b"PUB foo\r\n"])
def test_bad_operation_ends_the_connection(server: ServerProcess, sockets: Sockets, sent: bytes) -> None:
    client = sockets.join(server)
    client.send(sent)
    # As with bad frames, nats-server may be too quick to say why.
    assert client.read_until_closed() in (b"-ERR 'Unknown Protocol Operation'\r\n", b"")
    assert [frame.close_status for frame in stream_of(client).controls] in ([1002], [])


def test_shutdown_gives_a_close_frame(own_server: ServerFactory, sockets: Sockets) -> None:
    server = own_server(config=PLAIN)
    client = sockets.join(server)
    server.stop()
    assert client.read_until_closed() == b""
    assert [frame.close_status for frame in stream_of(client).controls] == [1001]


def test_masking_can_be_left_out(server: ServerProcess, sockets: Sockets) -> None:
    client = sockets.join(server, headers={"Nats-No-Masking": "true"})
    stream = stream_of(client)
    assert stream.response_headers["nats-no-masking"] == "true"
    assert not stream.masked
    assert client.round_trip(b"SUB bare 1\r\n" + publish("bare", b"x")) == message("bare", 1, b"x")


def test_connz_tells_the_kind_of_connection(server: ServerProcess, sockets: Sockets) -> None:
    client = sockets.join(server)
    (connection,) = monitor(server, f"/connz?cid={client.info['client_id']}")["connections"]
    assert (connection["kind"], connection["type"]) == ("Client", "websocket")


# -- compression ------------------------------------------------------------------------------------

OFFER = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"


def test_compression_is_not_agreed_to_unless_configured(server: ServerProcess, sockets: Sockets) -> None:
    stream = sockets.stream(server, headers={"Sec-WebSocket-Extensions": OFFER})
    assert "sec-websocket-extensions" not in stream.response_headers


def test_compression(shared_server: ServerFactory, sockets: Sockets) -> None:
    server = shared_server(config=COMPRESSING)
    client = sockets.join(server, headers={"Sec-WebSocket-Extensions": OFFER})
    stream = stream_of(client)
    assert stream.response_headers["sec-websocket-extensions"] == OFFER
    payload = b"squeeze me " * 10_000
    sent = b"SUB small 1\r\n" + publish("small", payload)
    for compress in (True, False):
        stream.compress_next = compress
        stream.data_frames.clear()
        assert client.round_trip(sent) == message("small", 1, payload)
        assert sum(len(frame.payload) for frame in stream.data_frames) < len(payload) / 10
        sent = publish("small", payload)


def test_compressed_fragments(shared_server: ServerFactory, sockets: Sockets) -> None:
    server = shared_server(config=COMPRESSING)
    client = sockets.join(server, headers={"Sec-WebSocket-Extensions": OFFER})
    stream = stream_of(client)
    block = deflate(b"SUB bits 1\r\n" + publish("bits", b"hello") + b"PING\r\n")
    stream.send_frame(Opcode.BINARY, block[:5], final=False, compressed=True)
    stream.send_frame(Opcode.CONTINUATION, block[5:])
    assert client.read_until_pong() == message("bits", 1, b"hello")


def test_broken_compression_ends_the_connection(shared_server: ServerFactory, sockets: Sockets) -> None:
    server = shared_server(config=COMPRESSING)
    client = sockets.join(server, headers={"Sec-WebSocket-Extensions": OFFER})
    stream_of(client).send_frame(Opcode.BINARY, b"\xff\xff\xff not deflate", compressed=True)
    assert b"PONG" not in client.read_until_closed()


def test_client_without_compression_is_sent_plain_frames(
    shared_server: ServerFactory, sockets: Sockets
) -> None:
    server = shared_server(config=COMPRESSING)
    client = sockets.join(server)
    stream = stream_of(client)
    payload = b"a" * 10_000
    assert client.round_trip(b"SUB p 1\r\n" + publish("p", payload)) == message("p", 1, payload)
    assert not any(frame.compressed for frame in stream.data_frames)


# -- origins ----------------------------------------------------------------------------------------

ORIGINS = """websocket {
  listen: "127.0.0.1:-1", no_tls: true
  allowed_origins: ["http://good.example.com", "https://safe.example.com:8443"]
}"""


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("", True),
        ("http://good.example.com", True),
        ("http://good.example.com:80", True),
        ("http://good.example.com:81", False),
        ("https://good.example.com", False),
        ("https://safe.example.com:8443", True),
        ("http://bad.example.com", False),
    ],
)
def test_allowed_origins(shared_server: ServerFactory, sockets: Sockets, origin: str, allowed: bool) -> None:
    server = shared_server(config=ORIGINS)
    if allowed:
        assert sockets.join(server, headers={"Origin": origin}).round_trip() == b""
        return
    with pytest.raises(UpgradeRefused) as refusal:
        sockets.stream(server, headers={"Origin": origin})
    assert (refusal.value.status, refusal.value.body) == (403, "Forbidden\n")


@pytest.mark.parametrize(("own_port", "allowed"), [(True, True), (False, False)])
def test_same_origin(shared_server: ServerFactory, sockets: Sockets, own_port: bool, allowed: bool) -> None:
    server = shared_server(config='websocket { listen: "127.0.0.1:-1", no_tls: true, same_origin: true }')
    port = server.websocket_port if own_port else server.websocket_port + 1
    origin = {"Origin": f"http://127.0.0.1:{port}"}
    if allowed:
        assert sockets.join(server, headers=origin).round_trip() == b""
    else:
        with pytest.raises(UpgradeRefused) as refusal:
            sockets.stream(server, headers=origin)
        assert refusal.value.status == 403


# -- who it is --------------------------------------------------------------------------------------

USERS = """
authorization { users: [
  { user: any, password: p }
  { user: web, password: p, allowed_connection_types: [WEBSOCKET] }
  { user: tcp, password: p, allowed_connection_types: [STANDARD] }
] }
websocket {
  listen: "127.0.0.1:-1", no_tls: true
  user_cookie: "who", pass_cookie: "word", token_cookie: "tok"
}
"""
GUEST = """
authorization { users: [
  { user: any, password: p }
  { user: guest, password: g, permissions: { publish: guest } }
] }
websocket { listen: "127.0.0.1:-1", no_tls: true, no_auth_user: guest }
"""


@pytest.mark.parametrize(("user", "allowed"), [("any", True), ("web", True), ("tcp", False)])
def test_connection_types(shared_server: ServerFactory, sockets: Sockets, user: str, allowed: bool) -> None:
    client = WireClient(sockets.stream(shared_server(config=USERS)))
    client.read_info()
    client.send_connect(user=user, **{"pass": "p"})
    client.send(b"PING\r\n")
    if allowed:
        assert client.read_until_pong() == b""
    else:
        assert client.read_until_closed() == AUTHORIZATION_VIOLATION
        assert [frame.close_status for frame in stream_of(client).controls] == [1008]


@pytest.mark.parametrize(("cookie", "allowed"), [("who=web; word=p", True), ("who=web; word=wrong", False)])
def test_credentials_from_cookies(
    shared_server: ServerFactory, sockets: Sockets, cookie: str, allowed: bool
) -> None:
    client = WireClient(sockets.stream(shared_server(config=USERS), headers={"Cookie": cookie}))
    client.read_info()
    client.send_connect()
    client.send(b"PING\r\n")
    if allowed:
        assert client.read_until_pong() == b""
    else:
        assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_connect_beats_cookies(shared_server: ServerFactory, sockets: Sockets) -> None:
    server = shared_server(config=USERS)
    client = sockets.join(server, {"user": "any", "pass": "p"}, headers={"Cookie": "who=web; word=wrong"})
    assert client.round_trip() == b""


def test_guests_of_the_websocket_only(shared_server: ServerFactory, sockets: Sockets, dial: Any) -> None:
    server = shared_server(config=GUEST)
    client = sockets.join(server)
    assert client.round_trip(publish("guest")) == b""
    assert b"Permissions Violation" in client.round_trip(publish("other"))
    plain = dial(server)
    plain.read_info()
    plain.send_connect()
    assert plain.read_until_closed() == AUTHORIZATION_VIOLATION


def test_token_from_a_cookie(shared_server: ServerFactory, sockets: Sockets) -> None:
    server = shared_server(
        config="authorization { token: s3cret }\n"
        'websocket { listen: "127.0.0.1:-1", no_tls: true, token_cookie: tok }'
    )
    assert sockets.join(server, headers={"Cookie": "other=1; tok=s3cret"}).round_trip() == b""


# -- TLS and a client library -----------------------------------------------------------------------


@pytest.fixture
def secure(shared_server: ServerFactory, papers: Papers) -> ServerProcess:
    return shared_server(config=f'websocket {{ listen: "127.0.0.1:-1"\n {papers.tls()} }}')


def test_over_tls(secure: ServerProcess, sockets: Sockets, papers: Papers) -> None:
    client = sockets.join(secure, context=papers.context())
    payload = b"x" * 100_000
    assert client.round_trip(b"SUB wss 1\r\n" + publish("wss", payload)) == message("wss", 1, payload)


def test_tls_or_no_tls_must_be_said(own_server: ServerFactory) -> None:
    with pytest.raises(ServerProcessError, match=r"(?i)tls"):
        own_server(config='websocket { listen: "127.0.0.1:-1" }')


# The library gives aiohttp a timeout in a form that aiohttp is about to drop.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:nats")
@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_library(server: ServerProcess, secure: ServerProcess, papers: Papers, scheme: str) -> None:
    where = server if scheme == "ws" else secure
    options: dict[str, Any] = {"tls": papers.context()} if scheme == "wss" else {}
    connection = await library(f"{scheme}://127.0.0.1:{where.websocket_port}", **options)
    subscription = await connection.subscribe("library")
    for number in range(100):
        await connection.publish("library", b"%d" % number)
    received = [(await subscription.next_msg(timeout=PATIENCE_S)).data for _ in range(100)]
    assert received == [b"%d" % number for number in range(100)]
    await connection.close()
