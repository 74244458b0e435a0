"""A blocking client that speaks the NATS protocol byte by byte, for transcripts.

Client libraries hide what a server really sends: they answer PINGs, swallow `+OK`, reconnect.  This one hides
only the server's own PINGs, whose timing is random, and even that can be switched off::

    with WireClient.connect(server.port) as client:
        client.handshake()
        assert client.round_trip(b"SUB foo 1\\r\\nPUB foo 2\\r\\nhi\\r\\n") == b"MSG foo 1 2\\r\\nhi\\r\\n"

Not here: TLS certificates (`tests.kits.certs`), WebSocket frames (`tests.kits.websocket`).
"""

import json
import re
import socket
import ssl
import time
from types import TracebackType
from typing import Any, Final, Protocol, Self

from tests.kits.patience import PATIENCE_S

# The CONNECT options of a well-behaved library; `WireClient.handshake` can override each.
QUIET_CONNECT: Final[dict[str, Any]] = {
    "verbose": False,
    "pedantic": False,
    "protocol": 1,
    "headers": True,
    "no_responders": True,
    "lang": "wire",
    "version": "0",
}

_MASKS: Final = (
    (re.compile(rb"\bN[A-Z2-7]{55}\b"), b"<server id>"),
    (re.compile(rb'("client_id":)\d+'), rb"\1<number>"),
    (re.compile(rb'("cid":)\d+'), rb"\1<number>"),
    (re.compile(rb'("port":)\d+'), rb"\1<number>"),
    (re.compile(rb'("nonce":)"[^"]*"'), rb'\1"<nonce>"'),
    (re.compile(rb'("(?:xkey|git_commit|go|version)":)"[^"]*"'), rb'\1"<text>"'),
)


class WireError(AssertionError):
    """The server did not send what was expected; the message shows what came instead."""


