"""Bytes in, operations out: every frame, every cut, every mistake at its byte."""

import pytest

from millstream.protocol.parser import Op, Parser, make_frame

MAX_LINE = 64
MAX_PAYLOAD = 100

# Each frame with what it means: the operation, then the argument, or subject, reply, headers, payload.
FRAMES: list[tuple[bytes, tuple[object, ...]]] = [
    (b"PUB foo 5\r\nhello\r\n", (Op.PUB, b"foo", b"", None, b"hello")),
    (b"pub foo 0\r\n\r\n", (Op.PUB, b"foo", b"", None, b"")),
    (b"PUB foo.bar INBOX.22 11\r\nKnock Knock\r\n", (Op.PUB, b"foo.bar", b"INBOX.22", None, b"Knock Knock")),
    (b"PUB\tfoo\t \treply\t 2 \t\r\nhi\r\n", (Op.PUB, b"foo", b"reply", None, b"hi")),
    (b"PuB   foo 2\nhi\r\n", (Op.PUB, b"foo", b"", None, b"hi")),
    (b"PUB foo 4\r\n\r\n\r\n\r\n", (Op.PUB, b"foo", b"", None, b"\r\n\r\n")),
    (b"PUB foo 000000002\r\nhi\r\n", (Op.PUB, b"foo", b"", None, b"hi")),
    (b"PUB foo 12\r\nPUB x 1\r\ny\r\n\r\n", (Op.PUB, b"foo", b"", None, b"PUB x 1\r\ny\r\n")),
    (b"PUB \xc3\xa9t\xc3\xa9 2\r\nhi\r\n", (Op.PUB, "été".encode(), b"", None, b"hi")),
    (b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n", (Op.PUB, b"foo", b"", b"NATS/1.0\r\n\r\n", b"hi")),
    (b"hpub foo bar 12 12\r\nNATS/1.0\r\n\r\n\r\n", (Op.PUB, b"foo", b"bar", b"NATS/1.0\r\n\r\n", b"")),
    (b"HPUB foo 0 2\r\nhi\r\n", (Op.PUB, b"foo", b"", None, b"hi")),
    (b"HPUB foo 4 6\r\nabcdhi\r\n", (Op.PUB, b"foo", b"", b"abcd", b"hi")),
    (b"SUB foo 1\r\n", (Op.SUB, b"foo 1")),
    (b"sub\t foo.*  workers\t1 \r\n", (Op.SUB, b"foo.*  workers\t1 ")),
    (b"SUB foo 1\n", (Op.SUB, b"foo 1")),
    (b"SUB \r\n", (Op.SUB, b"\r")),
    (b"SUB \nfoo 1\r\n", (Op.SUB, b"\nfoo 1")),
    (b"SUB foo\r 12\n", (Op.SUB, b"foo\r 1")),
    (b"PUB \nfoo 2\r\nhi\r\n", (Op.UNCLEAN_PUB, b"\nfoo", b"", None, b"hi")),
    (b"PUB \rfoo 2\nhi\r\n", (Op.UNCLEAN_PUB, b"\rfoo", b"", None, b"hi")),
    (b"PUB fo\ro \r 2\r\nhi\r\n", (Op.UNCLEAN_PUB, b"fo\ro", b"\r", None, b"hi")),
    (b"PUB foo\r 23\nhi\r\n", (Op.UNCLEAN_PUB, b"foo\r", b"", None, b"hi")),
    (b"HPUB a\rb c 0 2\r\nhi\r\n", (Op.UNCLEAN_PUB, b"a\rb", b"c", None, b"hi")),
    (b"PUB a\x00b 2\r\nhi\r\n", (Op.UNCLEAN_PUB, b"a\x00b", b"", None, b"hi")),
    (b"PUB a \x0bb\x1f 2\r\nhi\r\n", (Op.UNCLEAN_PUB, b"a", b"\x0bb\x1f", None, b"hi")),
    (b"HPUB \x01 b 0 2\r\nhi\r\n", (Op.UNCLEAN_PUB, b"\x01", b"b", None, b"hi")),
    (b"PUB a\x7fb 2\r\nhi\r\n", (Op.PUB, b"a\x7fb", b"", None, b"hi")),
    (b"UNSUB 1\r\n", (Op.UNSUB, b"1")),
    (b"Unsub 1 5\r\n", (Op.UNSUB, b"1 5")),
    (b'CONNECT {"verbose":false}\r\n', (Op.CONNECT, b'{"verbose":false}')),
    (b"CONNECT{}\r\n", (Op.CONNECT, b"{}")),
    (b"connect   {}\r\n", (Op.CONNECT, b"{}")),
    (b"CONNECT\r\n", (Op.CONNECT, b"\r")),
    (b"CONNECT\n{}\r\n", (Op.CONNECT, b"\n{}")),
    (b"PING\r\n", (Op.PING, b"")),
    (b"ping\n", (Op.PING, b"")),
    (b"PING whatever stands here\r\n", (Op.PING, b"")),
    (b"PONG\r\n", (Op.PONG, b"")),
    (b"pongpong\r\n", (Op.PONG, b"")),
    (b"INFO {}\r\n", (Op.INFO, b"{}")),
    (b"+OK\r\n", (Op.OK, b"")),
    (b"+ok sure\r\n", (Op.OK, b"")),
    (b"-ERR 'no'\r\n", (Op.ERR, b"'no'")),
]  # fmt: skip
WIRE = b"".join(frame for frame, _ in FRAMES)
MEANING = [meaning for _, meaning in FRAMES]

# Wrong frames: what is said, and after which byte it is said when they come one by one.
WRONG: list[tuple[bytes, Op, int]] = [
    (b"X", Op.UNKNOWN, 1),
    (b"\r\n", Op.UNKNOWN, 1),
    (b"\n", Op.UNKNOWN, 1),
    (b" PING\r\n", Op.UNKNOWN, 1),
    (b"\x00", Op.UNKNOWN, 1),
    (b"\xff\xff", Op.UNKNOWN, 1),
    (b"MSG foo 1 2\r\nhi\r\n", Op.UNKNOWN, 1),
    (b"GET / HTTP/1.1\r\n", Op.UNKNOWN, 1),
    (b"\x16\x03\x01", Op.UNKNOWN, 1),
    (b"PX", Op.UNKNOWN, 2),
    (b"PUX", Op.UNKNOWN, 3),
    (b"PUBfoo", Op.UNKNOWN, 4),
    (b"PUB\r\n", Op.UNKNOWN, 4),
    (b"PINX", Op.UNKNOWN, 4),
    (b"POX", Op.UNKNOWN, 3),
    (b"HMSG", Op.UNKNOWN, 2),
    (b"HPUB5", Op.UNKNOWN, 5),
    (b"SUBfoo", Op.UNKNOWN, 4),
    (b"SUB\r\n", Op.UNKNOWN, 4),
    (b"UNSUB\r\n", Op.UNKNOWN, 6),
    (b"COBOL", Op.UNKNOWN, 3),
    (b"INFX", Op.UNKNOWN, 4),
    (b"+KO", Op.UNKNOWN, 2),
    (b"-OK", Op.UNKNOWN, 2),
    (b"\x0bOK", Op.UNKNOWN, 1),  # what + would be without the bit that makes letters small
    (b"-ERR\r\n", Op.UNKNOWN, 5),
    (b"-ERRx", Op.UNKNOWN, 5),
    (b"PUB foo 2\r\nhello\r\n", Op.BAD_BODY, 14),  # the byte after the body is not CR
    (b"PUB foo 2\r\nhi\n\r\n", Op.BAD_BODY, 14),
    (b"PUB foo 2\r\nhi\rx", Op.BAD_BODY, 15),
    (b"PUB foo\r\n", Op.BAD_ARGUMENTS, 9),
    (b"PUB \r\n", Op.BAD_ARGUMENTS, 6),
    (b"PUB foo bar baz 2\r\n", Op.BAD_ARGUMENTS, 19),
    (b"PUB foo x\r\n", Op.BAD_ARGUMENTS, 11),
    (b"PUB foo 2\r\r\n", Op.BAD_ARGUMENTS, 12),
    (b"PUB foo\r2\r\n", Op.BAD_ARGUMENTS, 11),
    (b"PUB foo -1\r\n", Op.BAD_ARGUMENTS, 12),
    (b"PUB foo +1\r\n", Op.BAD_ARGUMENTS, 12),
    (b"PUB foo 1.0\r\n", Op.BAD_ARGUMENTS, 13),
    (b"PUB foo 0x1\r\n", Op.BAD_ARGUMENTS, 13),
    (b"PUB foo 0000000002\r\n", Op.BAD_ARGUMENTS, 20),  # ten digits
    (b"PUB foo 99999999999999999999\r\n", Op.BAD_ARGUMENTS, 30),
    (b"PUB foo \xd9\xa3\r\n", Op.BAD_ARGUMENTS, 12),  # a digit, but not an ASCII one
    (b"HPUB foo 2\r\n", Op.BAD_ARGUMENTS, 12),
    (b"HPUB a b c 2 2\r\n", Op.BAD_ARGUMENTS, 16),
    (b"HPUB foo 3 2\r\n", Op.BAD_ARGUMENTS, 14),
    (b"HPUB foo x 2\r\n", Op.BAD_ARGUMENTS, 14),
    (b"HPUB foo 2 x\r\n", Op.BAD_ARGUMENTS, 14),
    (b"HPUB foo -1 2\r\n", Op.BAD_ARGUMENTS, 15),
    (b"PUB foo 101\r\n", Op.PAYLOAD_TOO_BIG, 13),
    (b"PUB foo 999999999\r\n", Op.PAYLOAD_TOO_BIG, 19),
    (b"HPUB foo 2 101\r\n", Op.PAYLOAD_TOO_BIG, 16),
    (b"SUB " + b"x" * 70, Op.LINE_TOO_LONG, 4 + MAX_LINE + 2),
    (b"CONNECT " + b"x" * 70, Op.LINE_TOO_LONG, 8 + MAX_LINE + 2),
    (b"PUB " + b"x" * 70, Op.LINE_TOO_LONG, 4 + MAX_LINE + 2),
    (b"PUB x" + b" " * 70, Op.LINE_TOO_LONG, 4 + MAX_LINE + 2),
    (b"SUB " + b"x" * 65 + b"\r\n", Op.LINE_TOO_LONG, 4 + MAX_LINE + 2),
    (b"SUB " + b"x" * 65 + b"\n", Op.LINE_TOO_LONG, 4 + MAX_LINE + 2),
    (b"PUB " + b"x" * 63 + b" 1\n", Op.LINE_TOO_LONG, 4 + MAX_LINE + 2),
]  # fmt: skip


def new_parser() -> Parser:
    parser = Parser(MAX_LINE, MAX_PAYLOAD)
    parser.headers_allowed = True
    return parser


def meaning_of(parser: Parser, op: int) -> tuple[object, ...]:
    if op not in (Op.PUB, Op.UNCLEAN_PUB):
        return (Op(op), parser.argument())
    frame = parser.frame
    headers = frame.headers() if frame.header_size >= 0 else None
    return (Op(op), parser.subject(), frame.reply(), headers, frame.payload())


def everything(parser: Parser, chunks: list[bytes]) -> list[tuple[object, ...]]:
    found = []
    for chunk in chunks:
        parser.feed(chunk)
        while (op := parser.next()) != Op.NEED_MORE:
            assert op > 0, Op(op)
            found.append(meaning_of(parser, op))
    return found


@pytest.mark.parametrize(("frame", "meaning"), FRAMES, ids=lambda value: repr(value)[:40])
def test_a_frame_means_the_same_at_every_cut(frame: bytes, meaning: tuple[object, ...]) -> None:
    for cut in range(len(frame) + 1):
        parser = new_parser()
        assert everything(parser, [frame[:cut], frame[cut:]]) == [meaning], cut
        assert not parser.has_rest()


@pytest.mark.parametrize("size", [*range(1, 40), 64, 100, 255, 4096])
def test_a_stream_means_the_same_in_chunks_of_any_size(size: int) -> None:
    chunks = [WIRE[i : i + size] for i in range(0, len(WIRE), size)]
    assert everything(new_parser(), chunks) == MEANING


def test_two_cuts_in_one_frame_are_put_together() -> None:
    frame, meaning = FRAMES[10]
    for first in range(len(frame)):
        for second in range(first, len(frame)):
            chunks = [frame[:first], frame[first:second], frame[second:]]
            assert everything(new_parser(), chunks) == [meaning], (first, second)


@pytest.mark.parametrize(("frame", "meaning"), FRAMES, ids=lambda value: repr(value)[:40])
def test_a_body_may_be_read_into_the_parser_in_any_pieces(frame: bytes, meaning: tuple[object, ...]) -> None:
    for cut in range(1, len(frame)):
        for size in (1, 3, 1000):
            parser = new_parser()
            parser.feed(frame[:cut])
            if parser.next() != Op.NEED_MORE or not parser.wants():
                continue
            rest = frame[cut:]
            while rest:
                room = parser.room()
                assert len(room) == parser.wants() == len(rest)
                count = min(size, len(rest))
                room[:count] = rest[:count]
                parser.filled(count)
                rest = rest[count:]
            assert meaning_of(parser, parser.next()) == meaning
            assert parser.next() == Op.NEED_MORE
            assert not parser.has_rest()


def test_a_parser_wants_nothing_while_it_has_input_that_was_not_looked_at() -> None:
    parser = new_parser()
    parser.feed(b"PUB a 10\r\n123")
    assert parser.next() == Op.NEED_MORE
    assert parser.wants() == 9
    parser.feed(b"456")
    assert parser.wants() == 0
    assert parser.next() == Op.NEED_MORE
    assert parser.wants() == 6
    with pytest.raises(ValueError, match="smaller"):
        parser.filled(7)


def test_empty_chunks_change_nothing() -> None:
    chunks = [part for i in range(len(WIRE)) for part in (b"", WIRE[i : i + 1])]
    assert everything(new_parser(), chunks) == MEANING


@pytest.mark.parametrize(("frame", "op", "at"), WRONG, ids=lambda value: repr(value)[:40])
def test_a_mistake_is_seen_at_its_byte(frame: bytes, op: Op, at: int) -> None:
    parser = new_parser()
    for index in range(at - 1):
        parser.feed(frame[index : index + 1])
        assert parser.next() == Op.NEED_MORE, index
    parser.feed(frame[at - 1 : at])
    assert parser.next() == op


@pytest.mark.parametrize(("frame", "op", "at"), WRONG, ids=lambda value: repr(value)[:40])
def test_a_mistake_is_the_same_all_at_once_and_behind_good_frames(frame: bytes, op: Op, at: int) -> None:
    parser = new_parser()
    parser.feed(b"PING\r\n" + FRAMES[0][0] + frame)
    assert parser.next() == Op.PING
    assert parser.next() == Op.PUB
    assert parser.next() == op


# -- limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [b"\r\n", b"\n"])
@pytest.mark.parametrize(
    ("start", "end"), [(b"SUB ", b""), (b"CONNECT ", b""), (b"INFO ", b""), (b"-ERR ", b""), (b"PUB ", b" 0")]
)
@pytest.mark.parametrize(("excess", "fits"), [(-1, True), (0, True), (1, False)])
def test_the_limit_of_a_line_counts_its_arguments_without_the_ending(
    start: bytes, end: bytes, ending: bytes, excess: int, fits: bool
) -> None:
    arguments = b"x" * (MAX_LINE + excess - len(end)) + end
    parser = new_parser()
    parser.feed(start + arguments + ending + b"\r\n" * (start == b"PUB "))
    if fits:
        assert parser.next() > 0
    else:
        assert parser.next() == Op.LINE_TOO_LONG


def test_blanks_before_the_arguments_do_not_count_as_line() -> None:
    parser = new_parser()
    parser.feed(b"SUB " + b" \t" * MAX_LINE + b"foo 1\r\nPUB " + b" " * MAX_LINE + b"foo 0\r\n\r\n")
    assert parser.next() == Op.SUB
    assert parser.argument() == b"foo 1"
    assert parser.next() == Op.PUB
    assert parser.subject() == b"foo"


def test_blanks_before_the_arguments_may_come_in_any_number_of_chunks() -> None:
    for start, rest, op in ((b"SUB ", b"foo 1\r\n", Op.SUB), (b"HPUB ", b"foo 0 0\r\n\r\n", Op.PUB)):
        parser = new_parser()
        parser.feed(b"PING\r\n" + start)
        assert parser.next() == Op.PING
        for _ in range(10):
            assert parser.next() == Op.NEED_MORE
            assert parser.has_rest()
            parser.feed(b" \t " * 30)
        assert parser.next() == Op.NEED_MORE
        parser.feed(rest)
        assert parser.next() == op


@pytest.mark.parametrize(("size", "op"), [(99, Op.PUB), (100, Op.PUB), (101, Op.PAYLOAD_TOO_BIG)])
@pytest.mark.parametrize("line", [b"PUB foo %d\r\n", b"HPUB foo 10 %d\r\n"])
def test_the_limit_of_a_payload_includes_headers(line: bytes, size: int, op: Op) -> None:
    parser = new_parser()
    parser.feed(line % size + b"x" * size + b"\r\n")
    assert parser.next() == op
    assert parser.frame.body_size == size


def test_limits_may_change_between_calls() -> None:
    parser = new_parser()
    parser.feed(b"PUB foo 5\r\nhello\r\n" * 2)
    assert parser.next() == Op.PUB
    parser.max_payload = 4
    assert parser.next() == Op.PAYLOAD_TOO_BIG


# -- headers, CONNECT first ---------------------------------------------------------------------------


def test_hpub_before_headers_were_negotiated_is_a_violation() -> None:
    parser = Parser(MAX_LINE, MAX_PAYLOAD)
    parser.feed(b"HPUB foo 12 14\r\n")
    assert parser.next() == Op.BAD_ARGUMENTS


@pytest.mark.parametrize("first", [b"P", b"PUB foo 0\r\n\r\n", b"S", b"-", b"\r", b"\x00", b"#"])
def test_anything_but_connect_is_refused_while_connect_is_wanted(first: bytes) -> None:
    parser = new_parser()
    parser.connect_first = True
    parser.feed(first)
    assert parser.next() == Op.CONNECT_WANTED


@pytest.mark.parametrize("word", [b"CONNECT", b"connect", b"cOnNeCt"])
def test_connect_is_taken_while_it_is_wanted(word: bytes) -> None:
    parser = new_parser()
    parser.connect_first = True
    parser.feed(word + b" {}\r\n")
    assert parser.next() == Op.CONNECT


def test_nothing_is_consumed_by_asking_for_connect() -> None:
    parser = new_parser()
    parser.connect_first = True
    parser.feed(b"PUB foo 2\r\nhi\r\n")
    assert parser.next() == Op.CONNECT_WANTED
    parser.connect_first = False
    assert parser.next() == Op.PUB
    assert parser.frame.payload() == b"hi"


# -- state ------------------------------------------------------------------------------------------


def test_asking_again_after_need_more_gives_need_more() -> None:
    for frame, _ in FRAMES:
        for cut in range(len(frame)):
            parser = new_parser()
            parser.feed(frame[:cut])
            assert [parser.next() for _ in range(3)] == [Op.NEED_MORE] * 3
            assert parser.has_rest() == (cut > 0)


def test_a_stopped_parser_keeps_what_was_not_asked_for() -> None:
    parser = new_parser()
    parser.feed(b"CONNECT {}\r\nPUB foo 5\r\nhe")
    assert parser.next() == Op.CONNECT
    assert parser.has_rest()
    parser.feed(b"llo\r\nPING\r\n")  # as a connection does that was suspended after CONNECT
    assert parser.next() == Op.PUB
    assert parser.frame.payload() == b"hello"
    assert parser.next() == Op.PING
    assert not parser.has_rest()


def test_subject_is_compares_with_the_subject_just_parsed() -> None:
    parser = new_parser()
    parser.feed(b"PUB foo.bar 0\r\n\r\n")
    assert parser.next() == Op.PUB
    assert parser.subject_is(b"foo.bar")
    for other in (b"foo.ba", b"foo.barr", b"foo.baz", b"Foo.bar", b""):
        assert not parser.subject_is(other)


def test_a_frame_of_our_own_reads_like_one_that_was_parsed() -> None:
    frame = make_frame(b"inbox", b"NATS/1.0\r\n\r\n", b"hi")
    assert (frame.reply(), frame.headers(), frame.payload()) == (b"inbox", b"NATS/1.0\r\n\r\n", b"hi")
    assert (frame.header_size, frame.body_size) == (12, 14)
    plain = make_frame(b"", None, b"hi")
    assert (plain.reply(), plain.headers(), plain.payload()) == (b"", b"", b"hi")
    assert (plain.header_size, plain.body_size) == (-1, 2)
