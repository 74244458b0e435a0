"""Heads of answers, as the end that connects reads them."""

import pytest

from millstream.http.head import ResponseReader

_WIRE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nA: 1\r\na:  2 \r\n\r\nmore"


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_an_answer_in_any_pieces(step: int) -> None:
    reader, rest = ResponseReader(1000), _WIRE
    answer = None
    while answer is None:
        piece, rest = rest[:step], rest[step:]
        answer = reader.feed(piece)
    assert (answer.status, answer.line) == (101, "HTTP/1.1 101 Switching Protocols")
    assert (answer.first("upgrade"), answer.headers["a"], answer.first("b")) == ("websocket", ["1", "2"], "")
    assert answer.rest + rest == b"more"


@pytest.mark.parametrize(
    "wire",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 O\x01K\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: \x00\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200,
        b"x" * 1001,
    ],
)
def test_what_is_no_answer_is_refused(wire: bytes) -> None:
    with pytest.raises(ValueError, match="answer"):
        ResponseReader(1000).feed(wire)
