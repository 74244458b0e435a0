"""HTTP: upgrades to WebSockets, targets of the Arrow endpoint, the monitor, and callers of the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from typing import Any

import h2.connection

from millstream.broker.options import WebSocketOptions
from millstream.broker.websocket_upgrade import Refusal, RequestReader, Upgrader
from millstream.gateway.auth import Authenticator
from millstream.gateway.errors import GatewayError
from millstream.gateway.settings import Auth
from millstream.gateway.v1.bodies import Fields
from millstream.gateway.v2 import (
    batch,
    calls,
    consumers,
    live,
    message_headers,
    messages,
    names,
    publish_routes,
    socket,
    streams,
)
from millstream.gateway.v2.payload import PayloadForm, body_of, stored_message, to_json
from millstream.http.asgi import Receive, Scope, Send
from millstream.http.head import Head, ResponseHead, ResponseReader
from millstream.http.http1 import Http1
from millstream.http.limits import HttpLimits
from millstream.http.line import Line
from millstream.http.listener import HttpListener
from millstream.protocol.headers import make_text, read_pairs
from millstream.server.arrow.query import read_target
from millstream.server.monitor.queries import BadQuery, Query
from tests.fuzz.targets.client_protocol import cuts

_QUERIES: tuple[Any, ...] = (
    batch.BatchQuery, consumers.ConsumersQuery, live.StreamQuery, live.ConsumerQuery, messages.OneQuery,
    messages.LastQuery,
    messages.NextQuery, messages.PageQuery, messages.DeleteQuery, publish_routes.PublishQuery,
    publish_routes.RequestQuery,
    socket.SocketQuery, streams.StreamsQuery, streams.SubjectsQuery,
)  # fmt: skip
HTTP_WORDS = (
    b"\r\n", b"\n", b": ", b"GET / HTTP/1.1\r\n", b"Host: a\r\n", b"Upgrade: websocket\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n", b"Origin: null\r\n", b"%", b"%00", b"%ff", b"?", b"&", b"=", b"0\r\n\r\n",
    b"Connection: Upgrade\r\n",
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n", b"Cookie: a=b\r\n", b"http://", b"[::1]:80",
)  # fmt: skip
QUERY_WORDS = (
    b"&", b"=", b"%", b"%00", b"%ff", b"+", b"subject=", b"limit=", b"from=", b"seq=", b"time=", b"form=json",
    b"results=all", b"a.>", b"1",
)  # fmt: skip


def answer_seeds() -> Iterator[bytes]:
    yield b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nINFO {}\r\n"
    yield b"HTTP/1.0 407 Proxy Authentication Required\r\nA: b\r\na:c\r\n\r\n"


def check_answer(data: bytes) -> Hashable:
    """An answer means the same however it is cut."""

    def read(pieces: tuple[bytes, ...]) -> ResponseHead | None:
        reader, rest = ResponseReader(500), list(pieces)
        while rest:
            answer = reader.feed(rest.pop(0))
            if answer is not None:
                return ResponseHead(answer.status, answer.line, answer.headers, answer.rest + b"".join(rest))
        return None

    try:
        expected = read((data,))
    except ValueError:
        return "refused"
    for pair in cuts(data, 40):
        assert read(pair) == expected
    return expected is None or (expected.status, len(expected.headers))


def upgrade_seeds() -> Iterator[bytes]:
    yield (
        b"\x00GET /chat?x=1 HTTP/1.1\r\nHost: a.example:80\r\nUpgrade: websocket\r\nConnection: "
        b"keep-alive, Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nOrigin: "
        b"http://a.example\r\n"
        b"Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover\r\nNats-No-Masking: "
        b"true\r\n"
        b"X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\nCookie: u=me; p=secret; jwt=x\r\n\r\n"
    )
    yield b"\x01GET http://[::1]:80/ HTTP/1.0\r\nUpgrade: websocket\r\n\r\n"


_UPGRADERS = (
    Upgrader(WebSocketOptions(compression=True)),
    Upgrader(
        WebSocketOptions(
            same_origin=True, allowed_origins=("https://a.example",), user_cookie="u", token_cookie="jwt"
        )
    ),
)


def check_upgrade(data: bytes) -> Hashable:
    """A head becomes an upgrade or a refusal, whose text is one HTTP answer and no more."""
    if not data:
        return None
    choice, text = data[0], data[1:]
    found = RequestReader().feed(text)
    reader = RequestReader()
    last = None
    for place in range(len(text)):
        last = reader.feed(text[place : place + 1])
        if last is not None:
            break
    assert (found is None) == (last is None)
    if isinstance(found, Head):
        judged = _UPGRADERS[choice & 1].judge(found, secure=bool(choice & 2))
        found = judged if isinstance(judged, Refusal) else None
        if not isinstance(judged, Refusal):
            assert judged.response.count(b"\r\n\r\n") == 1
            return "upgraded", judged.compressed
    if isinstance(found, Refusal):
        answer = found.response("today")
        assert b"\n\n" not in answer.replace(b"\r", b"")[:-1].partition(b"\n\n")[0]
        return found.reason[:30]
    return None


def target_seeds() -> Iterator[bytes]:
    yield b"/arrow/v1/streams/ORDERS?from=1&to=1000&subjects=orders.eu,orders.us&columns=seq,data"
    yield b"/arrow/v1/streams/a%20b?columns=headers_raw&subjects=a%2Cb.%3E"


def check_target(data: bytes) -> Hashable:
    query = read_target(data.decode("latin-1"))
    assert "/" not in query.stream
    return query.columns, len(query.subjects), query.last is None


_PIECE = 64  # bytes that come at once


class _Peer(asyncio.Transport):
    """A client that takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over

    def get_write_buffer_size(self) -> int:
        return 0

    abort = write_eof = close
    set_protocol = set_write_buffer_limits = lambda self, *_, **__: None
    pause_reading = resume_reading = lambda self: None


