"""HTTP/1.1: what is a request, in which order they are answered, and how connections end."""

import asyncio

import pytest

from tests.kits.http import connected, raw, rest_of, serving, until
from tests.kits.patience import PATIENCE_S

HOST = b"Host: x\r\n"
CLOSE = b"Connection: close\r\n"


def bodies(answers: bytes) -> list[bytes]:
    """The bodies of answers that have a length."""
    found = []
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        size = next(
            int(line[16:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        found.append(answers[:size])
        answers = answers[size:]
    return found


async def test_a_request_in_any_pieces_is_the_same_request() -> None:
    wire = b"POST /a%20b?q=1 HTTP/1.1\r\n" + HOST + CLOSE + b"Content-Length: 5\r\n\r\nhello"
    async with serving() as site:
        whole = await raw(site.port, wire)
        assert bodies(whole) == [b"POST /a b q=1 hello"]
        async with connected(site.port) as (reader, writer):
            for at in range(len(wire)):
                writer.write(wire[at : at + 1])
                await asyncio.sleep(0)
            assert bodies(await rest_of(reader)) == [b"POST /a b q=1 hello"]


async def test_chunks_and_their_trailers_are_a_body() -> None:
    chunks = b"5;name=value\r\nhello\r\n1\r\n!\r\n0\r\nHost: evil\r\nX-Trailer: 1\r\n\r\n"
    async with serving() as site:
        head = b"POST / HTTP/1.1\r\n" + HOST + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n"
        assert bodies(await raw(site.port, head + chunks)) == [b"POST /  hello!"]


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, b"nonsense\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n\r\n"),  # no host
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n" + HOST + b"X : a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n"),  # folded
        (400, b"GET / HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n"),
        (400, b"GET /#f HTTP/1.1\r\n" + HOST + b"\r\n"),
        (400, b"GET / HTTP/1.1\n" + b"Host: x\n\n"),
        (505, b"GET / HTTP/2.0\r\n" + HOST + b"\r\n"),
        (405, b"CONNECT x:80 HTTP/1.1\r\n" + HOST + b"\r\n"),
        # whose end two servers could see at different places
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5, 5\r\n\r\nhello"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +5\r\n\r\nhello"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        (400, b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"),
        (400, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloo\r\n0\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 100_000),
        (431, b"GET /" + b"a" * 100_000),
        (431, b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n" * 20_000 + b"\r\n"),
    ],
)
async def test_what_is_no_request_is_refused_and_nothing_behind_it_is_served(
    status: int, sent: bytes
) -> None:
    async with serving() as site:
        told = await raw(site.port, sent, b"\r\n\r\nGET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n")
        assert told.startswith(b"HTTP/1.1 %d " % status)
        assert told.count(b"HTTP/1.1 ") == 1
        assert b"smuggled" not in told
        assert b"\r\nConnection: close\r\n" in told


async def test_a_limit_for_heads_holds_to_the_byte() -> None:
    async with serving(max_head=1000) as site:
        head = b"GET / HTTP/1.1\r\n" + CLOSE + HOST
        sizes = [len(b"connectioncloseHostx") + 8 + 1]
        fits = head + b"X: " + b"a" * (1000 - sizes[0] - 5) + b"\r\n\r\n"
        assert (await raw(site.port, fits)).startswith(b"HTTP/1.1 200 ")
        longer = fits.replace(b"aaa", b"aaaa", 1)
        assert (await raw(site.port, longer)).startswith(b"HTTP/1.1 431 ")


async def test_refusals_come_behind_the_answers_that_are_due() -> None:
    async with serving() as site:
        good = b"GET /%d HTTP/1.1\r\n" + HOST + b"\r\n"
        told = await raw(site.port, good % 1 + good % 2 + b"nonsense\r\n\r\n" + good % 3)
        assert [told.index(b"GET /1"), told.index(b"GET /2"), told.index(b"HTTP/1.1 400 ")] == sorted(
            [told.index(b"GET /1"), told.index(b"GET /2"), told.index(b"HTTP/1.1 400 ")]
        )
        assert b"GET /3" not in told


async def test_a_thousand_requests_in_one_write_are_answered_in_order_and_few_wait() -> None:
    async with serving() as site, connected(site.port) as (reader, writer):
        writer.write(b"GET /hold HTTP/1.1\r\n" + HOST + b"\r\n")
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\n" % number + HOST + b"\r\n" for number in range(5000)))
        await until(lambda: site.began == 1)
        (line,) = site.listener._lines
        await until(lambda: bool(line._queue))  # type: ignore[attr-defined]
        assert len(line._queue) < 500  # type: ignore[attr-defined]
        site.release.set()
        last = b"GET /4999 "
        async with asyncio.timeout(PATIENCE_S):
            told = await reader.readuntil(last)
        assert told.count(b"HTTP/1.1 200 OK") == 5001


async def test_a_body_that_nobody_reads_holds_the_sender_back() -> None:
    async with serving() as site, connected(site.port) as (reader, writer):
        size = 8_000_000
        writer.write(b"POST /unread HTTP/1.1\r\n" + HOST + CLOSE + b"Content-Length: %d\r\n\r\n" % size)
        writer.write(b"x" * size)
        (line,) = await _lines(site)
        await until(lambda: line.current is not None and not line._reads)
        assert line.current.buffered + len(line._unparsed) < 1_000_000
        site.release.set()
        answer = await rest_of(reader)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert site.taken > size - 1_000_000


async def _lines(site) -> list:  # type: ignore[no-untyped-def, type-arg]
    await until(lambda: bool(site.listener._lines))
    return list(site.listener._lines)


@pytest.mark.parametrize("early", [0, 3_000_000])
async def test_an_answer_before_the_end_of_its_request_leaves_the_connection_usable(early: int) -> None:
    async with serving() as site, connected(site.port) as (reader, writer):
        writer.write(b"POST /early HTTP/1.1\r\n" + HOST + b"Content-Length: 3001000\r\n\r\n" + b"x" * early)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readuntil(b"early")).startswith(b"HTTP/1.1 404 ")
        writer.write(b"x" * (3_001_000 - early) + b"GET /next HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
        assert b"GET /next" in await rest_of(reader)


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 200000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n" + b"ffff\r\n"]
)
async def test_a_body_that_nobody_wants_is_not_read_for_ever(framing: bytes) -> None:
    async with serving(max_discarded=100_000) as site, connected(site.port) as (reader, writer):
        writer.write(b"POST /early HTTP/1.1\r\n" + HOST + framing)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readuntil(b"early")).startswith(b"HTTP/1.1 404 ")
        chunk = b"" if b"Length" in framing else b"\r\nffff\r\n"
        for _ in range(10):
            writer.write(b"x" * 0xFFFF + chunk)
        assert await rest_of(reader) == b""
        await until(lambda: not site.listener._lines or (site.wait(5) is None and not site.listener._lines))


