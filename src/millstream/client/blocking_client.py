"""The client for programs without an event loop; it runs the loop in a thread of its own.

    with connect_blocking("nats://127.0.0.1:4222") as client:
        with client.ordered("ORDERS") as messages:
            for message in messages:
                print(message.stream_seq, message.data)

Messages cross between the threads in batches, so many messages share the cost of one hand-over.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections import deque
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from millstream.client.client import DEFAULT_URL, Client, connect
from millstream.client.errors import ClientClosed, ClientError
from millstream.client.groups.blocking_groups import BlockingGroups
from millstream.client.ordered import OrderedConsumer
from millstream.client.state import OrderedMessage, OrderedState

_BATCH: Final = 256

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a thread until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="millstream-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; an interrupt of the wait also cancels the work."""
        if not self._thread.is_alive():
            work.close()
            raise ClientClosed("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class BlockingClient:
    """A client for programs without an event loop; several threads may use it. Made by `connect_blocking`."""

    def __init__(self, client: Client, thread: LoopThread) -> None:
        self._client = client
        self._thread = thread

    @property
    def groups(self) -> BlockingGroups:
        """The partitioned consumer groups of the account."""
        return BlockingGroups(self._client.groups, self._thread)

    def ordered(self, stream: str, /, **options: Any) -> BlockingOrderedConsumer:
        """Return a consumer for ``with`` and ``for``; options as for `Client.ordered`, without `callback`."""
        if options.get("callback") is not None:
            raise ClientError("a callback needs an event loop; iterate instead")

        async def make() -> OrderedConsumer:
            return self._client.ordered(stream, **options)

        return BlockingOrderedConsumer(self._thread.run(make()), self._thread)

    def publish(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> int:
        """Publish to a stream and return the message's sequence.

        Raises ValueError for an invalid subject, and NoStream if no stream captures it.
        """
        return self._thread.run(self._client.publish(subject, data, headers))

    def close(self) -> None:
        """Close the connection and end the thread; a second call does nothing."""
        try:
            self._thread.run(self._client.close())
        except ClientClosed:
            return
        finally:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingOrderedConsumer:
    """An ordered consumer that blocks until a message comes; only one thread may iterate at a time."""

    def __init__(self, consumer: OrderedConsumer, thread: LoopThread) -> None:
        self._consumer = consumer
        self._thread = thread
        self._batch: deque[OrderedMessage] = deque()
        self._last: OrderedMessage | None = None
        self._closed = False

    def open(self) -> Self:
        """Open the consumer; `OrderedConsumer.open` says what is raised."""
        self._thread.run(self._consumer.open())
        return self

    def close(self) -> None:
        """Close the consumer as `OrderedConsumer.close` does; an iteration in another thread ends too."""
        self._closed = True
        self._thread.run(self._consumer.close())

    @property
    def state(self) -> OrderedState:
        """Return the consumer's state; messages on their way between the threads count as buffered."""

        async def ask() -> OrderedState:
            return self._consumer.state

        state = self._thread.run(ask())
        return dataclasses.replace(
            state,
            stream_seq=self._last.stream_seq if self._last else 0,
            consumer_seq=self._last.consumer_seq if self._last else 0,
            buffered=state.buffered + len(self._batch),
        )

    def next(self, timeout_s: float | None = None) -> OrderedMessage:
        """Return the next message; raises TimeoutError if none comes in time, ClientClosed after the end."""

        async def fetch() -> None:
            async with asyncio.timeout(timeout_s):
                # The loop's thread puts them there: an interrupt of the waiting thread must not lose them.
                self._batch.extend(await self._consumer.take(_BATCH))

        if not self._batch and not self._closed:
            self._thread.run(fetch())
        if self._closed or not self._batch:
            raise ClientClosed("the ordered consumer is closed")
        self._last = self._batch.popleft()
        return self._last

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> OrderedMessage:
        try:
            return self.next()
        except ClientClosed:
            if self._closed:
                raise StopIteration from None
            raise

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect_blocking(servers: str | list[str] = DEFAULT_URL, **options: Any) -> BlockingClient:
    """Connect without an event loop; the arguments are those of `connect`."""
    thread = LoopThread()
    try:
        return BlockingClient(thread.run(connect(servers, **options)), thread)
    except BaseException:
        thread.stop()
        raise
