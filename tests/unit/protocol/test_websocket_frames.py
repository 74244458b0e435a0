"""Frames are read however they are cut, wrong ones are named, and what is written can be read."""

import itertools
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.protocol.websocket import (
    BROWSER_FRAME_SIZE,
    Close,
    CloseStatus,
    Event,
    FrameDecoder,
    FrameEncoder,
    FrameFailure,
    Ping,
    close_frame,
    pong_frame,
)

FINAL, RSV1 = 0x80, 0x40
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KEY = b"\x11\x22\x83\xf4"


def client_frame(first: int, payload: bytes = b"", *, mask: bool = True, long_length: bool = False) -> bytes:
    bit = 0x80 if mask else 0
    if long_length or len(payload) > 65535:
        header = struct.pack(">BBQ", first, bit | 127, len(payload))
    elif len(payload) > 125:
        header = struct.pack(">BBH", first, bit | 126, len(payload))
    else:
        header = struct.pack(">BB", first, bit | len(payload))
    if not mask:
        return header + payload
    return header + KEY + bytes(byte ^ KEY[position % 4] for position, byte in enumerate(payload))


def deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
    return (deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]


def decoder(*, mask: bool = True, compressed: bool = False, max_payload: int = 1000) -> FrameDecoder:
    return FrameDecoder(require_mask=mask, compressed=compressed, max_payload=max_payload)


def joined(events: list[Event]) -> list[Event]:
    """Return the events with payloads put together that the reads had cut."""
    result: list[Event] = []
    for event in events:
        if isinstance(event, bytes) and result and isinstance(result[-1], bytes):
            result[-1] += event
        else:
            result.append(event)
    return result


