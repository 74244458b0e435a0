"""Time-outs on both versions: slow heads and bodies, answers that nobody reads, silence."""

import asyncio
from collections.abc import Callable

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, RstStreamFrame

from millstream.http.http1 import PREFACE
from tests.kits.http import Site, connected, peering, raw, rest_of, serving, until
from tests.kits.patience import PATIENCE_S

HOST = b"Host: x\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"


async def ended(site: Site, reader: asyncio.StreamReader, seconds: float) -> bytes:
    """Let so much time pass, and return what the connection receives until it ends."""
    await until(lambda: bool(site.listener._lines))
    for _ in range(20):
        await asyncio.sleep(0)
    site.wait(seconds)
    return await rest_of(reader)


@pytest.mark.parametrize(
    "sent", [b"", b"P", PREFACE[:10], b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "]
)
async def test_a_head_that_does_not_come_is_not_waited_for(sent: bytes) -> None:
    async with serving(head_timeout_s=10) as site, connected(site.port) as (reader, writer):
        writer.write(sent)
        assert (await ended(site, reader, 11)).startswith(b"HTTP/1.1 408 ")


async def test_bytes_now_and_then_do_not_make_a_head_younger() -> None:
    async with serving(head_timeout_s=10) as site, connected(site.port) as (reader, writer):
        for part in (b"GET / HTTP/1.1\r\n", b"Host:", b" x\r\n", b"X: "):
            writer.write(part)
            await asyncio.sleep(0.01)
            site.wait(3)
        assert (await rest_of(reader)).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_may_be_idle_for_so_long_and_no_longer() -> None:
    async with (
        serving(head_timeout_s=10, idle_timeout_s=100) as site,
        connected(site.port) as (reader, writer),
    ):
        writer.write(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"GET /a  ")
        site.wait(90)
        writer.write(b"GET /b HTTP/1.1\r\n" + HOST + b"\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"GET /b  ")
        assert await ended(site, reader, 101) == b""


async def test_line_feeds_do_not_keep_a_connection() -> None:
    async with (
        serving(head_timeout_s=10, idle_timeout_s=100) as site,
        connected(site.port) as (reader, writer),
    ):
        writer.write(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await reader.readuntil(b"GET /a  ")
        site.wait(90)
        writer.write(b"\r\n")
        await asyncio.sleep(0.05)
        site.wait(20)
        assert (await rest_of(reader)).startswith((b"", b"HTTP/1.1 408 "))


@pytest.mark.parametrize("head", [b"Content-Length: 100\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
async def test_a_body_that_stops_is_not_waited_for(head: bytes) -> None:
    async with serving(body_timeout_s=30) as site, connected(site.port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + head)
        await until(lambda: site.began == 1)
        writer.write(b"4\r\n" if b"chunked" in head else b"abcd")
        assert (await ended(site, reader, 31)).startswith(b"HTTP/1.1 408 ")
        async with asyncio.timeout(PATIENCE_S):
            await site.gone.wait()


async def test_an_application_that_takes_its_time_is_not_the_callers_fault() -> None:
    async with (
        serving(body_timeout_s=30, idle_timeout_s=30) as site,
        connected(site.port) as (reader, writer),
    ):
        writer.write(b"GET /hold HTTP/1.1\r\n" + HOST + b"\r\n")
        await until(lambda: site.began == 1)
        site.wait(1000)
        site.release.set()
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readuntil(b"held")).startswith(b"HTTP/1.1 200 ")


async def test_an_answer_that_nobody_takes_is_given_up_but_a_stream_may_wait() -> None:
    async with serving(write_timeout_s=30) as site:
        async with connected(site.port) as (_, writer):
            writer.transport.pause_reading()
            writer.write(b"GET /big?50000000 HTTP/1.1\r\n" + HOST + b"\r\n")
            await until(lambda: any(line.is_paused for line in site.listener._lines))
            site.wait(31)  # some may have left meanwhile
            site.wait(31)
            site.wait(31)
            await until(lambda: not site.listener._lines)
        async with connected(site.port) as (_, writer):
            writer.transport.pause_reading()
            writer.write(b"GET /stream?10000 HTTP/1.1\r\n" + HOST + b"\r\n")
            await until(lambda: any(line.is_paused for line in site.listener._lines))
            written = site.written
            site.wait(1000)
            site.wait(1000)
            assert site.listener._lines
            await asyncio.sleep(0.05)
            assert site.written - written <= 1


# -- HTTP/2 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        PREFACE,
        PREFACE + SETTINGS,
        PREFACE + SETTINGS + b"\0\0\x10\1\5\0\0\0\1\x82",  # a frame that does not end
        PREFACE + SETTINGS + b"\0\0\1\1\1\0\0\0\1\x82",  # a head whose CONTINUATION does not come
    ],
)
async def test_frames_and_heads_that_do_not_come_are_not_waited_for(sent: bytes) -> None:
    async with serving(head_timeout_s=10) as site, connected(site.port) as (reader, writer):
        writer.write(sent)
        async with asyncio.timeout(PATIENCE_S):
            await reader.readexactly(9)
        await asyncio.sleep(0.05)
        site.wait(11)
        await rest_of(reader)
        await until(lambda: not site.listener._lines)


async def test_a_frame_that_does_not_end_ends_a_connection_that_has_served() -> None:
    async with serving(head_timeout_s=10) as site, peering(site.port) as peer:
        peer.ask(1)
        assert peer.status(await peer.until(HeadersFrame)) == "200"
        site.wait(100)
        peer.send(b"\0\0\x10\1\5\0\0\0\3\x82")
        await asyncio.sleep(0.05)
        site.wait(0)
        site.wait(11)
        assert await peer.until(GoAwayFrame) is not None


async def test_idle_connections_are_closed_and_those_with_a_stream_are_not() -> None:
    async with serving(idle_timeout_s=100) as site, peering(site.port) as peer:
        peer.ask(1, "/hold")
        await until(lambda: site.began == 1)
        site.wait(1000)
        site.wait(1000)
        site.release.set()
        assert peer.status(await peer.until(HeadersFrame)) == "200"
        await peer.until(DataFrame)
        await asyncio.sleep(0.01)
        site.wait(50)
        site.wait(51)
        assert (await peer.until(GoAwayFrame)).error_code == 0


async def test_a_body_over_http2_that_stops_is_not_waited_for() -> None:
    async with serving(body_timeout_s=30) as site, peering(site.port) as peer:
        peer.ask(1, "/", "POST", end=False)
        peer.send(DataFrame(1, b"abc"))
        await until(lambda: site.taken == 3)
        peer.ask(3, "/hold")
        await until(lambda: site.began == 2)
        site.wait(31)
        assert peer.status(await peer.until(HeadersFrame, 1)) == "408"
        async with asyncio.timeout(PATIENCE_S):
            await site.gone.wait()
        site.release.set()
        assert peer.status(await peer.until(HeadersFrame, 3)) == "200"


@pytest.mark.parametrize(
    "stall", [lambda peer: peer.greet(INITIAL_WINDOW_SIZE=0), lambda peer: peer.greet(INITIAL_WINDOW_SIZE=10)]
)
async def test_an_answer_without_a_window_is_given_up_but_a_stream_may_wait(stall: Callable) -> None:  # type: ignore[type-arg]
    from tests.kits.http import Peer

    async with serving(write_timeout_s=30) as site, connected(site.port) as (reader, writer):
        peer = Peer(reader, writer)
        stall(peer)
        peer.ask(1, "/big?100000")
        peer.ask(3, "/stream?1000")
        await until(lambda: site.began == 2)
        assert await peer.until(HeadersFrame, 1) is not None
        assert await peer.until(HeadersFrame, 3) is not None
        site.wait(31)
        assert (await peer.until(RstStreamFrame)).stream_id == 1
        site.wait(1000)
        assert site.written <= 1
        peer.ask(5, "/big?5")
        assert peer.status(await peer.until(HeadersFrame, 5)) == "200"


async def test_a_stop_tells_http2_peers_and_answers_what_is_under_way() -> None:
    async with serving() as site, peering(site.port) as peer, peering(site.port) as idle:
        idle.ask(1)
        await idle.until(DataFrame)
        peer.ask(1, "/hold")
        await until(lambda: site.began == 2)
        stopping = asyncio.ensure_future(site.listener.stop(PATIENCE_S))
        assert (await peer.until(GoAwayFrame)).last_stream_id == 1
        assert await idle.until(GoAwayFrame) is not None
        peer.ask(3)
        assert (await peer.until(RstStreamFrame)).error_code == 7
        site.release.set()
        assert (await peer.until(DataFrame)).data == b"held"
        await stopping


async def test_too_many_connections_are_told_so() -> None:
    async with serving(connections_per_address=1) as site:
        async with connected(site.port) as (reader, writer):
            writer.write(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n")
            async with asyncio.timeout(PATIENCE_S):
                await reader.readuntil(b"GET /a  ")
            assert (await raw(site.port)).startswith(b"HTTP/1.1 503 ")
            assert (site.listener.counts.refused, site.listener.counts.connections) == (1, 1)
        await until(lambda: not site.listener._lines)
        assert b"GET /b" in await raw(site.port, b"GET /b HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n")
