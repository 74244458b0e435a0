"""ASGI's types, and the one extension that our server adds to it.

``scope["extensions"]["millstream.caller"]`` is a `WaitingCaller`.  It calls back when the client disconnects,
so an application needs no task that waits for that.  Other servers lack it, so applications must work without
it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

Message = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Pair = tuple[bytes, bytes]
Headers = Iterable[Pair]

CALLER: Final = "millstream.caller"
DENIAL: Final = "websocket.http.response"  # ASGI's extension: an HTTP answer to a WebSocket request


class WaitingCaller(Protocol):
    """The client of a request, who may disconnect before the answer."""

    @property
    def is_gone(self) -> bool: ...

    def when_gone(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once the caller disconnects, or now if it has; return a function to cancel it."""
