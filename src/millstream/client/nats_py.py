"""A carrier on a nats-py connection that the program already has.

It uses only public methods of nats-py.  nats-py takes its callbacks when it connects, so the carrier learns
nothing of reconnects: readings notice them by missing heartbeats.  Needs the extra `nats-py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import ConnectionClosedError, ConnectionDrainingError, NoRespondersError
from nats.errors import Error as NatsError

from millstream.client.core import Arrival, OrderedCore
from millstream.link.errors import NoResponders, NotConnected, RequestTimeout
from millstream.link.frames import Headers, header_block
from millstream.protocol.headers import read_pairs

_NO_HEADERS: Mapping[str, str] = {}


@contextmanager
def _keeping_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end if the task was cancelled meanwhile, whatever happened.

    nats-py waits with ``asyncio.wait_for``, which on Python 3.11 forgets a cancellation that comes together
    with the answer.  Nothing would cancel the task again.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError


class _Arrival:
    """A message of nats-py, which presents the status line as headers."""

    __slots__ = ("description", "headers", "payload", "reply", "status", "subject")

    def __init__(self, message: Msg) -> None:
        self.subject: str = message.subject
        self.payload: bytes = message.data
        self.reply: str = message.reply
        self.headers: Mapping[str, str] = message.headers or _NO_HEADERS
        status = self.headers.get("Status", "")
        self.status = int(status) if status.isdecimal() else 0
        self.description = self.headers.get("Description", "")


class NatsPyCarrier:
    """Uses the program's connection and never closes it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._publishing: set[asyncio.Task[None]] = set()

    @property
    def is_up(self) -> bool:
        return bool(self.connection.is_connected)

    @property
    def is_closed(self) -> bool:
        return bool(self.connection.is_closed)

    @property
    def epoch(self) -> int:
        return int(self.connection.stats["reconnects"])

    @property
    def where(self) -> str:
        url = self.connection.connected_url
        return url.netloc.rpartition("@")[2] if url is not None else "a server that is gone"

    def listen(self, listener: Callable[[], None]) -> None:
        """Do nothing: nats-py reports no reconnects to us."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        pass

    def new_inbox(self) -> str:
        return str(self.connection.new_inbox())

    async def request(self, subject: str, payload: bytes, headers: Headers, timeout_s: float) -> bytes:
        pairs: Any = dict(read_pairs(header_block(headers))) or None
        try:
            with _keeping_cancellation():
                answer = await self.connection.request(subject, payload, timeout=timeout_s, headers=pairs)
        except NoRespondersError:
            raise NoResponders(f"nobody listens on {subject}") from None
        except (ConnectionClosedError, ConnectionDrainingError):
            raise NotConnected("the connection is closed") from None
        except TimeoutError:
            raise RequestTimeout(f"no answer to {subject} within {timeout_s:g} s") from None
        except (NatsError, OSError) as error:
            raise NotConnected(f"{subject}: {error}") from None
        return bytes(answer.data)

    async def receive(self, inbox: str, core: OrderedCore) -> Callable[[], Awaitable[None]]:
        def take(arrival: Arrival) -> None:
            core.receive(arrival)
            core.chunk_ended()

        return await self.subscribe(inbox, take)

    async def subscribe(self, inbox: str, take: Callable[[Arrival], None]) -> Callable[[], Awaitable[None]]:
        async def take_one(message: Msg) -> None:
            take(_Arrival(message))

        try:
            subscription = await self.connection.subscribe(inbox, cb=take_one)
        except NatsError as error:
            raise NotConnected(f"subscribing failed: {error}") from None

        async def end() -> None:
            # A closed connection has no subscriptions.
            with contextlib.suppress(NatsError, OSError):
                await subscription.unsubscribe()

        return end

    def publish(self, subject: str, payload: bytes = b"", reply: str = "") -> None:
        task = asyncio.get_running_loop().create_task(self._publish(subject, payload, reply))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _publish(self, subject: str, payload: bytes, reply: str) -> None:
        # The consumer is lost with the connection; its heartbeat watch notices.
        with contextlib.suppress(NatsError, OSError):
            await self.connection.publish(subject, payload, reply=reply)
