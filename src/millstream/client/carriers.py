"""What a reading needs from a connection, whatever kind it is, and a `Link` as one.

The other kind is a connection of nats-py that a program has already (`nats_py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from millstream.client.core import OrderedCore
from millstream.link.errors import LinkError
from millstream.link.frames import Headers
from millstream.link.link import Link


class Carrier(Protocol):
    """A connection; its errors are those of `millstream.link`."""

    @property
    def is_up(self) -> bool: ...

    @property
    def is_closed(self) -> bool:
        """Whether it is over for good."""

    @property
    def epoch(self) -> int:
        """A number that changes with every new connection."""

    @property
    def where(self) -> str:
        """The server that answers now, for people."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the connection was made anew, and when it was closed for good."""

    def unlisten(self, listener: Callable[[], None]) -> None: ...

    def new_inbox(self) -> str: ...

    async def request(self, subject: str, payload: bytes, headers: Headers, timeout_s: float) -> bytes:
        """Ask, and return the body of the answer."""

    async def receive(self, inbox: str, core: OrderedCore) -> Callable[[], Awaitable[None]]:
        """Hand what comes to `inbox` to `core`; returns what ends that."""

    def answer(self, subject: str) -> None:
        """Publish an empty message to `subject`; without a connection nothing is sent."""


class LinkCarrier:
    """A link of ours."""

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

        async def end() -> None:
            self.link.end_subscription(sid)

        return end

    def answer(self, subject: str) -> None:
        if self.link.is_up:
            try:
                self.link.publish(subject)
            except LinkError:
                return  # the consumer is lost anyway, and that is noticed elsewhere
