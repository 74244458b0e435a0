"""A subscription of a link with an event loop: messages to a callback, or into a bounded buffer.

    link.subscribe("orders.>", deliver=take)          # take([Message, …]), once for each read of the socket

    async with link.subscribe("orders.>") as messages:
        async for message in messages:                # at most `buffer` messages wait here
            …

As usual in NATS, a slow reader loses messages: with `Overflow.DROP` the newest are dropped and counted, with
`Overflow.END` the subscription ends with SlowConsumer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from millstream.link.deliveries import LinkMessage
from millstream.link.errors import LinkError, SlowConsumer

if TYPE_CHECKING:
    from millstream.link.link import Link

DEFAULT_BUFFER: Final = 65_536  # messages
DEFAULT_BUFFER_BYTES: Final = 64 * 1024 * 1024
_DRAIN_S: Final = 2.0

Deliver = Callable[[list[LinkMessage]], object]


class Overflow(Enum):
    """The treatment of messages when the buffer is full."""

    DROP = "drop"
    END = "end"


class LinkSubscription:
    """A subscription of a link; it outlives connections and ends with `unsubscribe`, `drain` or the link."""

    __slots__ = (
        "_buffer",
        "_buffered_bytes",
        "_deliver",
        "_ended",
        "_link",
        "_most_bytes",
        "_most_messages",
        "_overflow",
        "_waiter",
        "dropped",
        "error",
        "received",
        "sid",
        "subject",
    )

    def __init__(
        self,
        link: "Link",
        subject: str,
        deliver: Deliver | None,
        buffer: int,
        buffer_bytes: int,
        overflow: Overflow,
    ) -> None:
        self.subject: Final = subject
        self.sid = 0
        self.received = 0  # messages so far, including dropped ones
        self.dropped = 0
        self.error: LinkError | None = None  # the server's refusal, or the error that ended the subscription
        self._link = link
        self._deliver = deliver
        self._most_messages = buffer
        self._most_bytes = buffer_bytes
        self._overflow = overflow
        self._buffer: deque[LinkMessage] | None = None
        self._buffered_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False

    def __repr__(self) -> str:
        return f"<Subscription {self.sid} to {self.subject}>"

    # -- messages -----------------------------------------------------------------------------------

    def take(self, messages: list[LinkMessage]) -> None:
        """Called by the link with the messages of one read."""
        self.received += len(messages)
        if self._link.dialogue.received(self.sid, len(messages)):
            self._end(None)
        if self._deliver is not None:
            self._deliver(messages)
        else:
            self._keep(messages)

    def _keep(self, messages: list[LinkMessage]) -> None:
        if self._buffer is None:
            self._buffer = deque()
        for message in messages:
            size = len(message.payload) + len(message.block)
            if len(self._buffer) >= self._most_messages or self._buffered_bytes + size > self._most_bytes:
                if self._overflow is Overflow.END:
                    self.unsubscribe()
                    self._end(SlowConsumer(f"the reader of {self.subject} did not keep up"))
                    break
                self.dropped += 1
                continue
            self._buffer.append(message)
            self._buffered_bytes += size
        self._wake()

    async def next(self, timeout_s: float | None = None) -> LinkMessage:
        """Return the next message; raises TimeoutError, or at the end `error` or StopAsyncIteration."""
        async with asyncio.timeout(timeout_s):
            while not self._buffer:
                if self.error is not None:
                    raise self.error
                if self._ended:
                    raise StopAsyncIteration
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
        message = self._buffer.popleft()
        self._buffered_bytes -= len(message.payload) + len(message.block)
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LinkMessage:
        return await self.next()

    # -- its end ------------------------------------------------------------------------------------

    def unsubscribe(self) -> None:
        """End the subscription now."""
        self._link.end_subscription(self.sid)
        self._end(None)

    async def drain(self, timeout_s: float = _DRAIN_S) -> None:
        """End the subscription on the server, and wait until messages on their way are delivered.

        Without a connection, or without an answer within `timeout_s`, no more messages come.
        """
        await self._link.drain_subscription(self.sid, timeout_s)
        self._end(None)

    def fail(self, error: LinkError) -> None:
        """Called by the link when the server refuses the subscription, or the link is closed."""
        self._end(error)

    def _end(self, error: LinkError | None) -> None:
        self.error = self.error or error
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unsubscribe()
