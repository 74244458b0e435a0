"""The parser against a naive one, on random streams cut at random places."""

import itertools
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millstream.protocol.parser import Op, Parser
from tests.kits.naive.parser import WORDS, Limits, naive_events, real_events

LIMITS = st.builds(
    Limits,
    max_control_line=st.sampled_from([8, 20, 64]),
    max_payload=st.sampled_from([0, 5, 32]),
    headers_allowed=st.booleans(),
    connect_first=st.booleans(),
)

_PIECES = [
    *(word.strip() for word in WORDS),
    *(word.upper().strip() for word in WORDS),
    b"MSG", b"A+", b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b" ", b" ", b"\t", b"  ",
    b"foo", b"a.b.c", b"*", b">", b"_INBOX.1", b"{}", b'{"verbose":false}',
    b"0", b"1", b"2", b"5", b"05", b"12", b"31", b"32", b"33", b"999999999", b"1000000000", b"-1", b"x",
    b"hello", b"NATS/1.0\r\n\r\n", b"x" * 8, b"y" * 20, b"z" * 64,
    b"PUB foo 5\r\nhello\r\n", b"HPUB a b 12 17\r\nNATS/1.0\r\n\r\nhello\r\n", b"SUB foo q 1\r\n",
    b"UNSUB 1 5\r\n", b"PING\r\n", b"CONNECT {}\r\n",
]  # fmt: skip
STREAMS = st.one_of(
    st.lists(st.sampled_from(_PIECES), max_size=24).map(b"".join),
    st.lists(st.one_of(st.sampled_from(_PIECES), st.binary(max_size=6)), max_size=12).map(b"".join),
    st.binary(max_size=64),
)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    data = draw(STREAMS)
    cuts = sorted(draw(st.sets(st.integers(0, len(data)), max_size=12)))
    bounds = [0, *cuts, len(data)]
    return data, [data[a:b] for a, b in itertools.pairwise(bounds)]


@settings(max_examples=600, deadline=None)
@given(cut_streams(), LIMITS)
@example((b"PUB foo 64\r\n", [b"PUB foo 64\r\n"]), Limits())
def test_any_stream_however_cut_gives_what_the_naive_parser_gives(
    stream: tuple[bytes, list[bytes]], limits: Limits
) -> None:
    data, chunks = stream
    assert b"".join(chunks) == data
    assert real_events(chunks, limits) == naive_events(data, limits)


@settings(max_examples=200, deadline=None)
@given(STREAMS, LIMITS)
def test_byte_by_byte_gives_the_same_as_all_at_once(data: bytes, limits: Limits) -> None:
    single = [data[i : i + 1] for i in range(len(data))]
    assert real_events(single, limits) == real_events([data], limits)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=48), max_size=8))
def test_random_bytes_never_raise_and_never_loop(chunks: list[bytes]) -> None:
    parser = Parser(32, 16)
    parser.headers_allowed = True
    given_so_far = 0
    answers = 0
    for chunk in chunks:
        parser.feed(chunk)
        given_so_far += len(chunk)
        while (op := parser.next()) > Op.NEED_MORE:
            answers += 1
            assert answers <= given_so_far  # every operation is at least one byte
        if op < 0:
            assert Op(op) in Op
            return
        assert parser.next() == Op.NEED_MORE  # asking again changes nothing


@pytest.mark.parametrize(
    "start",
    [b"PING ", b"PONG", b"+OK", b"PUB ", b"HPUB\t", b"SUB ", b"UNSUB \t ", b"CONNECT", b"INFO ", b"-ERR "],
)
@pytest.mark.parametrize("filler", [b" ", b"\t", b" \t"])
def test_a_line_that_never_ends_costs_no_memory(start: bytes, filler: bytes) -> None:
    parser = Parser(4096, 1024)
    chunk = filler * (16384 // len(filler))
    tracemalloc.start()
    try:
        parser.feed(start)
        assert parser.next() == Op.NEED_MORE
        for _ in range(24):
            parser.feed(chunk)
            assert parser.next() == Op.NEED_MORE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(chunk)


def test_a_body_in_small_pieces_costs_no_more_than_a_few_times_its_size() -> None:
    size = 1 << 20
    parser = Parser(4096, size)
    pieces = [bytes([65 + i % 26]) * 512 for i in range(size // 512)]
    tracemalloc.start()
    try:
        parser.feed(b"PUB foo %d\r\n" % size)
        for piece in pieces:
            assert parser.next() == Op.NEED_MORE
            parser.feed(piece)
        parser.feed(b"\r\n")
        assert parser.next() == Op.PUB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert parser.frame.payload() == b"".join(pieces)
    assert peak < 4 * size


@pytest.mark.parametrize("op", [Op.SUB, Op.CONNECT])
def test_a_long_line_is_refused_before_it_ends(op: Op) -> None:
    parser = Parser(4096, 1024)
    parser.feed(op.name.encode() + b" ")
    fed = 0
    while parser.next() == Op.NEED_MORE:
        parser.feed(b"x" * 512)
        fed += 512
        assert fed <= 4096 + 1024
    assert parser.next() == Op.LINE_TOO_LONG
