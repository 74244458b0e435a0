"""LMSG, HMSG, LS+ and LS-, read by the parser and written by the buffer."""

import pytest

from millstream.protocol.outbuf import OutBuffer
from millstream.protocol.parser import Op, Parser, make_frame


def parser() -> Parser:
    made = Parser(4096, 1024)
    made.leaf = made.headers_allowed = True
    return made


def read(made: Parser) -> tuple[bytes, bytes, list[bytes] | None, bytes, bytes]:
    frame = made.frame
    return made.subject(), frame.reply(), made.queues, frame.headers(), frame.payload()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"LMSG a 2\r\nhi\r\n", (b"a", b"", None, b"", b"hi")),
        (b"LMSG a r 2\r\nhi\r\n", (b"a", b"r", None, b"", b"hi")),
        (b"LMSG a + r q 2\r\nhi\r\n", (b"a", b"r", [b"q"], b"", b"hi")),
        (b"LMSG a | q 2\r\nhi\r\n", (b"a", b"", [b"q"], b"", b"hi")),
        (b"LMSG a | q1 q2 q3 2\r\nhi\r\n", (b"a", b"", [b"q1", b"q2", b"q3"], b"", b"hi")),
        (b"HMSG a 4 6\r\nabcdhi\r\n", (b"a", b"", None, b"abcd", b"hi")),
        (b"HMSG a r 4 6\r\nabcdhi\r\n", (b"a", b"r", None, b"abcd", b"hi")),
        (b"HMSG a + r q1 q2 4 6\r\nabcdhi\r\n", (b"a", b"r", [b"q1", b"q2"], b"abcd", b"hi")),
        (b"HMSG a | q 4 6\r\nabcdhi\r\n", (b"a", b"", [b"q"], b"abcd", b"hi")),
    ],
    ids=lambda value: value.decode().split("\r\n")[0] if isinstance(value, bytes) else "",
)
@pytest.mark.parametrize("piece", [1, 3, 1000], ids=["bytes", "threes", "whole"])
def test_a_message_in_any_pieces(
    line: bytes, expected: tuple[bytes, bytes, list[bytes] | None, bytes, bytes], piece: int
) -> None:
    made = parser()
    data = b"LMSG before | x 0\r\n\r\n" + line
    found = []
    for at in range(0, len(data), piece):
        made.feed(data[at : at + piece])
        while (op := made.next()) != Op.NEED_MORE:
            assert op == Op.PUB
            found.append(read(made))
    assert found == [(b"before", b"", [b"x"], b"", b""), expected]


@pytest.mark.parametrize(
    ("line", "op"),
    [
        (b"LS+ a.>\r\n", Op.LEAF_SUB),
        (b"LS+ a q 3\r\n", Op.LEAF_SUB),
        (b"LS- a q\r\n", Op.LEAF_UNSUB),
        (b"ls- a\r\n", Op.LEAF_UNSUB),
        (b"PING\r\n", Op.PING),
        (b"INFO {}\r\n", Op.INFO),
        (b"LMSG a b\r\n", Op.BAD_ARGUMENTS),
        (b"LMSG a * q 1\r\n", Op.BAD_ARGUMENTS),
        (b"LMSG a + r 1\r\n", Op.PUB),
        (b"LMSG a\x01 1\r\nx\r\n", Op.UNCLEAN_PUB),
        (b"LMSG a 2000\r\n", Op.PAYLOAD_TOO_BIG),
        (b"LX a\r\n", Op.UNKNOWN),
        (b"SUB a 1\r\n", Op.UNKNOWN),
        (b"UNSUB 1\r\n", Op.UNKNOWN),
        (b"HPUB a 1 1\r\nx\r\n", Op.UNKNOWN),
    ],
    ids=lambda value: repr(value),
)
def test_other_lines(line: bytes, op: Op) -> None:
    made = parser()
    made.feed(line if op is not Op.PUB else b"LMSG a + r q 1\r\nx\r\n")
    assert made.next() == op


def test_a_client_knows_none_of_them() -> None:
    for line in (b"LMSG a 1\r\nx\r\n", b"LS+ a\r\n", b"HMSG a 1 1\r\nx\r\n"):
        made = Parser(4096, 1024)
        made.headers_allowed = True
        made.feed(line)
        assert made.next() == Op.UNKNOWN


@pytest.mark.parametrize("reply", [b"", b"r"], ids=["no reply", "reply"])
@pytest.mark.parametrize("block", [None, b"abcd"], ids=["plain", "headers"])
@pytest.mark.parametrize("queues", [None, [b"q"], [b"q1", b"q2"]], ids=["all", "a queue", "queues"])
def test_what_is_written_is_read_again(reply: bytes, block: bytes | None, queues: list[bytes] | None) -> None:
    out = OutBuffer()
    out.append_leaf_message(b"a.b", None, queues, make_frame(reply, block, b"hi"), True)
    out.append_leaf_message(b"a.b", None, queues, make_frame(reply, block, b"hi"), False)
    made = parser()
    made.feed(out.take())
    for headers in (block or b"", b""):
        assert made.next() == Op.PUB
        assert read(made) == (b"a.b", reply, queues, headers, b"hi")


def test_the_subject_that_receivers_see_follows_the_reply() -> None:
    out = OutBuffer()
    out.append_leaf_message(b"deliver", b"orders.1", [b"q"], make_frame(b"$JS.ACK.x", None, b"hi"), True)
    assert out.take() == b"LMSG deliver + $JS.ACK.x@orders.1 q 2\r\nhi\r\n"
