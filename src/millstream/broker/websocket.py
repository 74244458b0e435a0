"""A websocket between a transport and a connection, which uses it as its transport.

    transport  <->  WebSocket  <->  client connection, or leaf link
    (HTTP, frames)                  (the NATS protocol)

Towards the real transport this is a protocol; towards the connection, which is created after the upgrade, it
is the transport.  Pausing and resuming are passed through.  ``BaseWebSocket`` is what both ends have in
common, ``WebSocketProtocol`` the end that accepts; the end that connects is in ``broker.leaf.websocket``.

Always true:  the inner connection is made at most once, and lost exactly once if it was made.
Not here:     the rules of the upgrade (broker.websocket_upgrade) and of frames (protocol.websocket),
              TLS, which is below the transport (broker.tls_accept).
"""

import asyncio
from collections.abc import Callable, Iterable
from email.utils import formatdate
from enum import Enum, auto
from typing import Any, Final, cast

from millstream.base.descriptors import uses_kept
from millstream.base.errors import MillstreamError
from millstream.broker.close_reason import CloseReason
from millstream.broker.newcomers import UpgradePace
from millstream.broker.websocket_upgrade import Refusal, RequestReader, Upgrade, Upgrader
from millstream.protocol.websocket import (
    Close,
    CloseStatus,
    FrameDecoder,
    FrameEncoder,
    FrameFailure,
    Ping,
    close_frame,
    pong_frame,
)

# A client that pings and does not read gets one pong when it reads again, not a heap of them.
_PONG_BACKLOG: Final = 64 * 1024
CLOSE_TIMEOUT_S: Final = 10.0
# nats-server refuses a compressed message of a link that unpacks to more than its max_payload.
MAX_PACKED: Final = 256 * 1024

_STATUS_OF_REASON: Final[dict[str, CloseStatus]] = {
    CloseReason.CLIENT_CLOSED: CloseStatus.NORMAL,
    CloseReason.AUTHENTICATION_TIMEOUT: CloseStatus.POLICY_VIOLATION,
    CloseReason.AUTHENTICATION_FAILURE: CloseStatus.POLICY_VIOLATION,
    CloseReason.SLOW_CONSUMER_PENDING_BYTES: CloseStatus.POLICY_VIOLATION,
    CloseReason.SLOW_CONSUMER_WRITE_DEADLINE: CloseStatus.POLICY_VIOLATION,
    CloseReason.MAX_ACCOUNT_CONNECTIONS_EXCEEDED: CloseStatus.POLICY_VIOLATION,
    CloseReason.MAX_CONNECTIONS_EXCEEDED: CloseStatus.POLICY_VIOLATION,
    CloseReason.MAX_CONTROL_LINE_EXCEEDED: CloseStatus.POLICY_VIOLATION,
    CloseReason.MAX_SUBSCRIPTIONS_EXCEEDED: CloseStatus.POLICY_VIOLATION,
    CloseReason.MISSING_ACCOUNT: CloseStatus.POLICY_VIOLATION,
    CloseReason.TLS_HANDSHAKE_FAILURE: CloseStatus.TLS_HANDSHAKE,
    CloseReason.PARSE_ERROR: CloseStatus.PROTOCOL_ERROR,
    CloseReason.PROTOCOL_VIOLATION: CloseStatus.PROTOCOL_ERROR,
    CloseReason.BAD_CLIENT_PROTOCOL_VERSION: CloseStatus.PROTOCOL_ERROR,
    CloseReason.MAX_PAYLOAD_EXCEEDED: CloseStatus.MESSAGE_TOO_BIG,
    CloseReason.WRITE_ERROR: CloseStatus.GOING_AWAY,
    CloseReason.READ_ERROR: CloseStatus.GOING_AWAY,
    CloseReason.STALE_CONNECTION: CloseStatus.GOING_AWAY,
    CloseReason.SERVER_SHUTDOWN: CloseStatus.GOING_AWAY,
}


def close_status(reason: str) -> CloseStatus:
    """Return the close status for a reason in monitoring's words."""
    return _STATUS_OF_REASON.get(reason, CloseStatus.INTERNAL_ERROR)


class WebSocketFailure(MillstreamError):
    """The peer violated the websocket protocol; the inner connection is lost with this."""


