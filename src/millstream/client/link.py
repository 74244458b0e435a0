"""A connection of nats-py, and who wants to know that it was lost and found again.

nats-py takes its callbacks when it connects.  `Link.connect` puts ours there, before the user's; a link on a
connection that somebody else made hears nothing, and readings on it notice by their heartbeats.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.client import Client as Connection

from millstream.client.opening import open_connection

Listener = Callable[[], None]


class Link:
    """Calls its listeners when the connection was built anew, and when it was closed for good."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._listeners: set[Listener] = set()

    @classmethod
    async def connect(cls, servers: str | list[str], timeout_s: float, **options: Any) -> Link:
        """Connect within `timeout_s`, or raise; `options` are those of nats-py."""
        link = cls(Connection())
        for name in ("reconnected_cb", "closed_cb"):
            options[name] = link._told(options.get(name))
        # A reading outlives any outage, unless its user sets an end.
        options.setdefault("max_reconnect_attempts", -1)
        await open_connection(link.connection, servers, timeout_s, **options)
        return link

    def listen(self, listener: Listener) -> None:
        self._listeners.add(listener)

    def unlisten(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def _told(self, callback: Callable[[], Awaitable[None]] | None) -> Callable[[], Awaitable[None]]:
        async def tell() -> None:
            for listener in list(self._listeners):
                listener()
            if callback is not None:
                await callback()

        return tell
