"""The output buffer: what it holds equals plain formatting, whatever its size and history."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.protocol.outbuf import OutBuffer
from millstream.protocol.parser import Op, Parser, make_frame

HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"


def formatted(prefix: bytes, reply: bytes, headers: bytes | None, payload: bytes, keep: bool) -> bytes:
    """The message as anybody would write it."""
    line = prefix + (reply + b" " if reply else b"")
    if headers is None or not keep:
        return line + str(len(payload)).encode() + b"\r\n" + payload + b"\r\n"
    total = len(headers) + len(payload)
    return b"H" + line + f"{len(headers)} {total}".encode() + b"\r\n" + headers + payload + b"\r\n"


MESSAGES = st.tuples(
    st.sampled_from([b"MSG foo 1 ", b"MSG " + b"x" * 300 + b" 123456 "]),
    st.sampled_from([b"", b"_INBOX.1", b"r" * 200]),
    st.one_of(st.none(), st.just(b""), st.just(HEADERS), st.binary(max_size=40)),
    st.one_of(st.binary(max_size=40), st.integers(0, 40_000).map(lambda size: b"p" * size)),
    st.booleans(),
)


@pytest.mark.parametrize(
    ("reply", "headers", "payload", "keep", "written"),
    [
        (b"", None, b"hi", True, b"MSG foo 1 2\r\nhi\r\n"),
        (b"", None, b"", False, b"MSG foo 1 0\r\n\r\n"),
        (b"inbox", None, b"0123456789", True, b"MSG foo 1 inbox 10\r\n0123456789\r\n"),
        (b"", HEADERS, b"hi", True, b"HMSG foo 1 18 20\r\n" + HEADERS + b"hi\r\n"),
        (b"inbox", HEADERS, b"", True, b"HMSG foo 1 inbox 18 18\r\n" + HEADERS + b"\r\n"),
        (b"", b"", b"hi", True, b"HMSG foo 1 0 2\r\nhi\r\n"),
        (b"inbox", HEADERS, b"hi", False, b"MSG foo 1 inbox 2\r\nhi\r\n"),
        (b"", HEADERS, b"", False, b"MSG foo 1 0\r\n\r\n"),
    ],
)
def test_a_message_is_written_as_the_protocol_says(
    reply: bytes, headers: bytes | None, payload: bytes, keep: bool, written: bytes
) -> None:
    out = OutBuffer()
    out.append_message(b"MSG foo 1 ", make_frame(reply, headers, payload), keep)
    assert out.size == len(written)
    assert out.take() == written


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(MESSAGES, st.binary(max_size=30), st.just(None)), max_size=30))
def test_any_sequence_equals_plain_formatting(steps: list[object]) -> None:
    out = OutBuffer()
    expected = b""
    for step in steps:
        if step is None:
            assert out.take() == expected
            expected = b""
        elif isinstance(step, bytes):
            out.append(step)
            expected += step
        else:
            assert isinstance(step, tuple)
            prefix, reply, headers, payload, keep = step
            out.append_message(prefix, make_frame(reply, headers, payload), keep)
            expected += formatted(prefix, reply, headers, payload, keep)
        assert out.size == len(expected)
    assert out.take() == expected
    assert out.size == 0


@pytest.mark.parametrize("size", [0, 1, 9, 10, 99, 100, 999, 1000, 16_383, 16_384, 16_385, 65_536, 999_999])
def test_a_message_of_any_size_fits_an_empty_and_a_half_full_buffer(size: int) -> None:
    frame = make_frame(b"", None, b"x" * size)
    for filled in (b"", b"y" * 10_000):
        out = OutBuffer()
        out.append(filled)
        out.append_message(b"MSG foo 1 ", frame, True)
        assert out.take() == filled + b"MSG foo 1 %d\r\n" % size + b"x" * size + b"\r\n"


def test_growing_keeps_what_is_there() -> None:
    out = OutBuffer()
    pieces = [bytes([48 + i % 10]) * 997 for i in range(500)]
    for piece in pieces:
        out.append(piece)
    assert out.take() == b"".join(pieces)


def test_what_was_taken_is_not_changed_by_later_writes() -> None:
    out = OutBuffer()
    out.append(b"first")
    taken = out.take()
    out.append(b"OTHER")
    assert taken == b"first"
    assert isinstance(taken, bytes)


def test_taking_from_an_empty_buffer_gives_nothing() -> None:
    out = OutBuffer()
    assert out.take() == b""
    out.append(b"")
    assert out.take() == b""


@pytest.mark.parametrize("size", [16 * 1024, 1024 * 1024, 1024 * 1024 + 1, 3_000_000])
def test_a_buffer_can_be_used_again_after_any_size(size: int) -> None:
    out = OutBuffer()
    out.append(b"x" * size)
    assert out.take() == b"x" * size
    out.append(b"again")
    assert out.take() == b"again"


def test_a_parsed_frame_is_forwarded_byte_for_byte() -> None:
    parser = Parser(4096, 1024)
    parser.headers_allowed = True
    body = bytes(range(256))
    parser.feed(b"PING\r\nHPUB a.b reply.to 3 %d\r\n%b\r\nPUB c 1\r\n.\r\n" % (len(body), body))
    out = OutBuffer()
    found = []
    while (op := parser.next()) != Op.NEED_MORE:
        if op == Op.PUB:
            out.append_message(b"MSG %b 7 " % parser.subject(), parser.frame, True)
            found.append(parser.subject())
    assert found == [b"a.b", b"c"]
    assert out.take() == b"HMSG a.b 7 reply.to 3 256\r\n" + body + b"\r\nMSG c 7 1\r\n.\r\n"


@pytest.mark.parametrize(
    "number", [0, 2**64 - 1, *(10**digits + step for digits in range(1, 20) for step in (-1, 0, 1))]
)
def test_numbers_of_every_length_are_written(number: int) -> None:
    out = OutBuffer()
    text = str(number).encode()
    assert out.append_answer(b"1", b"reply}", 0, 5, b"{", number, 1) == len(text) + 2
    assert out.take() == b"MSG reply 1 %d\r\n{%b}\r\n" % (len(text) + 2, text)
