"""An application with a path for everything, a listener in front of it, and peers that say what they like."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import hpack
from hyperframe.frame import Frame, HeadersFrame, SettingsFrame

from millstream.http.asgi import CALLER, Application, Receive, Scope, Send
from millstream.http.http1 import PREFACE
from millstream.http.limits import HttpLimits
from millstream.http.listener import HttpListener
from tests.kits.patience import PATIENCE_S


class Site:
    """A listener, its application, and a clock that can be moved."""

    def __init__(self, **options: Any) -> None:
        rules = {
            name: options.pop(name) for name in ("http2", "h2c_upgrade", "websockets") if name in options
        }
        application: Application = options.pop("application", self.serve)
        self.listener = HttpListener(application, HttpLimits(**options), **rules)
        self.began = 0  # requests
        self.gone = asyncio.Event()  # a caller of /hold left
        self.release = asyncio.Event()  # lets /hold answer
        self.taken = 0  # bytes of bodies that were read
        self.written = 0  # pieces of streams
        self._offset = 0.0

    async def start(self) -> None:
        await self.listener.start([socket.create_server(("127.0.0.1", 0))])
        self.listener.time = lambda: self.listener.loop.time() + self._offset

    @property
    def port(self) -> int:
        return self.listener.address[1]

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._offset += seconds
        self.listener.sweep(self.listener.time())

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began += 1
        path = scope["path"]
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        match path:
            case "/early":
                await answer(send, b"early", status=404)
            case "/fail":
                raise RuntimeError("no such luck")
            case "/cut":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"half", "more_body": True})
                raise RuntimeError("no such luck")
            case "/hold":
                scope["extensions"][CALLER].when_gone(self.gone.set)
                await self.release.wait()
                await answer(send, b"held")
            case "/big":
                await answer(send, b"x" * int(scope["query_string"]))
            case "/stream":
                await self._stream(send, int(scope["query_string"]))
            case "/unread":
                await receive()
                await self.release.wait()
                await self._echo(scope, receive, send)
            case _:
                await self._echo(scope, receive, send)

    async def _stream(self, send: Send, pieces: int) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(pieces):
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            self.written += 1
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})

    async def _echo(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone.set()
                return
            body += message["body"]
            self.taken = len(body)
            if not message["more_body"]:
                break
        told = f"{scope['method']} {scope['path']} {scope['query_string'].decode()} ".encode() + body
        await answer(send, told)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "websocket.connect"
        if scope["path"] == "/denied":
            denial = "websocket.http.response"
            await send({"type": f"{denial}.start", "status": 404, "headers": [(b"content-length", b"2")]})
            await send({"type": f"{denial}.body", "body": b"no"})
            return
        await send({"type": "websocket.accept", "headers": [(b"x-made-by", b"test")]})
        if scope["path"] == "/unread":
            await self.release.wait()
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            text = str(message["bytes"]) if text is None else text
            await send({"type": "websocket.send", "text": text})
        self.gone.set()


async def answer(send: Send, body: bytes, status: int = 200) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Site]:
    site = Site(**options)
    await site.start()
    try:
        yield site
    finally:
        site.release.set()
        await site.listener.stop(1)


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def raw(port: int, *sent: bytes) -> bytes:
    """Return all bytes that a connection sends until it ends."""
    async with connected(port) as (reader, writer):
        for part in sent:
            writer.write(part)
        return await rest_of(reader)


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    data = bytearray()
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            while more := await reader.read(1 << 16):
                data += more
    return bytes(data)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


REQUEST = ((":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "here"))


class Peer:
    """HTTP/2 frame by frame; nothing is checked on this side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._received = b""
        self._heads: dict[int, dict[Any, Any]] = {}
        self.frames: list[Frame] = []

    def greet(self, **settings: int) -> None:
        codes = {getattr(SettingsFrame, name): value for name, value in settings.items()}
        self.writer.write(PREFACE)
        self.send(SettingsFrame(0, settings=codes))

    def send(self, *frames: Frame | bytes) -> None:
        self.writer.write(b"".join(each if isinstance(each, bytes) else each.serialize() for each in frames))

    def headers(
        self, stream: int, pairs: Any = REQUEST, *, end: bool = True, whole: bool = True
    ) -> HeadersFrame:
        frame = HeadersFrame(stream, data=self.encoder.encode(list(pairs)))
        if end:
            frame.flags.add("END_STREAM")
        if whole:
            frame.flags.add("END_HEADERS")
        return frame

    def ask(self, stream: int, path: str = "/", method: str = "GET", *, end: bool = True) -> None:
        pairs = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "here")]
        self.send(self.headers(stream, pairs, end=end))

    async def next(self) -> Frame | None:
        """The next frame; None if the connection ended."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if len(self._received) >= 9:
                    frame, size = Frame.parse_frame_header(memoryview(self._received[:9]))
                    if len(self._received) >= 9 + size:
                        frame.parse_body(memoryview(self._received[9 : 9 + size]))
                        self._received = self._received[9 + size :]
                        self.frames.append(frame)
                        if isinstance(frame, HeadersFrame):
                            self._heads[frame.stream_id] = dict(self._decoder.decode(frame.data))
                        return frame
                try:
                    data = await self.reader.read(1 << 16)
                except ConnectionError:
                    return None
                if not data:
                    return None
                self._received += data

    async def until(self, kind: type[Frame], stream: int | None = None) -> Any:
        """The next frame of a kind; None if the connection ended before."""
        while (frame := await self.next()) is not None:
            if isinstance(frame, kind) and stream in (None, frame.stream_id):
                return frame
        return None

    def status(self, frame: HeadersFrame) -> str:
        return str(self._heads[frame.stream_id][":status"])


@contextlib.asynccontextmanager
async def peering(port: int, **settings: int) -> AsyncIterator[Peer]:
    async with connected(port) as (reader, writer):
        peer = Peer(reader, writer)
        peer.greet(**settings)
        yield peer
