"""Bytes that clients send to the broker: the protocol, header blocks, WebSocket frames."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterator

from millstream.protocol import headers
from millstream.protocol.websocket import Close, Event, FrameDecoder, FrameEncoder, FrameFailure
from millstream.protocol.websocket_mask import unmask
from tests.kits.naive.parser import Limits, naive_events, real_events

_LINES = (8, 20, 64, 4096)
_PAYLOADS = (0, 5, 32, 1000)
_KEY = b"\x11\x22\x83\xf4"
_NAMES = (b"Nats-Msg-Id", b"Nats-TTL", b"A", b"", b":")

WORDS = (
    b"PUB ", b"HPUB ", b"SUB ", b"UNSUB ", b"CONNECT ", b"PING", b"PONG", b"INFO ", b"+OK", b"-ERR ",
    b"\r\n", b"\n", b" ", b"\t", b"foo", b"a.b", b"*", b">", b"0", b"1", b"5", b"12", b"999999999",
    b"hello\r\n", b"NATS/1.0\r\n\r\n", b"{}", b"PUB foo 5\r\nhello\r\n",
    b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
)  # fmt: skip
HEADER_WORDS = (b"NATS/1.0", b"\r\n", b":", b"Nats-Msg-Id")


def split(data: bytes, first: int, step: int) -> Iterator[bytes]:
    """Pieces of `data` whose sizes grow from `first` by `step`, and begin anew beyond 61."""
    size = first
    while data:
        size = size % 61 + 1
        yield data[:size]
        data = data[size:]
        size += step


def cuts(data: bytes, most: int = 200) -> Iterator[tuple[bytes, bytes]]:
    """`data` in two pieces, cut at every place if it is short, else at `most` of them."""
    for place in range(0, len(data) + 1, max(1, len(data) // most)):
        yield data[:place], data[place:]


def protocol_seeds() -> Iterator[bytes]:
    stream = b'CONNECT {"verbose":false}\r\nSUB foo.* q 1\r\nPUB foo.a r 5\r\nhello\r\nUNSUB 1 5\r\nPING\r\n'
    stream += b"HPUB a 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPONG\r\nPUB x 0\r\n\r\nINFO {}\r\n+OK\r\n-ERR 'x'\r\n"
    for choice in range(64):
        yield bytes((choice, 60, 7)) + stream


def check_protocol(data: bytes) -> Hashable:
    """Compare with the naive parser; the first bytes choose the limits and how the rest is cut."""
    if len(data) < 3:
        return None
    choice, first, step, stream = data[0], data[1], data[2], data[3:]
    limits = Limits(
        max_control_line=_LINES[choice & 3],
        max_payload=_PAYLOADS[choice >> 2 & 3],
        headers_allowed=bool(choice & 16),
        connect_first=bool(choice & 32),
    )
    expected = naive_events(stream, limits)
    assert real_events(split(stream, first, step), limits) == expected
    assert real_events([stream], limits) == expected
    for pair in cuts(stream[:400], 20):
        assert real_events(pair, limits) == naive_events(stream[:400], limits)
    return tuple(event.op for event in expected[-4:])


def check_headers(data: bytes) -> Hashable:
    """Headers that were added are found, and removed ones are not."""
    found = tuple(headers.find(data, name) is not None for name in _NAMES)
    status = headers.status(data)
    headers.without_status(data)
    replaced = headers.replace(data, b"Nats-Msg-Id", b"new")
    assert headers.find(replaced, b"Nats-Msg-Id") == b"new", replaced
    removed = headers.remove(data, b"Nats-")
    assert headers.find(removed, b"Nats-Msg-Id") is None or b"\r\nNats-" not in removed
    return found, len(status)


def header_seeds() -> Iterator[bytes]:
    yield headers.make((b"Nats-Msg-Id", b"1"), (b"A", b"b"))
    yield b"NATS/1.0 503 No Responders\r\n\r\n"
    yield b"NATS/1.0\r\nA: b\r\nA:c\r\n\r\n"


def _frame(first: int, payload: bytes) -> bytes:
    size = len(payload)
    head = bytes((first, 0x80 | size)) if size < 126 else bytes((first, 0xFE)) + size.to_bytes(2, "big")
    return head + _KEY + unmask(payload, _KEY, 0)


def websocket_seeds() -> Iterator[bytes]:
    deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = (deflater.compress(b"PUB a 5\r\nhello\r\n" * 20) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]
    frames = (
        _frame(0x82, b"PING\r\n") + _frame(0x02, b"PU") + _frame(0x89, b"?") + _frame(0x80, b"B a 0\r\n\r\n")
    )
    frames += (
        _frame(0xC2, packed) + _frame(0x8A, b"") + _frame(0x82, b"x" * 300) + _frame(0x88, b"\x03\xe8bye")
    )
    for choice in range(4):
        yield bytes((choice,)) + frames
    yield b"\x05" + FrameEncoder(compressed=True, max_frame_size=16).frame(b"hello " * 40)


def _decoded(choice: int, pieces: tuple[bytes, ...]) -> list[Event]:
    decoder = FrameDecoder(
        require_mask=not choice & 4, compressed=bool(choice & 1), max_payload=1000 if choice & 2 else 200
    )
    events: list[Event] = []
    for piece in pieces:
        for event in decoder.feed(piece):
            if isinstance(event, bytes) and events and isinstance(events[-1], bytes):
                events[-1] += event
            else:
                events.append(event)
    return events


def check_websocket(data: bytes) -> Hashable:
    """Frames mean the same however they are cut, and nothing follows an end."""
    if not data:
        return None
    choice, stream = data[0], data[1:]
    expected = _decoded(choice, (stream,))
    for pair in cuts(stream, 40):
        assert _decoded(choice, pair) == expected, pair
    ends = [isinstance(event, Close | FrameFailure) for event in expected]
    assert not any(ends[:-1])
    last = expected[-1] if expected else None
    return tuple(map(type, expected[-3:])), last.message[:40] if isinstance(last, FrameFailure) else ""


def check_masking(data: bytes) -> Hashable:
    """Compare with the definition, and with itself."""
    if len(data) < 5:
        return None
    offset, key, payload = data[0], data[1:5], data[5:]
    masked = unmask(payload, key, offset)
    assert masked == bytes(byte ^ key[(place + offset) & 3] for place, byte in enumerate(payload))
    assert unmask(masked, key, offset) == payload
    return len(payload) & 7, offset & 3
