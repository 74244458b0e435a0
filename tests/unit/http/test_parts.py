"""The router and static files, and WebSockets as peers see them."""

import asyncio
import zlib
from pathlib import Path

import pytest
import websockets

from millstream.http.answers import http_date
from millstream.http.router import BadPath, NoRoute, Router, WrongMethod, allowed
from millstream.http.static import NotServable, StaticFiles
from tests.kits.http import connected, raw, rest_of, serving, until
from tests.kits.patience import PATIENCE_S

HANDSHAKE = (
    b"GET %b HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%b\r\n"
)
DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate\r\n"


def _router(**options: object) -> Router[str]:
    router: Router[str] = Router(**options)  # type: ignore[arg-type]
    for method, template in (
        ("GET", "/a"),
        ("POST", "/a"),
        ("GET", "/a/{x}"),
        ("GET", "/a/{x}/b"),
        ("POST", "/s/{subject}"),
        ("WEBSOCKET", "/w"),
    ):
        router.add(method, template, f"{method} {template}")
    return router


@pytest.mark.parametrize(
    ("method", "path", "target", "values"),
    [
        ("GET", "/a", "GET /a", ()),
        ("HEAD", "/a", "GET /a", ()),
        ("GET", "/a/1%2F2", "GET /a/{x}", ("1/2",)),
        ("GET", "/a/%C3%BC/b", "GET /a/{x}/b", ("ü",)),
        ("POST", "/s/a/b/c", "POST /s/{subject}", ("a/b/c",)),
        ("POST", "/s/a%2Eb", "POST /s/{subject}", ("a.b",)),
    ],
)
def test_paths_are_found_as_they_were_sent(
    method: str, path: str, target: str, values: tuple[str, ...]
) -> None:
    found = _router(rest="subject", encoded_slashes=True).find(method, path)
    assert (found.target, found.values) == (target, values)


@pytest.mark.parametrize("path", ["", "/", "/b", "/a/", "//a", "/a//b", "/s/", "/a/1/c"])
def test_other_paths_are_not(path: str) -> None:
    with pytest.raises(NoRoute):
        _router(rest="subject").find("GET", path)


def test_paths_of_other_methods_and_other_characters_are_told_apart() -> None:
    with pytest.raises(WrongMethod) as wrong:
        _router().find("PUT", "/a")
    assert allowed(wrong.value.methods) == ("GET", "HEAD", "POST")
    with pytest.raises(BadPath):
        _router().find("GET", "/a/%ff")
    with pytest.raises(NoRoute):
        _router().find("GET", "/a/1%2F2")


def test_dates_are_those_of_http_whatever_the_locale() -> None:
    assert http_date(784111777) == b"Sun, 06 Nov 1994 08:49:37 GMT"


def test_only_the_files_of_a_folder_are_served(tmp_path: Path) -> None:
    folder = tmp_path / "ui"
    (folder / "js").mkdir(parents=True)
    (folder / "index.html").write_text("<p>hello</p>")
    (folder / "js" / "app.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    files = StaticFiles(folder)
    assert files.find("/") is files.find("/index.html") is not None
    for path in ("../secret.txt", "/../secret.txt", "/link.txt", "/js", "/js/../index.html", "/nothing"):
        assert files.find(path) is None
    page = files.find("/")
    assert page is not None
    status, headers, body = files.answer(page, b"")
    named = dict(headers)
    assert (status, body) == (200, b"<p>hello</p>")
    assert named[b"content-type"] == b"text/html; charset=utf-8"
    assert b"unsafe" not in named[b"content-security-policy"]
    assert named[b"x-content-type-options"] == b"nosniff"
    assert files.answer(page, b'"x", W/' + named[b"etag"])[0] == 304
    assert files.answer(page, b'"x"')[0] == 200
    (folder / "program.exe").write_text("x")
    with pytest.raises(NotServable, match=r"program\.exe"):
        StaticFiles(folder)


# -- WebSockets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_messages_go_both_ways(compression: str | None) -> None:
    async with serving(max_message=200_000) as site:
        url = f"ws://127.0.0.1:{site.port}/ws"
        async with websockets.connect(url, compression=compression) as socket:
            assert socket.response is not None
            assert socket.response.headers["x-made-by"] == "test"
            for text in ("", "ü", "x" * 150_000):
                await socket.send(text)
                assert await socket.recv() == text
            await socket.send(["in ", "pieces"])
            assert await socket.recv() == "in pieces"
            await socket.send(b"bytes")
            assert await socket.recv() == "b'bytes'"
            pong = await socket.ping()
            async with asyncio.timeout(PATIENCE_S):
                await pong
        async with asyncio.timeout(PATIENCE_S):
            await site.gone.wait()


async def test_a_message_has_a_bound_also_when_it_was_compressed() -> None:
    async with serving(max_message=1000) as site:
        async with websockets.connect(f"ws://127.0.0.1:{site.port}/ws") as socket:
            await socket.send("x" * 1000)
            await socket.recv()
            await socket.send("x" * 1001)
            async with asyncio.timeout(PATIENCE_S):
                await socket.wait_closed()
            assert socket.close_code == 1009
        async with connected(site.port) as (reader, writer):
            writer.write(HANDSHAKE % (b"/ws", DEFLATE))
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            packer = zlib.compressobj(wbits=-15)
            bomb = (packer.compress(b"x" * 300_000_000) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
            writer.write(b"\xc1\xff" + len(bomb).to_bytes(8, "big") + b"\0\0\0\0" + bomb)
            assert (await rest_of(reader))[2:4] == (1009).to_bytes(2, "big")


async def test_messages_that_nobody_reads_hold_the_sender_back() -> None:
    async with serving() as site, connected(site.port) as (reader, writer):
        writer.write(HANDSHAKE % (b"/unread", b""))
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"\r\n\r\n")
        writer.write((b"\x81\xfe\x10\x00\0\0\0\0" + b"x" * 4096) * 20_000)
        (line,) = site.listener._lines
        await until(lambda: not line._reads)  # type: ignore[attr-defined]
        assert line._waiting < 1_000_000  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HANDSHAKE % (b"/denied", b""), b"404"),
        (HANDSHAKE.replace(b"Sec-WebSocket-Key", b"X-Key") % (b"/ws", b""), b"400"),
        (HANDSHAKE.replace(b"13", b"12") % (b"/ws", b""), b"4"),
    ],
)
async def test_a_handshake_that_is_refused_has_an_answer_of_http(sent: bytes, status: bytes) -> None:
    async with serving() as site:
        assert (await raw(site.port, sent)).startswith(b"HTTP/1.1 " + status)


async def test_frames_that_break_the_rules_end_the_socket() -> None:
    async with serving() as site, connected(site.port) as (reader, writer):
        writer.write(HANDSHAKE % (b"/ws", b""))
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\x01x")  # not masked
        assert (await rest_of(reader))[:1] == b"\x88"
        async with asyncio.timeout(PATIENCE_S):
            await site.gone.wait()


async def test_where_there_are_no_websockets_the_request_is_one_like_others() -> None:
    async with serving(websockets=False) as site:
        told = await raw(site.port, HANDSHAKE % (b"/ws", b"") + b"GET /b HTTP/1.0\r\n\r\n")
        assert told.startswith(b"HTTP/1.1 200 ")
        assert b"GET /ws" in told
        assert b"GET /b" in told
