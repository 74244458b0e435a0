"""Bytes that servers send to our own client."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from millstream.link.errors import ProtocolViolation
from millstream.link.parser import LinkOp, LinkParser
from tests.fuzz.targets.client_protocol import cuts, split

WORDS = (
    b"MSG ", b"HMSG ", b"INFO {}", b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR 'x'\r\n", b"\r\n", b"\n",
    b" ", b"\t", b" 1 5\r\nhello\r\n",
    b"NATS/1.0 503\r\n\r\n", b"999999999", b"999999999999999999", b"MSG a 1 0\r\n\r\n",
    b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n",
)  # fmt: skip


def seeds() -> Iterator[bytes]:
    yield (
        b'\x3c\x07INFO {"server_id":"x"}\r\nMSG a.b 7 5\r\nhello\r\nPING\r\nMSG a.b 12 reply.to 0\r\n\r\n'
        b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n+OK\r\nHMSG a 1 r.1 16 17\r\nNATS/1.0 503\r\n\r\nx\r\n"
        b"-ERR 'Slow Consumer'\r\nPONG\r\nMSG x 1 6\r\n\r\n\r\n\r\n\r\n"
    )


def _events(pieces: Iterable[bytes], *, by_room: bool = False) -> list[tuple[Hashable, ...]]:
    parser = LinkParser(max_line=300, max_body=2000)
    found: list[tuple[Hashable, ...]] = []
    for piece in pieces:
        if by_room:
            with parser.room(len(piece)) as room:
                room[: len(piece)] = piece
            parser.filled(len(piece))
        else:
            parser.feed(piece)
        try:
            while (op := parser.next()) != LinkOp.NEED_MORE:
                if op == LinkOp.MSG:
                    parts = (
                        parser.subject(),
                        parser.sid,
                        parser.reply(),
                        parser.headers(),
                        parser.payload(),
                        parser.status(),
                    )
                    assert len(parser.payload()) == parser.payload_size
                    found.append(("MSG", *parts))
                else:
                    found.append((op, parser.line() if op in (LinkOp.INFO, LinkOp.ERR) else b""))
        except ProtocolViolation:
            found.append(("violation",))
            break
    return found


def check(data: bytes) -> Hashable:
    """A cut anywhere changes nothing."""
    if len(data) < 2:
        return None
    first, step, stream = data[0], data[1], data[2:]
    expected = _events([stream])
    assert _events(split(stream, first, step)) == expected
    assert _events(split(stream, first, step), by_room=True) == expected
    for pair in cuts(stream[:300], 20):
        assert _events(pair, by_room=True) == _events([stream[:300]])
    return tuple(event[0] for event in expected[-4:])