def http_seeds() -> Iterator[bytes]:
    yield (
        b"GET /varz HTTP/1.1\r\nHost: a\r\n\r\nGET /connz?limit=1 HTTP/1.1\r\nHost: a\r\nConnection: "
        b"close\r\n\r\n"
    )
    yield (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        b"HEAD / HTTP/1.0\r\n\r\n"
    )
    yield b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"
    yield b"PUT / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 3\r\n\r\nabc"
    client = h2.connection.H2Connection()
    client.initiate_connection()
    pairs = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "a")]
    client.send_headers(1, pairs)
    client.send_data(1, b"hello", end_stream=True)
    client.ping(b"12345678")
    client.send_headers(3, pairs, end_stream=True)
    client.reset_stream(3)
    yield client.data_to_send()
    head = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += b"Sec-WebSocket-Version: 13\r\n"
    head += (
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate\r\nX: "
    )
    head += b"x" * (-(len(head) + 4) % _PIECE) + b"\r\n\r\n"
    yield head + b"\x81\x82\0\0\0\0hi\x89\x80\0\0\0\0\x88\x80\0\0\0\0"


async def _application(scope: Scope, receive: Receive, send: Send) -> None:
    """Read everything, answer, and echo over WebSockets."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "bytes": b"x"})
        return
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.request":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


def _asked(text: str) -> str:
    """Read the parameters of a page of the monitor."""
    try:
        query = Query(text)
        return (
            f"{query.text('state')} {query.boolean('subs')} {query.integer('limit')} {query.unsigned('cid')}"
        )
    except BadQuery as error:
        return str(error)[:40]


class _Taking(Http1):
    """Leaves what another protocol is to read to that one, as a transport would."""

    def hand_over(self, other: Line) -> None:
        super().hand_over(other)
        self.other = other


async def _served(data: bytes) -> bytes:
    listener = HttpListener(_application, HttpLimits(linger_s=0.001), h2c_upgrade=True)
    listener.loop = asyncio.get_running_loop()
    listener.time = listener.loop.time
    peer, line = _Peer(), _Taking(listener)
    line.connection_made(peer)
    reader: Line = line
    for at in range(0, len(data), _PIECE):
        if not peer.is_over:
            reader.data_received(data[at : at + _PIECE])
            reader = getattr(line, "other", line)
            for _ in range(3):
                await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    reader.connection_lost(None)
    assert not listener._lines
    if listener._tasks:
        await asyncio.wait(listener._tasks)
    return bytes(peer.sent)


def check_http(data: bytes) -> Hashable:
    """The HTTP floor answers any bytes, forgets the connection, and leaves no task behind."""
    sent = _LOOP.run_until_complete(_served(data))
    return len(sent.split(b"HTTP/1.1 ")), sent[9:12]


_LOOP = asyncio.new_event_loop()


def query_seeds() -> Iterator[bytes]:
    yield from (
        b"",
        b"limit=5&from=3&subject=a.>",
        b"subject=a&subject=b",
        b"results=failures&subject=x",
        b"time=2024-01-01T00:00:00Z",
    )
    yield b"timeout=5&form=json&ack=none&batch=10&expires=5&seq=5&last=true&force=1"


def check_query(data: bytes) -> Hashable:
    """Parameters become a query of any route, or 400."""
    did = []
    for kind in _QUERIES:
        try:
            calls.read_query(kind, data)
            did.append("")
        except GatewayError as error:
            did.append(str(error)[:20])
    return tuple(did), _asked(data.decode("latin-1"))[:12]


def body_seeds() -> Iterator[bytes]:
    yield b'{"subject":"a.b","data":"x","headers":{"A":"b","C":["d","e"]},"msg_id":"1"}'
    yield b'{"subject":"a","json":{"x":[1,2.5,null]}}'
    yield b'{"subject":"a","base64":"aGVsbG8="}'
    yield b'{"name":"S","subjects":["a"],"max_age":5,"MAX_MSGS":1e3} trailing'


def check_body(data: bytes) -> Hashable:
    """A line of a batch, and the body of a request of v1: read, or 400."""
    did: list[str] = []
    line = batch._decoded(data)
    if isinstance(line, batch.BatchLine):
        try:
            names.check_subject(line.subject)
            pairs = [] if line.headers is batch._UNSET else message_headers.from_json(line.headers)
            block = make_text(pairs)
            assert block.count(b"\r\n") == (len(pairs) + 2 if pairs else 0)
            assert read_pairs(block) == [(name, value.strip()) for name, value in pairs]
            body_of(line.data, line.json, line.base64)
        except GatewayError as error:
            did.append(str(error)[:20])
    for form in PayloadForm:
        found = to_json(stored_message("S", 1, "a", "t", {}, data[:3000], form))
        assert b"\n" not in found
    fields = Fields(data)
    fields.text("name")
    fields.texts("subjects")
    fields.integer("max_age")
    fields.unsigned("max_msgs")
    return tuple(did)


def gateway_header_seeds() -> Iterator[bytes]:
    yield b"nats-msg-id: 1\nmillstream-header-trace: abc\nauthorization: Basic dTpw\nx: y"
    yield b"authorization: Bearer token\nnats-ttl: 5s"
    yield b"authorization: Nkey SUAOY5JZ2WJKVR4UO2KJ2P3SW6FZFNWEOIMAXF4WZEUNVQXXUOKGM55CYE"


def check_gateway_headers(data: bytes) -> Hashable:
    """Headers of a request become those of a message, each on its own line; credentials are read or "
    "refused."""
    raw = [line.partition(b": ")[::2] for line in data.split(b"\n")[:50]]
    pairs = message_headers.from_http((name.lower(), value) for name, value in raw)
    block = make_text(pairs)
    assert block.count(b"\r\n") == (len(pairs) + 2 if pairs else 0)
    message_headers.to_http(read_pairs(block))
    who = []
    for name, value in raw:
        if name == b"authorization":
            who.append(bool(Authenticator(Auth()).caller_of(value.decode("latin-1")).credentials))
    return len(pairs), tuple(who)
