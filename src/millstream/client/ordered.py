"""The ordered consumer: every message of a stream once and in stream order, across losses and reconnects.

    async with client.ordered("ORDERS", subjects="orders.eu.>") as messages:
        async for message in messages:
            print(message.stream_seq, message.subject, message.data)

It is a push consumer on the server with an inbox of its own.  Its sequences and heartbeats are checked, and
it is replaced by a new one when a message or the consumer itself is lost.

`reader` does the work; `blocking_client` is for programs without an event loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from millstream.client.api import Api
from millstream.client.errors import ClientClosed, ClientError
from millstream.client.reader import Reading
from millstream.client.state import ENDED, OrderedMessage, OrderedState
from millstream.jsapi.consumer_types import ConsumerConfig

Callback = Callable[[OrderedMessage], Awaitable[None] | None]


class OrderedConsumer:
    """An ordered consumer; `Client.ordered` makes it, and ``async with`` opens it.

    It iterates over messages unless it has a callback.  Iteration ends when the consumer is closed.  If the
    reading fails, iteration raises the error after the messages that arrived before it.
    """

    __slots__ = (
        "_callback",
        "_callback_failure",
        "_caller",
        "_consumer_seq",
        "_ended",
        "_failure_told",
        "_reading",
        "_stream",
        "_stream_seq",
    )

    def __init__(
        self,
        api: Api,
        stream: str,
        config: ConsumerConfig,
        *,
        name_prefix: str = "",
        buffer_messages: int,
        buffer_bytes: int,
        callback: Callback | None = None,
    ) -> None:
        self._stream = stream
        self._ended: asyncio.Event | None = None  # made by the first `wait`
        self._reading = Reading(
            api,
            stream,
            config,
            max_messages=buffer_messages,
            max_bytes=buffer_bytes,
            name_prefix=name_prefix,
            ended=self._tell_end,
        )
        self._callback = callback
        self._caller: asyncio.Task[None] | None = None
        self._callback_failure: Exception | None = None
        self._failure_told = False
        self._stream_seq = 0
        self._consumer_seq = 0

    async def open(self) -> Self:
        """Create the consumer on the server; raises StreamNotFound and the server's other errors."""
        await self._reading.open()
        if self._callback is not None:
            self._caller = asyncio.get_running_loop().create_task(self._call_back(self._callback))
        return self

    async def close(self) -> None:
        """Stop reading and delete the consumer on the server; buffered messages are dropped."""
        caller, self._caller = self._caller, None
        if caller is not None and caller is not asyncio.current_task():
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
        await self._reading.close()

    @property
    def state(self) -> OrderedState:
        """Return the state of the reading."""
        reading = self._reading
        return OrderedState(
            phase=reading.phase,
            stream=self._stream,
            consumer_name=reading.consumer_name,
            stream_seq=self._stream_seq,
            consumer_seq=self._consumer_seq,
            received_stream_seq=reading.core.stream_seq,
            buffered=reading.core.held,
            pending=reading.core.pending,
            resets=reading.resets,
            last_reset=reading.last_reset,
            last_heartbeat=reading.last_heartbeat,
            last_error=reading.last_error,
        )

    # -- messages, one by one -------------------------------------------------------------------------

    async def next(self, timeout_s: float | None = None) -> OrderedMessage:
        """Return the next message; raises TimeoutError if none comes in time, ClientClosed after the end.

        A call that is cancelled or times out loses no message.
        """
        self._must_not_call_back()
        async with asyncio.timeout(timeout_s):
            message = await self._next()
        if message is None:
            raise ClientClosed("the ordered consumer is closed")
        return message

    async def take(self, limit: int) -> list[OrderedMessage]:
        """Return one to `limit` messages, waiting only for the first; none if the consumer is closed.

        A call that is cancelled loses no message.
        """
        self._must_not_call_back()
        messages = await self._reading.take(limit)
        if messages:
            self._handed_out(messages[-1])
        return messages

    def __aiter__(self) -> Self:
        self._must_not_call_back()
        return self

    async def __anext__(self) -> OrderedMessage:
        message = await self._next()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _next(self) -> OrderedMessage | None:
        """Return the next message, or None after `close`."""
        messages = await self._reading.take(1)
        return self._handed_out(messages[0]) if messages else None

    def _handed_out(self, message: OrderedMessage) -> OrderedMessage:
        self._stream_seq = message.stream_seq
        self._consumer_seq = message.consumer_seq
        return message

    # -- or to a callback -----------------------------------------------------------------------------

    async def wait(self) -> None:
        """Wait until the consumer is closed; raises the error that ended it, including the callback's."""
        if self._reading.phase not in ENDED:
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()
        if self._caller is not None and self._caller is not asyncio.current_task():
            await asyncio.wait({self._caller})  # it may still hold messages
        self._raise_failure()

    def _tell_end(self) -> None:
        if self._ended is not None:
            self._ended.set()

    async def _call_back(self, callback: Callback) -> None:
        try:
            while (message := await self._next()) is not None:
                outcome = callback(message)
                if inspect.isawaitable(outcome):
                    await outcome
        except Exception as error:
            if error is not self._reading.failure:
                self._callback_failure = error
            await self._reading.close()

    def _raise_failure(self) -> None:
        failure = self._callback_failure or self._reading.failure
        if failure is not None:
            self._failure_told = True
            raise failure

    def _must_not_call_back(self) -> None:
        if self._callback is not None:
            raise ClientError("messages of this consumer go to its callback")

    # -- async with -----------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
        if error is None and self._callback is not None and not self._failure_told:
            self._raise_failure()  # an error of the callback is raised nowhere else
