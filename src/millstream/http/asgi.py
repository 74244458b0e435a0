"""ASGI's types, and the one extension that this floor has beside it.

``scope["extensions"]["millstream.caller"]`` is a `WaitingCaller`: an application learns at once that its
caller is gone without a task that waits for it.  Other servers do not have it, so applications must not
depend on it.
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
    """Whoever waits for the answer."""

    @property
    def is_gone(self) -> bool: ...

    def when_gone(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once when the caller is gone, which may be now; returns what takes that back."""
