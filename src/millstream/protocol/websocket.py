"""Websocket frames (RFC 6455): a decoder from bytes to events, and an encoder.

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    +-+-+-+-+-------+-+-------------+-------------------------------+
    |F|R|R|R| op    |M| length 7    | length 16 (126) or 64 (127)   |    M: a key of 4 bytes follows
    +-+-+-+-+-------+-+-------------+-------------------------------+    R1: message is compressed

NATS uses a websocket as a stream of bytes, so message boundaries mean nothing: payload is passed on as it
arrives, text like binary, joined for each read.  Only a compressed message (RFC 7692, without context
takeover) is collected first; its size is limited before and after decompression.

Always true:  after `Close` or `FrameFailure` there are no more events;  only clients mask.
Not here:     the HTTP upgrade and the negotiation (broker.websocket_upgrade),
              sockets and timers (broker.websocket).
"""

import os
import zlib
from enum import IntEnum
from typing import Final

import msgspec

from millstream.base.errors import MillstreamError
from millstream.protocol.websocket_mask import unmask

_CONTINUATION: Final = 0
_TEXT: Final = 1
_BINARY: Final = 2
_CLOSE: Final = 8
_PING: Final = 9
_PONG: Final = 10

_FINAL: Final = 0x80
_RSV1: Final = 0x40
_RSV2_OR_3: Final = 0x30
_MASKED: Final = 0x80

MAX_CONTROL_PAYLOAD: Final = 125
BROWSER_FRAME_SIZE: Final = 4096  # nats-server's choice: browsers handle small frames better
COMPRESS_ABOVE: Final = 64  # bytes; less does not shrink

# A compressed message may carry several operations of max_payload each, but not an unlimited number.
_COMPRESSED_LIMIT_FACTOR: Final = 8
_COMPRESSED_LIMIT: Final = 64 * 1024 * 1024
# The sync marker that the sender leaves out, then an empty final block so that the decoder sees an end.
_DEFLATE_TAIL: Final = b"\x00\x00\xff\xff\x01\x00\x00\xff\xff"
_SYNC_MARKER_SIZE: Final = 4
_RAW_DEFLATE: Final = -zlib.MAX_WBITS


class CloseStatus(IntEnum):
    """The reasons for closing a websocket; RFC 6455, section 7.4.1."""

    NORMAL = 1000
    GOING_AWAY = 1001
    PROTOCOL_ERROR = 1002
    INVALID_PAYLOAD = 1007
    POLICY_VIOLATION = 1008
    MESSAGE_TOO_BIG = 1009
    INTERNAL_ERROR = 1011
    TLS_HANDSHAKE = 1015


class Ping(msgspec.Struct, frozen=True):
    """The peer expects a pong with the same payload."""

    payload: bytes


class Close(msgspec.Struct, frozen=True):
    """The peer closes; `reply` is the close frame to send back."""

    reply: bytes


class FrameFailure(msgspec.Struct, frozen=True):
    """The peer violated the protocol; send a close frame with this status and text, then disconnect."""

    status: CloseStatus
    message: str


Event = bytes | Ping | Close | FrameFailure