@pytest.mark.parametrize("upgrade", [b"h2c", b"foo/2"])
async def test_an_upgrade_that_is_not_followed_is_a_request_like_others(upgrade: bytes) -> None:
    more = b"Upgrade: " + upgrade + b"\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n"
    async with serving() as site:
        sized = b"POST /a HTTP/1.1\r\n" + HOST + more + b"Content-Length: 5\r\n\r\nhello"
        chunked = (
            b"POST /b HTTP/1.1\r\n"
            + HOST
            + more
            + b"Transfer-Encoding: chunked\r\n\r\n5\r\nworld\r\n0\r\n\r\n"
        )
        plain = b"GET /c HTTP/1.1\r\n" + HOST + more + b"\r\n"
        last = b"GET /d HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"
        answers = [b"POST /a  hello", b"POST /b  world", b"GET /c  "]
        assert bodies(await raw(site.port, sized + chunked + plain + last)) == [*answers, b"GET /d  "]
        many = (sized + chunked + plain) * 200 + last  # more than is parsed at once
        assert bodies(await raw(site.port, many)) == [*answers * 200, b"GET /d  "]


async def test_who_waits_for_a_hundred_gets_it_when_the_body_is_wanted() -> None:
    head = HOST + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    async with serving() as site:
        async with connected(site.port) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\n" + head)
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"hello")
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
        told = await raw(site.port, b"POST /early HTTP/1.1\r\n" + head)
        assert told.startswith(b"HTTP/1.1 404 ")
        assert b"connection: close" in told


async def test_answers_to_head_and_streams_have_the_right_ends() -> None:
    async with serving() as site:
        head = await raw(site.port, b"HEAD /x HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
        assert b"content-length: 9\r\n" in head
        assert head.endswith(b"\r\n\r\n")
        stream = await raw(site.port, b"GET /stream?2 HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
        assert stream.endswith(b"\r\n0\r\n\r\n")
        assert b"transfer-encoding: chunked" in stream
        old = await raw(site.port, b"GET /stream?2 HTTP/1.0\r\n\r\n")
        assert b"chunked" not in old
        assert old.partition(b"\r\n\r\n")[2] == b"x" * 20_000


@pytest.mark.parametrize(("path", "ends"), [(b"/fail", b"500 Internal Server Error"), (b"/cut", b"half\r\n")])
async def test_an_application_that_fails_costs_only_its_own_request(path: bytes, ends: bytes) -> None:
    async with serving() as site:
        assert (await raw(site.port, b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")).endswith(ends)
        assert b"GET /next" in await raw(site.port, b"GET /next HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")


async def test_an_application_hears_at_once_that_its_caller_left() -> None:
    async with serving() as site:
        async with connected(site.port) as (_, writer):
            writer.write(b"GET /hold HTTP/1.1\r\n" + HOST + b"\r\n")
            await until(lambda: site.began == 1)
        async with asyncio.timeout(PATIENCE_S):
            await site.gone.wait()


async def test_headers_with_line_breaks_are_not_sent() -> None:
    async def evil(scope: object, receive: object, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nc: d")]})
        await send({"type": "http.response.body", "body": b""})

    async with serving(application=evil) as site:
        told = await raw(site.port, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert told.startswith(b"HTTP/1.1 500 ")
        assert b"c: d" not in told


async def test_a_stop_answers_what_is_under_way_and_closes_what_is_idle() -> None:
    async with serving() as site, connected(site.port) as idle, connected(site.port) as busy:
        idle[1].write(b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n")
        async with asyncio.timeout(PATIENCE_S):
            await idle[0].readuntil(b"GET /a  ")
        busy[1].write(b"GET /hold HTTP/1.1\r\n" + HOST + b"\r\n")
        await until(lambda: site.began == 2)
        stopping = asyncio.ensure_future(site.listener.stop(PATIENCE_S))
        assert await rest_of(idle[0]) == b""
        site.release.set()
        told = await rest_of(busy[0])
        assert told.endswith(b"held")
        assert b"connection: close" in told
        await stopping
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", site.port)
