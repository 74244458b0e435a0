"""The end of a websocket that connects: a link to the websocket port of a hub."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import TYPE_CHECKING, Any, Final, cast

from millstream.broker.websocket import CLOSE_TIMEOUT_S, MAX_PACKED, BaseWebSocket, WebSocketState
from millstream.broker.websocket_upgrade import LEAF_PATH, answer_to
from millstream.http.head import ResponseHead, ResponseReader
from millstream.protocol.websocket import FrameDecoder, FrameEncoder

if TYPE_CHECKING:
    from millstream.broker.leaf.dialer import HubAddress

_MOST_ANSWER: Final = 64 * 1024
_PACKING: Final = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
_NO_MASKING: Final = "nats-no-masking"


class WebSocketToHub(BaseWebSocket):
    """Asks for the upgrade; when `opened` is done, `link` is connected, or the result says why not."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        link: Any,
        address: HubAddress,
        *,
        compress: bool,
        mask: bool,
        max_payload: int,
    ) -> None:
        super().__init__(loop, max_payload=max_payload, close_timeout_s=CLOSE_TIMEOUT_S)
        self.opened: asyncio.Future[str] = loop.create_future()
        self._link = link  # LeafConnection
        self._address = address
        self._compress = compress
        self._mask = mask
        self._key = base64.b64encode(os.urandom(16)).decode()
        self._answer = ResponseReader(_MOST_ANSWER)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of that class
        self._transport.write(self._request())

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_opening("the server hung up")
        super().connection_lost(exc)

    def _request(self) -> bytes:
        path = self._address.path.strip("/")
        lines = [
            f"GET {'/' if path else ''}{path}{LEAF_PATH} HTTP/1.1",
            f"Host: {self._address}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self._key}",
            "Sec-WebSocket-Version: 13",
        ]
        if self._compress:
            lines.append(f"Sec-WebSocket-Extensions: {_PACKING}")
        if not self._mask:
            lines.append("Nats-No-Masking: true")
        return "\r\n".join([*lines, "", ""]).encode()

    def _read_handshake(self, data: bytes) -> None:
        try:
            answer = self._answer.feed(data)
            if answer is not None:
                self._check(answer)
                self._open(answer)
        except ValueError as error:
            self._end_opening(str(error))
            self.abort()

    def _check(self, answer: ResponseHead) -> None:
        """Raise ValueError if the answer does not agree."""
        if answer.status != 101:
            raise ValueError(f"the server refused the websocket: {answer.line[:200]}")
        if (
            answer.first("upgrade").lower() != "websocket"
            or answer.first("connection").lower() != "upgrade"
            or answer.first("sec-websocket-accept") != answer_to(self._key)
        ):
            raise ValueError("invalid websocket connection")
        extensions = answer.first("sec-websocket-extensions")
        if extensions and not (self._compress and _is_agreed(extensions)):
            raise ValueError("compression negotiation error")

    def _open(self, answer: ResponseHead) -> None:
        compressed = bool(answer.first("sec-websocket-extensions"))
        masked = self._mask or answer.first(_NO_MASKING) != "true"
        self._state = WebSocketState.OPEN
        self._decoder = FrameDecoder(require_mask=False, compressed=compressed, max_payload=self._max_payload)
        self._encoder = FrameEncoder(compressed=compressed, max_packed=MAX_PACKED, masked=masked)
        self._client = self._link
        self._link.peer.deflated = compressed
        self._link.connection_made(self)
        self._end_opening("")
        if answer.rest:
            self.data_received(answer.rest)

    def _end_opening(self, reason: str) -> None:
        if not self.opened.done():
            self.opened.set_result(reason)


def _is_agreed(extensions: str) -> bool:
    words = {word.strip().lower() for word in extensions.split(";")}
    return words == set(_PACKING.split("; "))
