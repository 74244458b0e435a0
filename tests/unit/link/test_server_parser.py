"""Bytes of a server, cut anywhere, are read as a naive reader of the whole would read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.link.errors import ProtocolViolation
from millstream.link.parser import LinkOp, LinkParser

Event = tuple[object, ...]


def event(parser: LinkParser, op: int) -> Event:
    if op == LinkOp.MSG:
        parts = (parser.reply(), parser.headers(), parser.payload(), parser.status())
        return ("MSG", parser.subject(), parser.sid, *parts)
    if op in (LinkOp.INFO, LinkOp.ERR):
        return (LinkOp(op).name, parser.line())
    return (LinkOp(op).name,)


def events_of(parser: LinkParser) -> list[Event]:
    found = []
    while (op := parser.next()) != LinkOp.NEED_MORE:
        found.append(event(parser, op))
    return found


def read_in_pieces(wire: bytes, sizes: list[int], *, by_room: bool) -> list[Event]:
    parser = LinkParser()
    found = []
    position = 0
    turn = 0
    while position < len(wire):
        piece = wire[position : position + sizes[turn % len(sizes)]]
        turn += 1
        position += len(piece)
        if by_room:
            with parser.room(len(piece)) as room:
                room[: len(piece)] = piece
            parser.filled(len(piece))
        else:
            parser.feed(piece)
        found += events_of(parser)
    assert parser.rest() == 0
    return found


EVERYTHING = (
    b'INFO {"server_id":"x"}\r\n'
    b"MSG a.b 7 5\r\nhello\r\n"
    b"PING\r\n"
    b"MSG a.b 12 reply.to 0\r\n\r\n"
    b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    b"+OK\r\n"
    b"HMSG a 1 r.1 16 17\r\nNATS/1.0 503\r\n\r\nx\r\n"
    b"-ERR 'Slow Consumer'\r\n"
    b"PONG\r\n"
    b"MSG x 1 6\r\n\r\n\r\n\r\n\r\n"
)
EXPECTED: list[Event] = [
    ("INFO", b'{"server_id":"x"}'),
    ("MSG", b"a.b", 7, b"", b"", b"hello", 0),
    ("PING",),
    ("MSG", b"a.b", 12, b"reply.to", b"", b"", 0),
    ("MSG", b"a", 1, b"", b"NATS/1.0\r\n\r\n", b"", 0),
    ("OK",),
    ("MSG", b"a", 1, b"r.1", b"NATS/1.0 503\r\n\r\n", b"x", 503),
    ("ERR", b"'Slow Consumer'"),
    ("PONG",),
    ("MSG", b"x", 1, b"", b"", b"\r\n\r\n\r\n", 0),
]


@pytest.mark.parametrize("by_room", [False, True])
@pytest.mark.parametrize("cut", range(1, len(EVERYTHING)))
def test_a_cut_anywhere_changes_nothing(cut: int, by_room: bool) -> None:
    assert read_in_pieces(EVERYTHING, [cut, len(EVERYTHING)], by_room=by_room) == EXPECTED


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
def test_pieces_of_any_size_change_nothing(size: int) -> None:
    assert read_in_pieces(EVERYTHING * 3, [size], by_room=False) == EXPECTED * 3


words = st.binary(min_size=1, max_size=12).map(lambda data: bytes(33 + byte % 94 for byte in data))
blocks = st.sampled_from(
    [b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0 404 No Messages\r\n\r\n"]
)


@st.composite
def frames(draw: st.DrawFn) -> tuple[bytes, Event]:
    kind = draw(st.integers(0, 6))
    if kind > 3:
        subject, payload = draw(words), draw(st.binary(max_size=300))
        sid, reply = draw(st.integers(0, 10**15)), draw(st.one_of(st.just(b""), words))
        middle = b"%b %d %b" % (subject, sid, reply + b" " if reply else b"")
        if kind == 4:
            line = b"MSG %b%d\r\n%b\r\n" % (middle, len(payload), payload)
            return line, ("MSG", subject, sid, reply, b"", payload, 0)
        block = draw(blocks)
        line = b"HMSG %b%d %d\r\n%b%b\r\n" % (middle, len(block), len(block) + len(payload), block, payload)
        return line, ("MSG", subject, sid, reply, block, payload, 404 if b"404" in block else 0)
    if kind == 3:
        text = draw(words)
        return b"-ERR %b\r\n" % text, ("ERR", text)
    name = [b"PING", b"PONG", b"+OK"][kind]
    return name + b"\r\n", (name.decode().lstrip("+"),)


@given(st.lists(frames(), max_size=30), st.lists(st.integers(1, 500), min_size=1, max_size=8), st.booleans())
def test_any_frames_in_any_pieces_are_what_they_were_made_of(
    made: list[tuple[bytes, Event]], sizes: list[int], by_room: bool
) -> None:
    wire = b"".join(frame for frame, _ in made)
    assert read_in_pieces(wire, sizes, by_room=by_room) == [told for _, told in made]


@given(st.binary(max_size=400), st.lists(st.integers(1, 60), min_size=1, max_size=4))
def test_garbage_is_a_violation_or_waits_for_more_and_never_crashes(garbage: bytes, sizes: list[int]) -> None:
    parser = LinkParser(max_line=200, max_body=1000)
    position, turn = 0, 0
    try:
        while position < len(garbage):
            parser.feed(garbage[position : position + sizes[turn % len(sizes)]])
            position += sizes[turn % len(sizes)]
            turn += 1
            events_of(parser)
    except ProtocolViolation:
        return
    assert parser.rest() <= len(garbage)


@given(st.binary(min_size=1, max_size=60), st.integers(0, len(EVERYTHING) - 1))
def test_frames_damaged_anywhere_do_not_crash(damage: bytes, at: int) -> None:
    parser = LinkParser(max_line=4096, max_body=100_000)
    parser.feed(EVERYTHING[:at] + damage + EVERYTHING[at + len(damage) :])
    try:
        for told in events_of(parser):
            assert told
    except ProtocolViolation:
        pass


@pytest.mark.parametrize(
    "wire",
    [
        b"HELLO\r\n",
        b"MSG a 1\r\n",
        b"MSG a 1 2 3 4\r\n",
        b"MSG a one 2\r\nab\r\n",
        b"MSG a 1 -2\r\n",
        b"MSG a 1 99999999999\r\n",
        b"MSG a 1 2\r\nabcd",
        b"HMSG a 1 5\r\n",
        b"HMSG a 1 9 5\r\n",
        b"HMSG a 1 r q 9 5\r\n",
        b"\r\n",
        b"INFO{}\r\n",
        b"MSG \r\n",
    ],
)
def test_what_no_server_sends_is_a_violation(wire: bytes) -> None:
    parser = LinkParser()
    parser.feed(wire)
    with pytest.raises(ProtocolViolation):
        parser.next()


def test_a_line_without_an_end_is_refused_beyond_the_limit() -> None:
    parser = LinkParser(max_line=1000)
    for _ in range(10):
        parser.feed(b"INFO " + b"x" * 95)
        assert parser.next() == LinkOp.NEED_MORE
    parser.feed(b"x")
    with pytest.raises(ProtocolViolation, match="more than 1000"):
        parser.next()


def test_a_line_that_came_whole_is_refused_beyond_the_limit_too() -> None:
    parser = LinkParser(max_line=10)
    parser.feed(b"INFO 0123456789\r\n")
    with pytest.raises(ProtocolViolation):
        parser.next()


def test_a_body_beyond_the_limit_is_refused_when_it_is_announced() -> None:
    parser = LinkParser(max_body=1000)
    parser.feed(b"MSG a 1 1001\r\n")
    with pytest.raises(ProtocolViolation, match="1001 bytes; 1000"):
        parser.next()


def test_the_room_for_a_large_body_is_made_at_once() -> None:
    parser = LinkParser()
    parser.feed(b"MSG a 1 1000000\r\nabc")
    assert parser.next() == LinkOp.NEED_MORE
    with parser.room(10) as room:
        assert len(room) >= 1_000_000 - 3 + 2


def test_a_buffer_that_held_a_large_body_shrinks_when_it_is_empty() -> None:
    parser = LinkParser()
    parser.feed(b"MSG a 1 9000000\r\n" + b"x" * 9_000_000 + b"\r\n")
    assert parser.next() == LinkOp.MSG
    assert parser.next() == LinkOp.NEED_MORE
    with parser.room(100):
        assert len(parser.buffer) < 1_000_000


def test_more_bytes_than_there_was_room_for_are_refused() -> None:
    parser = LinkParser()
    size = len(parser.room(10))
    with pytest.raises(ValueError, match="room"):
        parser.filled(size + 1)


def test_cleared_it_begins_anew_in_the_middle_of_a_frame() -> None:
    parser = LinkParser()
    parser.feed(b"MSG a 1 100\r\nabc")
    assert parser.next() == LinkOp.NEED_MORE
    parser.clear()
    parser.feed(b"PING\r\n")
    assert parser.next() == LinkOp.PING


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", 100),
        (b"NATS/1.0 408\r\n\r\n", 408),
        (b"NATS/1.0\r\n\r\n", 0),
        (b"NATS/1.0\r\nA: 404\r\n\r\n", 0),
        (b"NATS/1.0 abc\r\n\r\n", 0),
        (b"x", 0),
    ],
)
def test_the_status_is_the_number_on_the_first_line(block: bytes, status: int) -> None:
    parser = LinkParser()
    parser.feed(b"HMSG a 1 %d %d\r\n%b\r\n" % (len(block), len(block), block))
    assert parser.next() == LinkOp.MSG
    assert parser.status() == status