class _Refused(MillstreamError):
    def __init__(self, message: str, status: CloseStatus = CloseStatus.PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class FrameDecoder:
    """Decodes the bytes that come after the upgrade into payload and control events."""

    def __init__(self, *, require_mask: bool, compressed: bool, max_payload: int) -> None:
        self.max_payload = max_payload  # bytes of one message after decompression
        self._require_mask = require_mask
        self._compression_negotiated = compressed
        self._unread = b""  # an incomplete header or control frame
        self._ended = False
        # The frame whose payload is being read.
        self._in_payload = False
        self._frame_final = False
        self._remaining = 0
        self._key: bytes | None = None
        self._key_offset = 0
        # The message that the frame belongs to.
        self._in_message = False
        self._message_compressed = False
        self._compressed_message = bytearray()
        self._payload: list[bytes] = []

    def feed(self, data: bytes) -> list[Event]:
        """Decode the bytes of one read; return the events, with adjacent payload joined."""
        events: list[Event] = []
        if self._ended:
            return events
        if self._unread:
            data = self._unread + data
            self._unread = b""
        position = 0
        try:
            while position < len(data) and not self._ended:
                if self._in_payload:
                    position = self._read_payload(data, position)
                    continue
                advanced = self._read_header(data, position, events)
                if advanced == position:
                    self._unread = data[position:]
                    break
                position = advanced
        except _Refused as refused:
            self._ended = True
            self._flush(events)
            events.append(FrameFailure(refused.status, refused.message))
        self._flush(events)
        return events

    def _flush(self, events: list[Event]) -> None:
        if self._payload:
            events.append(self._payload[0] if len(self._payload) == 1 else b"".join(self._payload))
            self._payload.clear()

    def _read_header(self, data: bytes, start: int, events: list[Event]) -> int:
        """Read a header or a whole control frame; return the new position, `start` if bytes are missing."""
        available = len(data) - start
        if available < 2:
            return start
        first, second = data[start], data[start + 1]
        opcode = first & 0x0F
        final = bool(first & _FINAL)
        length = second & 0x7F
        self._check(first, second)
        position = start + 2
        if length == 126:
            if available < 4:
                return start
            length = int.from_bytes(data[position : position + 2], "big")
            position += 2
        elif length == 127:
            if available < 10:
                return start
            length = int.from_bytes(data[position : position + 8], "big")
            position += 8
            if length >> 63:
                raise _Refused("invalid 64-bit payload length")
        key = None
        if second & _MASKED:
            if len(data) - position < 4:
                return start
            key = data[position : position + 4]
            position += 4
        if opcode >= _CLOSE:
            if len(data) - position < length:
                return start
            payload = data[position : position + length]
            self._control(opcode, payload if key is None else unmask(payload, key, 0), events)
            return position + length
        if opcode != _CONTINUATION:
            self._message_compressed = bool(first & _RSV1)
        self._in_message = not final
        self._frame_final = final
        self._key, self._key_offset = key, 0
        self._remaining = length
        self._in_payload = length > 0
        if length == 0:
            self._end_frame()
        return position

    def _check(self, first: int, second: int) -> None:
        if first & _RSV2_OR_3:
            raise _Refused("RSV2 and RSV3 must be clear")
        compressed = bool(first & _RSV1)
        if compressed and not self._compression_negotiated:
            raise _Refused("compressed frame received without negotiated permessage-deflate")
        if self._require_mask and not second & _MASKED:
            raise _Refused("mask bit missing")
        opcode = first & 0x0F
        if opcode in (_CLOSE, _PING, _PONG):
            if second & 0x7F > MAX_CONTROL_PAYLOAD:
                raise _Refused(
                    f"control frame length bigger than maximum allowed of {MAX_CONTROL_PAYLOAD} bytes"
                )
            if not first & _FINAL:
                raise _Refused("control frame does not have final bit set")
            if compressed:
                raise _Refused("control frame must not be compressed")
        elif opcode in (_TEXT, _BINARY):
            if self._in_message:
                raise _Refused("new message started before final frame for previous message was received")
        elif opcode == _CONTINUATION:
            if not self._in_message or compressed:
                raise _Refused("invalid continuation frame")
        else:
            raise _Refused(f"unknown opcode {opcode}")

    def _read_payload(self, data: bytes, start: int) -> int:
        end = min(start + self._remaining, len(data))
        part = data[start:end]
        if self._key is not None:
            part = unmask(part, self._key, self._key_offset)
            self._key_offset = (self._key_offset + len(part)) & 3
        self._remaining -= len(part)
        if self._message_compressed:
            self._gather(part)
        else:
            self._payload.append(part)
        if self._remaining == 0:
            self._in_payload = False
            self._end_frame()
        return end

    def _gather(self, part: bytes) -> None:
        limit = min(self.max_payload * _COMPRESSED_LIMIT_FACTOR, _COMPRESSED_LIMIT)
        if len(self._compressed_message) + len(part) + len(_DEFLATE_TAIL) > limit:
            raise _Refused("maximum payload exceeded", CloseStatus.MESSAGE_TOO_BIG)
        self._compressed_message += part

    def _end_frame(self) -> None:
        if not (self._frame_final and self._message_compressed):
            return
        self._message_compressed = False
        message = self._compressed_message + _DEFLATE_TAIL
        self._compressed_message = bytearray()
        inflater = zlib.decompressobj(_RAW_DEFLATE)
        try:
            payload = inflater.decompress(message, self.max_payload + 1)
        except zlib.error as error:
            raise _Refused(f"corrupt compressed message: {error}", CloseStatus.INVALID_PAYLOAD) from None
        if len(payload) > self.max_payload:
            # As in nats-server, the operations that fit are still processed.
            self._payload.append(payload[: self.max_payload])
            raise _Refused("maximum payload exceeded", CloseStatus.MESSAGE_TOO_BIG)
        if payload:
            self._payload.append(payload)
        if not inflater.eof:
            raise _Refused("compressed message is cut short", CloseStatus.INVALID_PAYLOAD)

    def _control(self, opcode: int, payload: bytes, events: list[Event]) -> None:
        if opcode == _PONG:
            return
        self._flush(events)
        if opcode == _PING:
            events.append(Ping(payload))
        else:
            events.append(Close(_close_reply(payload)))
            self._ended = True


def _close_reply(payload: bytes) -> bytes:
    if not payload:
        return bytes((_FINAL | _CLOSE, 0))
    if len(payload) == 1:
        raise _Refused("close frame payload cannot be 1 byte")
    status = int.from_bytes(payload[:2], "big")
    if not _may_be_sent(status):
        raise _Refused(f"invalid close status code {status}")
    try:
        payload[2:].decode()
    except UnicodeDecodeError:
        return close_frame(CloseStatus.INVALID_PAYLOAD, "invalid utf8 body in close frame")
    return bytes((_FINAL | _CLOSE, len(payload))) + payload


def _may_be_sent(status: int) -> bool:
    if status in (1004, 1005, 1006, CloseStatus.TLS_HANDSHAKE):
        return False  # reserved for local use, never sent
    return 1000 <= status < 1016 or 3000 <= status < 5000


def close_frame(status: int, text: str) -> bytes:
    """Return a close frame; a text too long for a control frame is cut and ends in dots."""
    body = text.encode()
    room = MAX_CONTROL_PAYLOAD - 2
    if len(body) > room:
        body = body[: room - 3].decode(errors="ignore").encode() + b"..."
    return bytes((_FINAL | _CLOSE, 2 + len(body))) + status.to_bytes(2, "big") + body


def pong_frame(payload: bytes) -> bytes:
    """Return the response to a ping."""
    return bytes((_FINAL | _PONG, len(payload))) + payload


class FrameEncoder:
    """Puts outgoing bytes into frames, as negotiated and in the sizes that the peer prefers."""

    def __init__(
        self,
        *,
        compressed: bool,
        max_frame_size: int = 0,
        fragment_compressed: bool = True,
        max_packed: int = 0,
        masked: bool = False,
    ) -> None:
        """Mask for a server with `masked`; no compressed message unpacks to more than `max_packed` bytes."""
        self._compressed = compressed
        self._max_frame_size = max_frame_size  # bytes of payload; 0: unlimited
        self._fragment_compressed = fragment_compressed
        self._max_packed = max_packed
        self._masked = masked

    def control(self, frame: bytes) -> bytes:
        """Return a control frame as this end sends it."""
        return _mask(frame[0], frame[2:]) if self._masked else frame

    def frame(self, payload: bytes) -> bytes:
        """Return the frames that carry `payload`; empty if it is empty."""
        most = self._max_packed
        if self._compressed and 0 < most < len(payload):
            return b"".join(self._frame(payload[at : at + most]) for at in range(0, len(payload), most))
        return self._frame(payload)

    def _frame(self, payload: bytes) -> bytes:
        if self._compressed and len(payload) > COMPRESS_ABOVE:
            deflater = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, _RAW_DEFLATE)
            packed = deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH)
            if self._masked:
                return _mask(_FINAL | _RSV1 | _BINARY, packed[:-_SYNC_MARKER_SIZE])
            size = self._max_frame_size if self._fragment_compressed else 0
            return _fragments(packed[:-_SYNC_MARKER_SIZE], size)
        if self._masked:
            return _mask(_FINAL | _BINARY, payload) if payload else b""
        size = self._max_frame_size
        if 0 < size < len(payload):
            pieces = (payload[at : at + size] for at in range(0, len(payload), size))
            return b"".join(_header(_FINAL | _BINARY, len(piece)) + piece for piece in pieces)
        return _header(_FINAL | _BINARY, len(payload)) + payload if payload else b""


def _fragments(message: bytes, size: int) -> bytes:
    """Return the frames of one compressed message; only the first fragment is marked as compressed."""
    if not 0 < size < len(message):
        return _header(_FINAL | _RSV1 | _BINARY, len(message)) + message
    frames = []
    first = _RSV1 | _BINARY
    for at in range(0, len(message), size):
        piece = message[at : at + size]
        last = _FINAL if at + size >= len(message) else 0
        frames.append(_header(first | last, len(piece)) + piece)
        first = _CONTINUATION
    return b"".join(frames)


def _mask(first: int, payload: bytes) -> bytes:
    """Return a frame as clients send it."""
    header = bytearray(_header(first, len(payload)))
    header[1] |= _MASKED
    key = os.urandom(4)
    return bytes(header) + key + unmask(payload, key, 0)


def _header(first: int, size: int) -> bytes:
    if size < 126:
        return bytes((first, size))
    if size < 65536:
        return bytes((first, 126)) + size.to_bytes(2, "big")
    return bytes((first, 127)) + size.to_bytes(8, "big")