CONVERSATION = (
    client_frame(FINAL | BINARY, b"PING\r\n")
    + client_frame(FINAL | TEXT, b"x" * 200)
    + client_frame(BINARY, b"PUB a 5\r\n")
    + client_frame(FINAL | PING, b"are you there")
    + client_frame(CONTINUATION, b"")
    + client_frame(CONTINUATION, b"hel")
    + client_frame(FINAL | PONG, b"ignored")
    + client_frame(FINAL | CONTINUATION, b"lo\r\n", long_length=True)
    + client_frame(FINAL | RSV1 | BINARY, deflate(b"SUB b 1\r\n" * 10))
    + client_frame(RSV1 | BINARY, deflate(b"SUB c 2\r\n" * 10)[:7])
    + client_frame(FINAL | PING)
    + client_frame(FINAL | CONTINUATION, deflate(b"SUB c 2\r\n" * 10)[7:])
    + client_frame(FINAL | CLOSE, struct.pack(">H", 1000) + b"bye")
)
MEANING: list[Event] = [
    b"PING\r\n" + b"x" * 200 + b"PUB a 5\r\n",
    Ping(b"are you there"),
    b"hello\r\n" + b"SUB b 1\r\n" * 10,
    Ping(b""),
    b"SUB c 2\r\n" * 10,
    Close(b"\x88\x05\x03\xe8bye"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_frames_survive_any_read_size(size: int) -> None:
    reader = decoder(compressed=True)
    events = [
        event
        for start in range(0, len(CONVERSATION), size)
        for event in reader.feed(CONVERSATION[start : start + size])
    ]
    assert joined(events) == MEANING


def test_frames_survive_a_cut_at_every_byte() -> None:
    for cut in range(len(CONVERSATION) + 1):
        reader = decoder(compressed=True)
        events = reader.feed(CONVERSATION[:cut]) + reader.feed(CONVERSATION[cut:])
        assert joined(events) == MEANING, f"cut at {cut}"


def test_one_read_gives_its_payload_in_one_piece() -> None:
    assert decoder().feed(client_frame(FINAL | BINARY, b"PING\r\n") * 3) == [b"PING\r\n" * 3]


def test_payload_is_handed_on_before_its_frame_is_complete() -> None:
    frame = client_frame(FINAL | BINARY, b"x" * 10_000)
    assert decoder().feed(frame[:5008]) == [b"x" * 5000]


@given(
    messages=st.lists(st.tuples(st.binary(max_size=300), st.booleans(), st.integers(1, 50)), max_size=6),
    cuts=st.lists(st.integers(0, 2000), max_size=8),
    mask=st.booleans(),
)
def test_any_messages_in_any_fragments_come_out_as_they_went_in(
    messages: list[tuple[bytes, bool, int]], cuts: list[int], mask: bool
) -> None:
    wire = b""
    for payload, compress, piece in messages:
        body = deflate(payload) if compress else payload
        pieces = [body[at : at + piece] for at in range(0, len(body), piece)] or [b""]
        for number, part in enumerate(pieces):
            first = 0 if number else BINARY | (RSV1 if compress else 0)
            last = FINAL if number == len(pieces) - 1 else 0
            wire += client_frame(first | last, part, mask=mask)
    reader = decoder(mask=mask, compressed=True)
    places = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    events = [event for start, end in itertools.pairwise(places) for event in reader.feed(wire[start:end])]
    expected = b"".join(payload for payload, _, _ in messages)
    assert joined(events) == ([expected] if expected else [])


@settings(max_examples=300)
@given(noise=st.lists(st.binary(max_size=60), max_size=5), compressed=st.booleans(), mask=st.booleans())
def test_noise_never_raises_and_nothing_follows_a_failure(
    noise: list[bytes], compressed: bool, mask: bool
) -> None:
    reader = decoder(compressed=compressed, mask=mask)
    events = [event for part in noise for event in reader.feed(part)]
    ends = [number for number, event in enumerate(events) if isinstance(event, Close | FrameFailure)]
    assert ends in ([], [len(events) - 1])


WRONG = {
    "mask bit missing": client_frame(FINAL | BINARY, b"PING\r\n", mask=False),
    "RSV2 and RSV3 must be clear": client_frame(FINAL | BINARY | 0x20, b"a"),
    "compressed frame received without negotiated permessage-deflate": client_frame(
        FINAL | BINARY | RSV1, b"a"
    ),
    "unknown opcode 3": client_frame(FINAL | 3, b"a"),
    "unknown opcode 11": client_frame(FINAL | 11, b"a"),
    "invalid continuation frame": client_frame(FINAL | CONTINUATION, b"a"),
    "new message started before final frame for previous message was received": (
        client_frame(BINARY, b"") + client_frame(FINAL | BINARY, b"a")
    ),
    "control frame does not have final bit set": client_frame(PING, b"a"),
    "control frame length bigger than maximum allowed of 125 bytes": client_frame(FINAL | PING, b"a" * 126),
    "close frame payload cannot be 1 byte": client_frame(FINAL | CLOSE, b"a"),
    "invalid close status code 1005": client_frame(FINAL | CLOSE, struct.pack(">H", 1005)),
    "invalid close status code 999": client_frame(FINAL | CLOSE, struct.pack(">H", 999)),
    "invalid close status code 1016": client_frame(FINAL | CLOSE, struct.pack(">H", 1016)),
    "invalid close status code 2999": client_frame(FINAL | CLOSE, struct.pack(">H", 2999)),
    "invalid close status code 5000": client_frame(FINAL | CLOSE, struct.pack(">H", 5000)),
    "invalid 64-bit payload length": b"\x82\xff\x80" + bytes(7) + KEY,
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_frame_is_a_protocol_error_after_what_came_before_it(message: str) -> None:
    wire = client_frame(FINAL | BINARY, b"PING\r\n") + WRONG[message]
    failure = FrameFailure(CloseStatus.PROTOCOL_ERROR, message)
    assert decoder().feed(wire + client_frame(FINAL | BINARY, b"late")) == [b"PING\r\n", failure]


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        ("control frame must not be compressed", client_frame(FINAL | RSV1 | PING)),
        (
            "invalid continuation frame",
            client_frame(RSV1 | BINARY, b"") + client_frame(FINAL | RSV1 | CONTINUATION, b""),
        ),
    ],
)
def test_the_compressed_bit_belongs_to_the_first_frame_of_a_message(message: str, wire: bytes) -> None:
    assert decoder(compressed=True).feed(wire) == [FrameFailure(CloseStatus.PROTOCOL_ERROR, message)]


def test_a_client_that_need_not_mask_may_do_either() -> None:
    wire = client_frame(FINAL | BINARY, b"PI", mask=False) + client_frame(FINAL | BINARY, b"NG\r\n")
    assert decoder(mask=False).feed(wire) == [b"PING\r\n"]


@pytest.mark.parametrize("status", [1000, 1003, 1011, 3000, 4999])
def test_a_close_is_answered_with_its_own_status(status: int) -> None:
    body = struct.pack(">H", status)
    assert decoder().feed(client_frame(FINAL | CLOSE, body)) == [Close(b"\x88\x02" + body)]


def test_a_close_without_status_is_answered_without() -> None:
    assert decoder().feed(client_frame(FINAL | CLOSE)) == [Close(b"\x88\x00")]


def test_a_close_reason_that_is_not_text_is_answered_so() -> None:
    reply = close_frame(1007, "invalid utf8 body in close frame")
    wire = client_frame(FINAL | CLOSE, struct.pack(">H", 1000) + b"\xff\xfe")
    assert decoder().feed(wire) == [Close(reply)]


def test_nothing_is_read_after_a_close() -> None:
    reader = decoder()
    wire = client_frame(FINAL | CLOSE) + client_frame(FINAL | BINARY, b"PING\r\n")
    assert reader.feed(wire) == [Close(b"\x88\x00")]
    assert reader.feed(client_frame(FINAL | BINARY, b"PING\r\n")) == []


def test_a_compressed_message_may_be_as_large_as_a_payload() -> None:
    wire = client_frame(FINAL | RSV1 | BINARY, deflate(b"x" * 1000))
    assert decoder(compressed=True, max_payload=1000).feed(wire) == [b"x" * 1000]


def test_a_compressed_message_that_expands_too_far_is_cut_and_refused() -> None:
    wire = client_frame(FINAL | RSV1 | BINARY, deflate(b"x" * 5_000_000))
    failure = FrameFailure(CloseStatus.MESSAGE_TOO_BIG, "maximum payload exceeded")
    assert decoder(compressed=True, max_payload=1000).feed(wire) == [b"x" * 1000, failure]


def test_compressed_fragments_are_not_gathered_without_end() -> None:
    reader = decoder(compressed=True, max_payload=100)
    events = reader.feed(client_frame(RSV1 | BINARY, b"\x00"))
    for _ in range(10):
        events += reader.feed(client_frame(CONTINUATION, bytes(100)))
    assert events == [FrameFailure(CloseStatus.MESSAGE_TOO_BIG, "maximum payload exceeded")]


def test_the_limit_of_a_connection_can_change() -> None:
    reader = decoder(compressed=True, max_payload=10)
    reader.max_payload = 1000
    assert reader.feed(client_frame(FINAL | RSV1 | BINARY, deflate(b"x" * 900))) == [b"x" * 900]


@pytest.mark.parametrize("body", [b"\xff\xff\xff", deflate(bytes(range(256)))[:100]])
def test_a_damaged_compressed_message_is_refused(body: bytes) -> None:
    *_, last = decoder(compressed=True).feed(client_frame(FINAL | RSV1 | BINARY, body))
    assert isinstance(last, FrameFailure)
    assert last.status is CloseStatus.INVALID_PAYLOAD
    assert "compressed message" in last.message


def test_messages_do_not_share_a_compression_window() -> None:
    wire = client_frame(FINAL | RSV1 | BINARY, deflate(b"PING\r\n"))
    assert decoder(compressed=True).feed(wire * 3) == [b"PING\r\n" * 3]


def server_frames(wire: bytes) -> list[tuple[int, bytes]]:
    frames = []
    while wire:
        assert not wire[1] & 0x80, "the server must not mask"
        size, start = wire[1], 2
        if size == 126:
            size, start = int.from_bytes(wire[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(wire[2:10], "big"), 10
        frames.append((wire[0], wire[start : start + size]))
        wire = wire[start + size :]
    return frames


@pytest.mark.parametrize("size", [1, 125, 126, 65535, 65536, 200_000])
def test_a_payload_of_any_size_is_one_frame(size: int) -> None:
    wire = FrameEncoder(compressed=False).frame(b"x" * size)
    assert server_frames(wire) == [(FINAL | BINARY, b"x" * size)]
    assert len(wire) - size == (2 if size < 126 else 4 if size < 65536 else 10)


def test_nothing_to_send_is_no_frame() -> None:
    assert FrameEncoder(compressed=True, max_frame_size=10).frame(b"") == b""


def test_a_browser_gets_whole_frames_of_limited_size() -> None:
    payload = bytes(range(250)) * 40
    frames = server_frames(FrameEncoder(compressed=False, max_frame_size=BROWSER_FRAME_SIZE).frame(payload))
    assert [(first, len(body)) for first, body in frames] == [
        (FINAL | BINARY, 4096),
        (FINAL | BINARY, 4096),
        (FINAL | BINARY, 1808),
    ]
    assert b"".join(body for _, body in frames) == payload


@pytest.mark.parametrize(("size", "compressed"), [(64, False), (65, True)])
def test_only_what_is_worth_it_is_compressed(size: int, compressed: bool) -> None:
    [(first, body)] = server_frames(FrameEncoder(compressed=True).frame(b"x" * size))
    assert bool(first & RSV1) is compressed
    plain = zlib.decompressobj(-15).decompress(body + b"\x00\x00\xff\xff") if compressed else body
    assert plain == b"x" * size


def incompressible(size: int) -> bytes:
    state, out = 1, bytearray()
    for _ in range(size):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        out.append(state >> 16 & 0xFF)
    return bytes(out)


def test_a_browser_gets_a_large_compressed_message_in_fragments() -> None:
    payload = incompressible(10_000)
    encoder = FrameEncoder(compressed=True, max_frame_size=4096)
    frames = server_frames(encoder.frame(payload))
    assert [first for first, _ in frames] == [RSV1 | BINARY, CONTINUATION, FINAL | CONTINUATION]
    body = b"".join(part for _, part in frames)
    assert zlib.decompressobj(-15).decompress(body + b"\x00\x00\xff\xff") == payload


def test_a_browser_that_cannot_join_compressed_fragments_gets_one_frame() -> None:
    encoder = FrameEncoder(compressed=True, max_frame_size=4096, fragment_compressed=False)
    assert [first for first, _ in server_frames(encoder.frame(incompressible(10_000)))] == [
        FINAL | RSV1 | BINARY
    ]


@given(
    payloads=st.lists(st.binary(min_size=1, max_size=5000), max_size=5), size=st.sampled_from([0, 16, 4096])
)
def test_what_the_encoder_compresses_a_decoder_reads(payloads: list[bytes], size: int) -> None:
    encoder = FrameEncoder(compressed=True, max_frame_size=size)
    reader = decoder(mask=False, compressed=True, max_payload=5000)
    events = [event for payload in payloads for event in reader.feed(encoder.frame(payload))]
    assert joined(events) == ([b"".join(payloads)] if payloads else [])


def test_a_pong_repeats_the_ping() -> None:
    assert pong_frame(b"hey") == b"\x8a\x03hey"


def test_a_close_reason_that_is_too_long_ends_in_dots() -> None:
    frame = close_frame(1002, "é" * 100)
    assert len(frame) <= 2 + 125
    assert frame[:4] == bytes((0x88, len(frame) - 2, 0x03, 0xEA))
    assert frame[4:].decode() == "é" * 60 + "..."


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("size", [1, 64, 65, 125, 126, 65535, 65536, 300_000])
def test_what_a_client_masks_is_read(size: int, compressed: bool) -> None:
    payload = bytes(index % 251 for index in range(size))
    encoder = FrameEncoder(compressed=compressed, masked=True)
    decoder = FrameDecoder(require_mask=True, compressed=compressed, max_payload=size)
    assert decoder.feed(encoder.frame(payload)) == [payload]
    assert decoder.feed(encoder.control(pong_frame(b"?"))) == []
    [close] = decoder.feed(encoder.control(close_frame(1000, "bye")))
    assert isinstance(close, Close)


def test_a_compressed_message_has_no_more_than_its_reader_takes() -> None:
    payload = b"some words " * 1000
    encoder = FrameEncoder(compressed=True, max_packed=1000, masked=True)
    decoder = FrameDecoder(require_mask=True, compressed=True, max_payload=1000)
    assert decoder.feed(encoder.frame(payload)) == [payload]