class WebSocketState(Enum):
    UPGRADING = auto()
    OPEN = auto()
    CLOSING = auto()  # a close frame or a refusal was sent, or there is nothing to be said


class BaseWebSocket(asyncio.Protocol, asyncio.Transport):
    """Frames and the close of one websocket; the upgrade is that of the subclass."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, max_payload: int, close_timeout_s: float) -> None:
        asyncio.Transport.__init__(self)
        self._loop = loop
        self._max_payload = max_payload
        self._close_timeout_s = close_timeout_s
        self._state = WebSocketState.UPGRADING
        self._timer: asyncio.TimerHandle | None = None
        self._failure: WebSocketFailure | None = None
        self._pong: bytes | None = None  # the answer to the last ping, while the peer does not read
        self._transport: asyncio.Transport
        self._client: asyncio.Protocol | None = None
        self._decoder: FrameDecoder
        self._encoder: FrameEncoder

    def _read_handshake(self, data: bytes) -> None:
        """Take bytes that come before the upgrade."""
        raise NotImplementedError

    # What the real transport calls.

    def data_received(self, data: bytes) -> None:
        if self._state is WebSocketState.UPGRADING:
            self._read_handshake(data)
        elif self._state is WebSocketState.OPEN:
            self._read_frames(data)

    def eof_received(self) -> bool | None:
        if self._client is not None and self._state is WebSocketState.OPEN:
            self._client.eof_received()
        return None  # a websocket has no half-open state: the transport closes

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = WebSocketState.CLOSING
        self._stop_timer()
        client, self._client = self._client, None
        if client is not None:
            client.connection_lost(exc or self._failure)

    def pause_writing(self) -> None:
        if self._client is not None:
            self._client.pause_writing()

    def resume_writing(self) -> None:
        self._send_pong()
        if self._client is not None:
            self._client.resume_writing()

    # What the client connection calls.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._state is WebSocketState.OPEN:
            self._send_pong()
            self._transport.write(self._encoder.frame(bytes(data)))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Close as if the client had asked for it."""
        self.close_with(CloseReason.CLIENT_CLOSED)

    def close_with(self, reason: str) -> None:
        """Send pending output and a close frame with `reason`, in monitoring's words."""
        if self._state is WebSocketState.OPEN:
            self._finish(self._encoder.control(close_frame(close_status(reason), reason)))
        elif self._state is WebSocketState.UPGRADING:
            self._finish(b"")

    def abort(self) -> None:
        """Close at once, without pending output and close frame."""
        self._state = WebSocketState.CLOSING
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._state is WebSocketState.CLOSING or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information of the real transport."""
        return self._transport.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self if self._client is None else self._client

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Put another protocol in the place of the connection."""
        self._client = cast(asyncio.Protocol, protocol)

    def put_below(self, layer: asyncio.Transport) -> asyncio.Transport:
        """Send frames through a layer from now on; return the transport that is below it."""
        below, self._transport = self._transport, layer
        return below

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        return self._transport.is_reading()

    def get_write_buffer_size(self) -> int:
        """Return the bytes of frames still to be sent."""
        return self._transport.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._transport.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    @property
    def max_payload(self) -> int:
        """Return the most bytes of a decompressed message; an account can have its own limit."""
        return self._decoder.max_payload

    @max_payload.setter
    def max_payload(self, size: int) -> None:
        self._decoder.max_payload = size

    # Frames.

    def _read_frames(self, data: bytes) -> None:
        for event in self._decoder.feed(data):
            if self._state is not WebSocketState.OPEN:
                return
            client = self._client
            assert client is not None
            if isinstance(event, bytes):
                client.data_received(event)
            elif isinstance(event, Ping):
                self._pong = event.payload
                self._send_pong()
            elif isinstance(event, Close):
                # To the client connection this is the end of the stream; it may still send what it has.
                client.eof_received()
                if self._state is WebSocketState.OPEN:
                    self._finish(self._encoder.control(event.reply))
            else:
                self._fail(event)

    def _fail(self, failure: FrameFailure) -> None:
        self._failure = WebSocketFailure(failure.message)
        self._finish(self._encoder.control(close_frame(failure.status, failure.message)))

    def _send_pong(self) -> None:
        if self._pong is None or self._state is not WebSocketState.OPEN:
            return
        if self._transport.get_write_buffer_size() > _PONG_BACKLOG:
            return
        pong, self._pong = self._pong, None
        self._transport.write(self._encoder.control(pong_frame(pong)))

    def _finish(self, last_words: bytes) -> None:
        """Send `last_words` and close; abort if the peer does not take them in time."""
        self._state = WebSocketState.CLOSING
        self._stop_timer()
        if last_words:
            self._transport.write(last_words)
        self._transport.close()
        self._timer = self._loop.call_later(self._close_timeout_s, self._transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class WebSocketProtocol(BaseWebSocket):
    """The end that accepts: reads the request, and answers it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        upgrader: Upgrader,
        make_client: Callable[[asyncio.Transport, Upgrade], asyncio.Protocol],
        *,
        max_payload: int,
        handshake_timeout_s: float,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        refused: Callable[[str], None] = lambda reason: None,
        pace: UpgradePace | None = None,
    ) -> None:
        """`refused` is called with the reason of a failed upgrade, `make_client` after a successful one.

        With a `pace`, requests are read a few at a time.
        """
        super().__init__(loop, max_payload=max_payload, close_timeout_s=close_timeout_s)
        self._upgrader = upgrader
        self._make_client = make_client
        self._handshake_timeout_s = handshake_timeout_s
        self._refused = refused
        self._pace = pace
        self._early: list[bytes] = []  # input that waits for its turn
        self._request = RequestReader()
        self._upgrade: Upgrade

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of that class
        if self._state is WebSocketState.CLOSING:  # given up before it began
            self._transport.abort()
            return
        if uses_kept(transport):
            self._transport.abort()
            return
        self._timer = self._loop.call_later(self._handshake_timeout_s, self._handshake_timed_out)

    def give_up(self) -> None:
        """Close at once unless the upgrade is done: its client owns an open websocket."""
        if self._state is WebSocketState.UPGRADING:
            self._state = WebSocketState.CLOSING
            if self._timer is not None:  # else there is no transport yet
                self._transport.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information of the real transport; `websocket` is the upgrade."""
        if name == "websocket":
            return self._upgrade
        return super().get_extra_info(name, default)

    def take_turn(self) -> None:
        """Read the input that waited."""
        early, self._early = b"".join(self._early), []
        if self._state is WebSocketState.UPGRADING:
            try:
                self._read_request(early)
            except Exception:
                self.abort()
                raise
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _read_handshake(self, data: bytes) -> None:
        """Read a piece of the request now, or when it is this client's turn."""
        if self._pace is None:
            self._read_request(data)
        elif self._early or not self._pace.may_begin():
            self._early.append(data)
            if len(self._early) == 1:
                self._transport.pause_reading()
                self._pace.put_off(self)
        else:
            began = self._loop.time()
            self._read_request(data)
            self._pace.took(self._loop.time() - began)

    def _read_request(self, data: bytes) -> None:
        request = self._request.feed(data)
        if request is None:
            return
        if isinstance(request, Refusal):
            self._refuse(request)
            return
        secure = self._transport.get_extra_info("ssl_object") is not None
        decision = self._upgrader.judge(request, secure=secure)
        if isinstance(decision, Refusal):
            self._refuse(decision)
        else:
            self._open(decision)

    def _open(self, upgrade: Upgrade) -> None:
        self._stop_timer()
        self._state = WebSocketState.OPEN
        self._upgrade = upgrade
        self._decoder = FrameDecoder(
            require_mask=upgrade.require_mask, compressed=upgrade.compressed, max_payload=self._max_payload
        )
        self._encoder = FrameEncoder(
            compressed=upgrade.compressed,
            max_frame_size=upgrade.max_frame_size,
            fragment_compressed=upgrade.fragment_compressed,
            max_packed=MAX_PACKED if upgrade.leaf else 0,
        )
        self._transport.write(upgrade.response)
        client = self._make_client(self, upgrade)
        self._client = client
        client.connection_made(self)

    def _refuse(self, refusal: Refusal) -> None:
        self._refused(refusal.reason)
        self._finish(refusal.response(formatdate(usegmt=True)))

    def _handshake_timed_out(self) -> None:
        self._refused("timeout")
        self.abort()