class ByteStream(Protocol):
    """The interface of a connection that the client needs; plain and TLS sockets have it."""

    def sendall(self, data: bytes, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def settimeout(self, timeout: float | None, /) -> None: ...
    def close(self) -> None: ...


def mask_ids(transcript: bytes) -> bytes:
    """Mask what differs between runs in an INFO line or advisory: ids, ports, nonces, versions."""
    for pattern, replacement in _MASKS:
        transcript = pattern.sub(replacement, transcript)
    return transcript


class WireClient:
    """One connection.  Reading raises WireError after `timeout_s`."""

    def __init__(
        self, stream: ByteStream, *, timeout_s: float = PATIENCE_S, answer_pings: bool = True
    ) -> None:
        self.stream = stream
        self.timeout_s = timeout_s
        self.answer_pings = answer_pings
        self.info: dict[str, Any] = {}
        self.frames: list[bytes] = []  # everything read, for error messages
        self._buffer = bytearray()
        self._ended = False

    @classmethod
    def connect(
        cls,
        port: int,
        host: str = "127.0.0.1",
        *,
        timeout_s: float = PATIENCE_S,
        answer_pings: bool = True,
        receive_buffer: int | None = None,
    ) -> Self:
        """Open a TCP connection without reading anything.

        A small `receive_buffer` (bytes) quickly makes a client that does not read a slow consumer.
        """
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_s)
            if receive_buffer is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            connection.connect((host, port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            connection.close()
            raise
        return cls(connection, timeout_s=timeout_s, answer_pings=answer_pings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.stream.close()

    # -- the beginning of a connection --------------------------------------------------------------

    def read_info(self) -> dict[str, Any]:
        """Read one frame, which must be INFO, and keep it as `info`."""
        frame = self.read_frame()
        if not frame.startswith(b"INFO "):
            raise WireError(f"expected INFO, got {frame!r}")
        self.info = json.loads(frame[5:])
        return self.info

    def start_tls(self, context: ssl.SSLContext, *, server_hostname: str = "127.0.0.1") -> None:
        """Do the TLS handshake on this connection."""
        assert isinstance(self.stream, socket.socket)
        self.stream = context.wrap_socket(self.stream, server_hostname=server_hostname)

    def handshake(self, *, read_info: bool = True, **options: object) -> dict[str, Any]:
        """Do INFO, CONNECT, PING and PONG like a library, and return the newest INFO.

        `options` are CONNECT options in addition to QUIET_CONNECT; None removes one.
        """
        if read_info:
            self.read_info()
        self.send_connect(**options)
        self.send(b"PING\r\n")
        answer = self.read_until_pong()
        if answer not in (b"", b"+OK\r\n"):
            raise WireError(f"expected PONG after CONNECT, got {answer!r}")
        if _connect_options(options).get("protocol"):
            self.read_info()  # the second one, which depends on the account
        return self.info

    def send_connect(self, **options: object) -> None:
        """Send a CONNECT with `options` in addition to QUIET_CONNECT; None removes one."""
        self.send(b"CONNECT " + json.dumps(_connect_options(options)).encode() + b"\r\n")

    # -- sending and reading ------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        self.stream.sendall(data)

    def round_trip(self, data: bytes = b"") -> bytes:
        """Send `data` and a PING; return everything before the PONG."""
        self.send(data + b"PING\r\n")
        return self.read_until_pong()

    def read_frame(self) -> bytes:
        """Read one whole frame: a control line, with its payload if it has one."""
        while True:
            frame = self._read_any_frame()
            if not (self.answer_pings and frame == b"PING\r\n"):
                return frame
            self.send(b"PONG\r\n")

    def read_frames(self, count: int) -> bytes:
        return b"".join(self.read_frame() for _ in range(count))

    def read_until_pong(self) -> bytes:
        """Return the frames before the next PONG."""
        frames = []
        while (frame := self.read_frame()) != b"PONG\r\n":
            frames.append(frame)
        return b"".join(frames)

    def read_until_closed(self) -> bytes:
        """Return all bytes up to the end of the connection, which the server must close."""
        deadline = time.monotonic() + self.timeout_s
        while self._receive(deadline):
            pass
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def read_exactly(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        deadline = time.monotonic() + self.timeout_s
        while len(self._buffer) < count:
            self._receive_or_fail(deadline)
        return self._take(count)

    def read_until(self, marker: bytes) -> bytes:
        """Return the bytes up to and including `marker`."""
        deadline = time.monotonic() + self.timeout_s
        while (start := self._buffer.find(marker)) < 0:
            self._receive_or_fail(deadline)
        return self._take(start + len(marker))

    # -- inside -------------------------------------------------------------------------------------

    def _read_any_frame(self) -> bytes:
        line = self.read_until(b"\r\n")
        words = line.split()
        frame = line
        if words and words[0] in (b"MSG", b"HMSG"):
            frame += self.read_exactly(int(words[-1]) + 2)
        self.frames.append(frame)
        return frame

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _receive_or_fail(self, deadline: float) -> None:
        if not self._receive(deadline):
            raise WireError(f"the server closed the connection; {self._seen()}")

    def _receive(self, deadline: float) -> bool:
        """Add received bytes to the buffer; return False at the end of the connection."""
        if self._ended:
            return False
        self.stream.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = self.stream.recv(65536)
        except TimeoutError:
            raise WireError(f"nothing more within {self.timeout_s} s; {self._seen()}") from None
        except (ConnectionResetError, ssl.SSLEOFError):
            # The server closed with unread bytes of ours; what it sent before was still read.
            data = b""
        finally:
            self.stream.settimeout(self.timeout_s)
        self._ended = not data
        self._buffer += data
        return bool(data)

    def _seen(self) -> str:
        return f"unread {bytes(self._buffer[:200])!r}, last frames {self.frames[-5:]!r}"


def _connect_options(options: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in {**QUIET_CONNECT, **options}.items() if value is not None}
