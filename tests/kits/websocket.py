"""A blocking WebSocket, frame by frame, for use under `WireClient`.

It sends what a test asks for, valid or not: unmasked frames, fragments, odd opcodes.  Received payload is
passed on as a stream of bytes, control frames are kept in `controls`, and a server that masks, or compresses
without negotiation, is an error.
"""

import base64
import os
import socket
import ssl
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from tests.kits.patience import PATIENCE_S
from tests.kits.wire import WireError

_FINAL: Final = 0x80
_COMPRESSED: Final = 0x40
_MASKED: Final = 0x80
_DEFLATE_TAIL: Final = b"\x00\x00\xff\xff"


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


@dataclass(frozen=True, slots=True)
class WebSocketFrame:
    opcode: Opcode
    payload: bytes
    final: bool = True
    compressed: bool = False

    @property
    def close_status(self) -> int:
        """Return the status code of a close frame; 1005 stands for none."""
        return struct.unpack("!H", self.payload[:2])[0] if self.payload else 1005


class UpgradeRefused(WireError):
    """The server answered the upgrade with a status other than 101."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class WebSocketStream:
    """The client's end of one WebSocket, with the stream interface of `WireClient`."""

    def __init__(self, connection: socket.socket, response_headers: dict[str, str], rest: bytes) -> None:
        self.response_headers = response_headers  # lower-case names
        self.controls: list[WebSocketFrame] = []
        self.data_frames: list[WebSocketFrame] = []
        self.masked = "nats-no-masking" not in response_headers
        self.compress_next = False
        self._connection = connection
        self._buffer = bytearray(rest)
        self._message = b""  # compressed fragments, until the last one

    @classmethod
    def open(
        cls,
        port: int,
        host: str = "127.0.0.1",
        *,
        path: str = "/",
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> Self:
        """Connect and upgrade.  `headers` are added to a valid request; an empty value removes one."""
        connection = socket.create_connection((host, port), timeout=timeout_s)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                connection = context.wrap_socket(connection, server_hostname=host)
            wanted = {
                "Host": f"{host}:{port}",
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
                "Sec-WebSocket-Version": "13",
                **(headers or {}),
            }
            lines = [f"{name}: {value}" for name, value in wanted.items() if value]
            connection.sendall("\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode())
            status, response_headers, rest = _read_response(connection)
            if status != 101:
                length = int(response_headers.get("content-length", "0"))
                while len(rest) < length and (more := connection.recv(65536)):
                    rest += more
                raise UpgradeRefused(status, rest.decode())
        except BaseException:
            connection.close()
            raise
        return cls(connection, response_headers, rest)

    # -- what WireClient needs ----------------------------------------------------------------------

    def sendall(self, data: bytes) -> None:
        if self.compress_next:
            self.send_frame(Opcode.BINARY, deflate(data), compressed=True)
        else:
            self.send_frame(Opcode.BINARY, data)

    def recv(self, size: int) -> bytes:
        """Return the payload of the next data frame that has any; empty at the end."""
        while True:
            frame = self.read_frame()
            if frame is None:
                return b""
            if frame.opcode >= Opcode.CLOSE:
                self.controls.append(frame)
                continue
            self.data_frames.append(frame)
            if payload := self._payload(frame):
                return payload

    def settimeout(self, timeout: float | None) -> None:
        self._connection.settimeout(timeout)

    def close(self) -> None:
        self._connection.close()

    # -- frames -------------------------------------------------------------------------------------

    def send_frame(
        self,
        opcode: int,
        payload: bytes = b"",
        *,
        final: bool = True,
        compressed: bool = False,
        reserved: int = 0,
    ) -> None:
        first = opcode | (_FINAL if final else 0) | (_COMPRESSED if compressed else 0) | reserved
        mask_bit = _MASKED if self.masked else 0
        if len(payload) < 126:
            head = struct.pack("!BB", first, mask_bit | len(payload))
        elif len(payload) < 65536:
            head = struct.pack("!BBH", first, mask_bit | 126, len(payload))
        else:
            head = struct.pack("!BBQ", first, mask_bit | 127, len(payload))
        if self.masked:
            key = os.urandom(4)
            head += key
            payload = _mask(payload, key)
        self._connection.sendall(head + payload)

    def read_frame(self) -> WebSocketFrame | None:
        """Return the next frame unchanged, or None at the end of the connection."""
        head = self._read(2)
        if head is None:
            return None
        if head[1] & _MASKED:
            raise WireError("the server masked a frame")
        length = head[1] & 0x7F
        if length >= 126:
            size = 2 if length == 126 else 8
            length = int.from_bytes(self._read(size) or b"", "big")
        payload = self._read(length)
        if payload is None:
            raise WireError("the connection ended inside a frame")
        opcode = Opcode(head[0] & 0x0F)
        return WebSocketFrame(opcode, payload, bool(head[0] & _FINAL), bool(head[0] & _COMPRESSED))

    def _payload(self, frame: WebSocketFrame) -> bytes:
        if not (frame.compressed or self._message):
            return frame.payload
        self._message += frame.payload
        if not frame.final:
            return b""
        message, self._message = self._message, b""
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(message + _DEFLATE_TAIL)

    def _read(self, count: int) -> bytes | None:
        while len(self._buffer) < count:
            more = self._connection.recv(65536)
            if not more:
                return None
            self._buffer += more
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def deflate(data: bytes) -> bytes:
    """Compress one message for `permessage-deflate`, without the marker at the end."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    compressed = compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return compressed.removesuffix(_DEFLATE_TAIL)


def _mask(payload: bytes, key: bytes) -> bytes:
    repeated = (key * (len(payload) // 4 + 1))[: len(payload)]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return masked.to_bytes(len(payload), "big")


def _read_response(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers with lower-case names, and the bytes after them."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        if not more:
            raise WireError(f"the connection ended during the upgrade: {received!r}")
        received += more
    head, _, rest = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(status_line.split()[1]), headers, rest
