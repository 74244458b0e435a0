"""WebSockets by uvicorn's wsproto protocol, which takes a connection over from `Http1`.

From then on the transport tells this protocol, and nobody else, that the connection is over: whoever counts
connections has to hear it from here.
"""

from __future__ import annotations

from collections.abc import Callable

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol


class WebSocket(WSProtocol):
    """One connection; `ended` is called when it is over."""

    ended: Callable[[], None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.ended is not None:
            self.ended()
        super().connection_lost(exc)
