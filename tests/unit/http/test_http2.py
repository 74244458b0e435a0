"""The rules of RFC 9113 that matter: what breaks them ends a stream or the connection, and nobody else's."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.kits.http import REQUEST, Peer, connected, peering, raw, serving, until
from tests.kits.patience import PATIENCE_S

PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0x1, 0x3, 0x5, 0x6
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 0x9, 0xB


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 0x1, 0x1, 0x4, 0x8


def asked(peer: Peer, stream: int = 1, *, end: bool = False) -> bytes:
    return bytes(peer.headers(stream, end=end).serialize())


def headed(peer: Peer, *pairs: tuple[str, str]) -> bytes:
    """A request whose fields h2 would never send."""
    return bytes(peer.headers(1, pairs).serialize())


BROKEN: dict[str, tuple[set[int], Callable[[Peer], bytes]]] = {
    "4.2 a frame longer than allowed": (
        {FRAME_SIZE_ERROR},
        lambda peer: asked(peer) + frame(DATA, 0, 1, b"x" * 16385),
    ),
    "4.3 a header block that cannot be read": (
        {COMPRESSION_ERROR, PROTOCOL_ERROR},
        lambda peer: frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff\xff"),
    ),
    "5.1 data on an idle stream": ({PROTOCOL_ERROR, STREAM_CLOSED}, lambda peer: frame(DATA, 0, 1, b"x")),
    "5.1 a reset of an idle stream": ({PROTOCOL_ERROR}, lambda peer: frame(RST, 0, 1, b"\0\0\0\x08")),
    "5.1 a window for an idle stream": ({PROTOCOL_ERROR}, lambda peer: frame(WINDOW, 0, 1, b"\0\0\0\x01")),
    "5.1 data behind the end of a request": (
        {STREAM_CLOSED},
        lambda peer: (
            bytes(peer.headers(1, [*REQUEST[:2], (":path", "/hold"), REQUEST[3]]).serialize())
            + frame(DATA, END_STREAM, 1, b"x")
        ),
    ),
    "5.1.1 a stream with an even number": ({PROTOCOL_ERROR}, lambda peer: asked(peer, 2)),
    "5.1.1 a stream with a lower number": (
        {PROTOCOL_ERROR, STREAM_CLOSED},
        lambda peer: asked(peer, 5) + asked(peer, 3),
    ),
    "5.3.1 a stream that depends on itself": (
        {PROTOCOL_ERROR},
        lambda peer: frame(PRIORITY, 0, 1, b"\0\0\0\x01\x10"),
    ),
    "6.1 data without a stream": ({PROTOCOL_ERROR}, lambda peer: frame(DATA, 0, 0, b"x")),
    "6.1 more padding than data": (
        {PROTOCOL_ERROR},
        lambda peer: asked(peer) + frame(DATA, PADDED, 1, b"\x09abc"),
    ),
    "6.2 a head without a stream": ({PROTOCOL_ERROR}, lambda peer: frame(HEADERS, END_HEADERS, 0, b"\x82")),
    "6.3 a priority of the wrong size": (
        {FRAME_SIZE_ERROR, PROTOCOL_ERROR},
        lambda peer: asked(peer) + frame(PRIORITY, 0, 1, b"abc"),
    ),
    "6.4 a reset without a stream": ({PROTOCOL_ERROR}, lambda peer: frame(RST, 0, 0, b"\0\0\0\x08")),
    "6.4 a reset of the wrong size": (
        {FRAME_SIZE_ERROR, PROTOCOL_ERROR},
        lambda peer: asked(peer) + frame(RST, 0, 1, b"\0"),
    ),
    "6.5 an acknowledgement with settings": (
        {FRAME_SIZE_ERROR, PROTOCOL_ERROR},
        lambda peer: frame(SETTINGS, ACK, 0, b"\0\3\0\0\0\1"),
    ),
    "6.5 settings of a stream": ({PROTOCOL_ERROR}, lambda peer: frame(SETTINGS, 0, 1, b"\0\3\0\0\0\1")),
    "6.5 settings of the wrong size": (
        {FRAME_SIZE_ERROR, PROTOCOL_ERROR},
        lambda peer: frame(SETTINGS, 0, 0, b"\0\3\0"),
    ),
    "6.5.2 push that is neither on nor off": (
        {PROTOCOL_ERROR},
        lambda peer: frame(SETTINGS, 0, 0, b"\0\2\0\0\0\2"),
    ),
    "6.5.2 a window that is too large": (
        {FLOW_CONTROL_ERROR},
        lambda peer: frame(SETTINGS, 0, 0, b"\0\4\x80\0\0\0"),
    ),
    "6.5.2 frames that are too small": (
        {PROTOCOL_ERROR},
        lambda peer: frame(SETTINGS, 0, 0, b"\0\5\0\0\x3f\xff"),
    ),
    "6.6 a push": ({PROTOCOL_ERROR}, lambda peer: asked(peer) + frame(PUSH, END_HEADERS, 1, b"\0\0\0\2\x82")),
    "6.7 a ping of a stream": ({PROTOCOL_ERROR}, lambda peer: frame(PING, 0, 1, b"12345678")),
    "6.7 a ping of the wrong size": (
        {FRAME_SIZE_ERROR, PROTOCOL_ERROR},
        lambda peer: frame(PING, 0, 0, b"1234567"),
    ),
    "6.8 a farewell of a stream": ({PROTOCOL_ERROR}, lambda peer: frame(GOAWAY, 0, 1, b"\0" * 8)),
    "6.9 a window that grows by nothing": (
        {PROTOCOL_ERROR},
        lambda peer: frame(WINDOW, 0, 0, b"\0\0\0\0"),
    ),
    "6.9 a window of the wrong size": (
        {FRAME_SIZE_ERROR, PROTOCOL_ERROR},
        lambda peer: frame(WINDOW, 0, 0, b"\0\0\1"),
    ),
    "6.9.1 a window beyond the largest": (
        {FLOW_CONTROL_ERROR},
        lambda peer: frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff"),
    ),
    "6.10 a continuation of nothing": (
        {PROTOCOL_ERROR},
        lambda peer: frame(CONTINUATION, END_HEADERS, 1, b"\x82"),
    ),
    "6.10 something between a head and its rest": (
        {PROTOCOL_ERROR},
        lambda peer: frame(HEADERS, 0, 1, b"\x82") + frame(PING, 0, 0, b"12345678"),
    ),
    "6.10 the rest of another head": (
        {PROTOCOL_ERROR},
        lambda peer: frame(HEADERS, 0, 1, b"\x82") + frame(CONTINUATION, END_HEADERS, 3, b"\x86"),
    ),
    "8.2.1 a name in capitals": ({PROTOCOL_ERROR}, lambda peer: headed(peer, *REQUEST, ("X-Y", "z"))),
    "8.2.1 a value with a line break": (
        {PROTOCOL_ERROR},
        lambda peer: headed(peer, *REQUEST, ("x", "a\r\nb: c")),
    ),
    "8.2.2 a header of connections": (
        {PROTOCOL_ERROR},
        lambda peer: headed(peer, *REQUEST, ("connection", "keep-alive")),
    ),
    "8.2.2 an encoding of transfers": (
        {PROTOCOL_ERROR},
        lambda peer: headed(peer, *REQUEST, ("transfer-encoding", "chunked")),
    ),
    "8.2.2 TE with something else": ({PROTOCOL_ERROR}, lambda peer: headed(peer, *REQUEST, ("te", "gzip"))),
    "8.3 a pseudo-header behind others": (
        {PROTOCOL_ERROR},
        lambda peer: headed(peer, *REQUEST[:3], ("x", "y"), REQUEST[3]),
    ),
    "8.3 a pseudo-header of answers": (
        {PROTOCOL_ERROR},
        lambda peer: headed(peer, *REQUEST, (":status", "200")),
    ),
    "8.3 a pseudo-header that nobody knows": (
        {PROTOCOL_ERROR},
        lambda peer: headed(peer, *REQUEST, (":made-up", "x")),
    ),
    "8.3.1 no method": ({PROTOCOL_ERROR}, lambda peer: headed(peer, *REQUEST[1:])),
    "8.3.1 no scheme": ({PROTOCOL_ERROR}, lambda peer: headed(peer, REQUEST[0], *REQUEST[2:])),
    "8.3.1 no path": ({PROTOCOL_ERROR}, lambda peer: headed(peer, *REQUEST[:2], REQUEST[3])),
    "8.3.1 an empty path": (
        {PROTOCOL_ERROR},
        lambda peer: headed(peer, *REQUEST[:2], (":path", ""), REQUEST[3]),
    ),
    "8.3.1 two methods": ({PROTOCOL_ERROR}, lambda peer: headed(peer, REQUEST[0], *REQUEST)),
    "8.3.1 another host than the authority": (
        {PROTOCOL_ERROR},
        lambda peer: headed(peer, *REQUEST, ("host", "elsewhere")),
    ),
    "8.1.1 more data than announced": (
        {PROTOCOL_ERROR},
        lambda peer: (
            bytes(peer.headers(1, [*REQUEST, ("content-length", "1")], end=False).serialize())
            + frame(DATA, END_STREAM, 1, b"xx")
        ),
    ),
    "8.1.1 less data than announced": (
        {PROTOCOL_ERROR},
        lambda peer: (
            bytes(peer.headers(1, [*REQUEST, ("content-length", "3")], end=False).serialize())
            + frame(DATA, END_STREAM, 1, b"xx")
        ),
    ),
}


@pytest.mark.parametrize("rule", BROKEN)
async def test_who_breaks_a_rule_is_told_and_others_are_served(rule: str) -> None:
    codes, breach = BROKEN[rule]
    async with serving() as site, peering(site.port) as peer, peering(site.port) as other:
        peer.send(breach(peer))
        told = None
        while told is None and (found := await peer.next()) is not None:
            if isinstance(found, RstStreamFrame | GoAwayFrame):
                told = found.error_code
        assert told in codes
        other.ask(1)
        assert other.status(await other.until(HeadersFrame)) == "200"


async def test_a_preface_that_goes_wrong_is_no_http() -> None:
    async with serving() as site:
        assert (await raw(site.port, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")).startswith(b"HTTP/1.1 4")
    async with serving(http2=False) as site:
        assert (await raw(site.port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")).startswith(b"HTTP/1.1 4")


async def test_what_is_allowed_is_taken() -> None:
    async with serving() as site, peering(site.port) as peer:
        peer.send(
            frame(0x99, 0xFF, 0, b"a frame of a kind that nobody knows"),
            frame(SETTINGS, 0, 0, b"\x99\x99\0\0\0\1"),
            frame(PRIORITY, 0, 3, b"\0\0\0\0\x10"),
            frame(PING, 0, 0, b"12345678"),
        )
        assert (await peer.until(PingFrame)).opaque_data == b"12345678"
        block = peer.encoder.encode([(":method", "POST"), *REQUEST[1:], ("te", "trailers")])
        peer.send(frame(HEADERS, 0, 1, block[:3]), frame(CONTINUATION, 0, 1, b""))
        peer.send(frame(CONTINUATION, END_HEADERS, 1, block[3:]))
        peer.send(frame(DATA, PADDED, 1, b"\x05hello" + b"\0" * 5))
        peer.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, peer.encoder.encode([("x-trailer", "1")])))
        assert peer.status(await peer.until(HeadersFrame)) == "200"
        assert (await peer.until(DataFrame)).data == b"POST /  hello"
        assert any(isinstance(each, SettingsFrame) and "ACK" in each.flags for each in peer.frames)


async def test_a_window_rules_what_is_sent() -> None:
    async with serving() as site, peering(site.port, INITIAL_WINDOW_SIZE=10) as peer:
        peer.ask(1, "/big?35")
        assert len((await peer.until(DataFrame)).data) == 10
        peer.send(WindowUpdateFrame(1, window_increment=20))
        assert len((await peer.until(DataFrame)).data) == 20
        peer.send(SettingsFrame(0, settings={SettingsFrame.INITIAL_WINDOW_SIZE: 15}))
        last = await peer.until(DataFrame)
        assert (len(last.data), "END_STREAM" in last.flags) == (5, True)


async def test_streams_share_the_window_of_the_connection() -> None:
    async with serving() as site, peering(site.port) as peer:
        for stream in (1, 3, 5):
            peer.ask(stream, "/big?100000")
        sent = {1: 0, 3: 0, 5: 0}
        while sum(sent.values()) < 65535:
            data = await peer.until(DataFrame)
            sent[data.stream_id] += len(data.data)
        while sum(sent.values()) < 300_000:
            peer.send(WindowUpdateFrame(0, window_increment=30_000))
            for stream in sent:
                if sent[stream] < 100_000:
                    peer.send(WindowUpdateFrame(stream, window_increment=30_000))
            before = sum(sent.values())
            while sum(sent.values()) < min(before + 30_000, 300_000):
                data = await peer.until(DataFrame)
                sent[data.stream_id] += len(data.data)
        assert set(sent.values()) == {100_000}


async def test_a_body_that_nobody_reads_holds_only_its_own_stream_back() -> None:
    async with serving() as site, peering(site.port) as peer:
        peer.ask(1, "/unread", "POST", end=False)
        for _ in range(4):
            peer.send(DataFrame(1, b"x" * 16_000))
        await until(lambda: site.began == 1)
        peer.ask(3, "/", "POST", end=False)
        done = DataFrame(3, b"hello")
        done.flags.add("END_STREAM")
        peer.send(done)
        assert peer.status(await peer.until(HeadersFrame, 3)) == "200"
        windows = [
            each for each in peer.frames if isinstance(each, WindowUpdateFrame) and each.stream_id == 1
        ]
        assert sum(each.window_increment for each in windows) <= 32_000


async def test_a_reset_is_heard_by_the_application() -> None:
    async with serving() as site, peering(site.port) as peer:
        peer.ask(1, "/hold")
        await until(lambda: site.began == 1)
        peer.send(RstStreamFrame(1, error_code=8))
        async with asyncio.timeout(PATIENCE_S):
            await site.gone.wait()
        peer.ask(3)
        assert peer.status(await peer.until(HeadersFrame, 3)) == "200"


@pytest.mark.parametrize(("path", "ends"), [("/fail", "500"), ("/cut", "200")])
async def test_an_application_that_fails_costs_only_its_own_stream(path: str, ends: str) -> None:
    async with serving() as site, peering(site.port) as peer:
        peer.ask(1, path)
        assert peer.status(await peer.until(HeadersFrame, 1)) == ends
        if ends == "200":
            assert (await peer.until(RstStreamFrame, 1)).error_code == 2
        peer.ask(3)
        assert peer.status(await peer.until(HeadersFrame, 3)) == "200"


# -- floods ---------------------------------------------------------------------------------------------


def _resets(peer: Peer, number: int) -> list[Any]:
    stream = 2 * number + 1
    return [peer.headers(stream, [*REQUEST[:2], (":path", "/hold"), REQUEST[3]]), RstStreamFrame(stream)]


FLOODS: dict[str, Callable[[Peer, int], list[Any]]] = {
    "resets": _resets,
    "pings": lambda peer, number: [frame(PING, 0, 0, number.to_bytes(8, "big"))],
    "answers to pings": lambda peer, number: [frame(PING, ACK, 0, number.to_bytes(8, "big"))],
    "settings": lambda peer, number: [frame(SETTINGS, 0, 0, b"\0\4\0\0\xff" + bytes((number % 250,)))],
    "empty settings": lambda peer, number: [frame(SETTINGS, 0, 0)],
    "priorities": lambda peer, number: [frame(PRIORITY, 0, 1, b"\0\0\0\0" + bytes((number % 250,)))],
    "windows": lambda peer, number: [frame(WINDOW, 0, 0, b"\0\0\0\1")],
    "unknown frames": lambda peer, number: [frame(0x77, 0, 0, b"x")],
    "empty data": lambda peer, number: [asked(peer)] if number == 0 else [frame(DATA, 0, 1)],
}


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_peer_that_only_makes_work_is_asked_to_calm_down(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as site, peering(site.port) as peer, peering(site.port) as other:
        told = asyncio.ensure_future(peer.until(GoAwayFrame))
        for number in range(5000):
            peer.send(*FLOODS[kind](peer, number))
            if number % 100 == 0:
                await asyncio.sleep(0)
        assert (await told).error_code == ENHANCE_YOUR_CALM
        assert site.listener.counts.abuse == 1
        assert "an HTTP/2 connection was closed" in caplog.text
        other.ask(1)
        assert other.status(await other.until(HeadersFrame)) == "200"


async def test_credit_comes_back_with_time() -> None:
    async with serving() as site, peering(site.port) as peer:
        peer.ask(1)
        for turn in range(20):
            for number in range(500):
                peer.send(frame(PING, 0, 0, (turn * 500 + number).to_bytes(8, "big")))
            while (await peer.until(PingFrame)).opaque_data != (turn * 500 + 499).to_bytes(8, "big"):
                pass
            site.wait(6)
        peer.ask(3)
        assert peer.status(await peer.until(HeadersFrame, 3)) == "200"


@pytest.mark.parametrize("size", [0, 1, 16_000])
async def test_a_head_without_end_ends_the_connection(size: int) -> None:
    async with serving() as site, peering(site.port) as peer:
        peer.send(frame(HEADERS, 0, 1, b"\x82"))
        for _ in range(300):
            peer.send(ContinuationFrame(1, data=b"\x82" * size))
        told = await peer.until(GoAwayFrame)
        assert told is None or told.error_code in (PROTOCOL_ERROR, ENHANCE_YOUR_CALM)
        await until(lambda: not site.listener._lines)
        assert site.began == 0


async def test_a_header_list_has_a_bound_whatever_its_size_on_the_wire() -> None:
    async with serving(max_head=8000) as site, peering(site.port) as peer:
        peer.send(peer.headers(1, [*REQUEST, *[("x", "y" * 500)] * 100]))  # a few bytes each, from the table
        assert (await peer.until(GoAwayFrame)).error_code in (COMPRESSION_ERROR, ENHANCE_YOUR_CALM, 1)
        assert site.began == 0


async def test_streams_of_a_connection_are_bounded_those_that_were_reset_included() -> None:
    async with serving(streams=10, running=15, credit=1e9) as site, peering(site.port) as peer:
        for number in range(200):
            peer.send(*_resets(peer, number)[:1])
            await asyncio.sleep(0)
            peer.send(*_resets(peer, number)[1:])
        assert await peer.until(GoAwayFrame) is not None
        assert site.began <= 16


async def test_data_behind_an_answer_is_thrown_away_within_a_bound() -> None:
    async with serving(max_discarded=100_000) as site, peering(site.port) as peer:
        peer.ask(1, "/early", "POST", end=False)
        assert peer.status(await peer.until(HeadersFrame, 1)) == "404"
        for _ in range(8):
            peer.send(DataFrame(1, b"x" * 16_000))
        assert (await peer.until(RstStreamFrame, 1)).error_code == 0
        peer.ask(3)
        assert peer.status(await peer.until(HeadersFrame, 3)) == "200"


async def test_an_upgrade_where_that_is_switched_on() -> None:
    head = (
        b"GET /up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: %b\r\n\r\n"
    )
    async with serving(h2c_upgrade=True) as site:
        assert (await raw(site.port, head % b"A")).startswith(b"HTTP/1.1 400 ")
        async with connected(site.port) as (reader, writer):
            writer.write(head % b"AAMAAABkAAQAAP__")
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            peer = Peer(reader, writer)
            peer.greet()
            assert peer.status(await peer.until(HeadersFrame, 1)) == "200"
            assert (await peer.until(DataFrame, 1)).data == b"GET /up  "
            peer.ask(3)
            assert peer.status(await peer.until(HeadersFrame, 3)) == "200"
