"""The HTTP server itself, with a handler that echoes."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from millstream.server.monitor import http
from millstream.server.monitor.http import HttpServer, MonitorRequest, MonitorResponse, Timeouts, plain
from tests.kits.patience import PATIENCE_S


async def echo(request: MonitorRequest) -> MonitorResponse:
    if request.path == "/broken":
        raise RuntimeError("no such luck")
    if request.path == "/big":
        return MonitorResponse(200, "text/plain", [b"x" * 1000] * 20_000)
    return MonitorResponse(
        200, "text/plain", [request.method.encode(), b" ", request.path.encode()], [("X-Q", request.query)]
    )


@asynccontextmanager
async def serving(timeouts: Timeouts | None = None) -> AsyncIterator[int]:
    sock = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(echo, timeouts or Timeouts())
    await server.start([sock], None)
    try:
        yield sock.getsockname()[1]
    finally:
        await server.stop()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def read_response(
    reader: asyncio.StreamReader, *, body: bool = True
) -> tuple[bytes, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    size = int(headers["content-length"]) if body else 0
    return head[0].encode(), headers, await reader.readexactly(size)


async def exchange(port: int, request: bytes) -> bytes:
    """Send a request and return everything the server sends until it closes the connection."""
    async with connected(port) as (reader, writer):
        writer.write(request)
        return await reader.read()


async def test_a_request_is_answered_with_length_and_date() -> None:
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"GET /a/b?c=d HTTP/1.1\r\nHost: x\r\n\r\n")
        status, headers, body = await read_response(reader)
    assert status == b"HTTP/1.1 200 OK"
    assert body == b"GET /a/b"
    assert headers["x-q"] == "c=d"
    assert headers["date"].endswith("gmt")


async def test_a_connection_serves_many_requests_even_if_sent_at_once() -> None:
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(50)))
        bodies = [(await read_response(reader))[2] for _ in range(50)]
    assert bodies == [b"GET /%d" % number for number in range(50)]


async def test_head_gets_the_length_but_no_body() -> None:
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"HEAD /abc HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n")
        _, headers, _ = await read_response(reader, body=False)
        assert headers["content-length"] == str(len(b"HEAD /abc"))
        assert (await read_response(reader))[2] == b"GET /next"


async def test_a_body_is_read_and_forgotten() -> None:
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
        writer.write(b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await read_response(reader))[2] == b"POST /a"
        assert (await read_response(reader))[2] == b"GET /b"


async def test_a_body_without_end_ends_the_connection() -> None:
    async with serving(Timeouts(close=0.1)) as port, connected(port) as (reader, writer):
        writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        assert (await read_response(reader))[2] == b"POST /a"
        try:
            while not reader.at_eof():
                writer.write(b"x" * 65536)
                await writer.drain()
                await asyncio.sleep(0)
        except OSError:
            pass


async def test_who_waits_for_a_hundred_gets_the_answer_right_away() -> None:
    async with serving() as port:
        answer = await exchange(
            port, b"PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
        )
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"PUT /a")


@pytest.mark.parametrize(
    "request_text",
    [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"],
)
async def test_hangs_up_when_asked_to(request_text: bytes) -> None:
    async with serving() as port:
        assert (await exchange(port, request_text)).endswith(b"GET /")


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400 Bad Request"),  # no host
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"400 Bad Request"),
        (
            b"GET / HTTP/1.1\r\nHost: " + b"x" * 3 * http.MAX_HEAD + b"\r\n\r\n",
            b"431 Request Header Fields Too Large",
        ),
    ],
)
async def test_what_is_no_request_is_refused(request_text: bytes, status: bytes) -> None:
    async with serving(Timeouts(close=0.1)) as port:
        answer = await exchange(port, request_text)
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert b"Connection: close\r\n" in answer


async def test_a_handler_that_fails_costs_only_its_own_request(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as port, connected(port) as (reader, writer):
        with caplog.at_level(logging.ERROR, logger="millstream.monitor"):
            writer.write(b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\nGET /fine HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await read_response(reader))[0] == b"HTTP/1.1 500 Internal Server Error"
            assert (await read_response(reader))[2] == b"GET /fine"
    assert "no such luck" in caplog.text


async def test_who_says_nothing_is_cut_off() -> None:
    async with serving(Timeouts(head=0.05)) as port:
        assert await exchange(port, b"") == b""


async def test_who_never_ends_a_head_is_cut_off() -> None:
    async with serving(Timeouts(head=0.05)) as port:
        assert await exchange(port, b"GET / HTTP/1.1\r\nHost") == b""


async def test_who_stays_idle_is_cut_off() -> None:
    async with serving(Timeouts(idle=0.05)) as port:
        assert (await exchange(port, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")).endswith(b"GET /a")


async def test_who_does_not_read_is_cut_off() -> None:
    async with serving(Timeouts(write=0.05, close=0.05)) as port, connected(port) as (reader, writer):
        writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(_until_reset(writer), timeout=PATIENCE_S)
        received = 0
        try:
            while data := await reader.read(1 << 20):
                received += len(data)
        except OSError:
            pass
    assert received < 20_000_000


async def _until_reset(writer: asyncio.StreamWriter) -> None:
    """Poke the connection until the peer has closed it."""
    try:
        while True:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)
    except OSError:
        return


async def test_a_slow_client_does_not_hold_up_others() -> None:
    async with serving(Timeouts(head=60)) as port, connected(port) as (_, slow):
        slow.write(b"GET / HTTP/1.1\r\n")
        answers = await asyncio.gather(*(exchange(port, b"GET /%d HTTP/1.0\r\n\r\n" % n) for n in range(200)))
    assert [answer.rpartition(b" ")[2] for answer in answers] == [b"/%d" % n for n in range(200)]


async def test_too_many_clients_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CLIENTS", 1)
    async with serving() as port, connected(port) as (reader, writer):
        writer.write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await read_response(reader))[2] == b"GET /a"
        with suppress(OSError):  # a reset, or the mere end: it depends on who is faster
            assert await exchange(port, b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n") == b""
        writer.write(b"GET /c HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await read_response(reader))[2] == b"GET /c"


async def test_stopping_cuts_off_whoever_is_connected() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        await read_response(reader)
    with suppress(OSError):
        assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


def test_plain_text_says_so() -> None:
    assert plain(404, "no").content_type == "text/plain; charset=utf-8"
