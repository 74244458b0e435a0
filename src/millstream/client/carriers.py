"""The interface between a reading and its connection, and its implementation by a `Link`.

The other implementation uses a nats-py connection that the program already has (`nats_py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from millstream.client.core import Arrival, OrderedCore
from millstream.link.deliveries import BatchReceiver, LinkMessage
from millstream.link.errors import LinkError
from millstream.link.frames import Headers
from millstream.link.link import Link


class Carrier(Protocol):
    """A connection as a reading sees it; it raises the errors of `millstream.link`."""

    @property
    def is_up(self) -> bool: ...

    @property
    def is_closed(self) -> bool:
        """Return whether the connection is closed for good."""

    @property
    def epoch(self) -> int:
        """Return a number that changes with every new connection."""

    @property
    def where(self) -> str:
        """Return the address of the current server, for messages."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each reconnect, and when the connection is closed for good."""

    def unlisten(self, listener: Callable[[], None]) -> None: ...

    def new_inbox(self) -> str: ...

    async def request(self, subject: str, payload: bytes, headers: Headers, timeout_s: float) -> bytes:
        """Send a request and return the body of the answer."""

    async def receive(self, inbox: str, core: OrderedCore) -> Callable[[], Awaitable[None]]:
        """Pass messages for `inbox` to `core`; return a function that stops this."""

    async def subscribe(self, inbox: str, take: Callable[[Arrival], None]) -> Callable[[], Awaitable[None]]:
        """Pass messages for `inbox` to `take`; return a function that stops this."""

    def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        """Publish a message; does nothing without a connection."""


class LinkCarrier:
    """A carrier on a `Link`."""

    __slots__ = ("link",)

    def __init__(self, link: Link) -> None:
        self.link = link

    @property
    def is_up(self) -> bool:
        return self.link.is_up

    @property
    def is_closed(self) -> bool:
        return self.link.is_closed

    @property
    def epoch(self) -> int:
        return self.link.generation

    @property
    def where(self) -> str:
        return self.link.where or "a server that is gone"

    def listen(self, listener: Callable[[], None]) -> None:
        self.link.listen(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        self.link.unlisten(listener)

    def new_inbox(self) -> str:
        return self.link.new_inbox()

    async def request(self, subject: str, payload: bytes, headers: Headers, timeout_s: float) -> bytes:
        return (await self.link.request(subject, payload, headers, timeout_s)).payload

    async def receive(self, inbox: str, core: OrderedCore) -> Callable[[], Awaitable[None]]:
        sid = self.link.subscribe_receiver(inbox, core)

        return self._end(sid)

    async def subscribe(self, inbox: str, take: Callable[[Arrival], None]) -> Callable[[], Awaitable[None]]:
        def take_all(messages: list[LinkMessage]) -> None:
            for message in messages:
                take(message)

        return self._end(self.link.subscribe_receiver(inbox, BatchReceiver(take_all)))

    def _end(self, sid: int) -> Callable[[], Awaitable[None]]:
        async def end() -> None:
            self.link.end_subscription(sid)

        return end

    def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        if self.link.is_up:
            try:
                self.link.publish(subject, payload, reply=reply)
            except LinkError:
                return  # the consumer is lost with the connection; its heartbeat watch notices
