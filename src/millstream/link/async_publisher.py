"""A window of publishes on a connection of an event loop.

    publisher = AsyncPublisher(options)
    await publisher.connect()
    receipts = await publisher.publish_many([(b"orders.eu", b"", b"hello"), …])
    receipt = await publisher.publish(b"orders.eu", b"hello")

Messages of one turn of the loop leave in one write, whoever published them; a batch has one future.  A full
window, and a server that does not read, make publishers wait.

When the connection breaks, every message without an outcome gets the error as one: whether the server has
it is unknown.  The publisher connects again by itself, for ever, and refuses messages until it has.
"""

import asyncio
import copy
import random
import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from millstream.link.async_connection import PING_INTERVAL_S, AsyncConnection, open_connection
from millstream.link.errors import AuthorizationViolation, LinkError, NotConnected, PermissionViolation
from millstream.link.login import ServerInfo, known_servers, new_inbox
from millstream.link.options import LinkOptions
from millstream.link.publishing import DEFAULT_LIMIT, PubAck, PublishWindow, Receipts

DEFAULT_ANSWER_S: Final = 10.0
_FLUSH_AT: Final = 128 * 1024  # bytes of frames that are written before the turn of the loop ends
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 5.0
_SID: Final = 1
_DENIED: Final = re.compile(r'permissions violation for publish to "([^"]*)"', re.IGNORECASE)

StateCallback = Callable[[bool, str], None]  # connected or not, and to whom or why not


class Receipt(NamedTuple):
    """The outcome of one publish."""

    stream: str
    seq: int
    duplicate: bool
    domain: str
    details: PubAck | None  # of an answer that says more than usual


class AsyncPublisher:
    """One connection of its own; used by any number of tasks of one loop."""

    def __init__(
        self,
        options: LinkOptions,
        *,
        limit: int = DEFAULT_LIMIT,
        timeout_s: float = DEFAULT_ANSWER_S,
        ping_interval_s: float = PING_INTERVAL_S,
        on_state: StateCallback | None = None,
    ) -> None:
        self._options = options
        self._timeout_s = timeout_s
        self._ping_interval_s = ping_interval_s
        self._on_state = on_state
        self._inbox = new_inbox(options)
        self._window = PublishWindow(self._inbox.encode(), limit)
        self._wake_at = max(limit // 4, 1)
        self._connection: AsyncConnection | None = None
        self._problem: LinkError = NotConnected("not connected yet")
        self._info: ServerInfo | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._flush_planned = False
        self._expiry: asyncio.TimerHandle | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._closed = False

    # -- life ---------------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def info(self) -> ServerInfo | None:
        """What the server last told about itself."""
        return self._connection.info if self._connection is not None else self._info

    @property
    def server(self) -> str:
        """Who we are connected to; empty if to nobody."""
        return str(self._connection.server) if self._connection is not None else ""

    async def connect(self) -> None:
        """Try every server once, in random order; NotConnected tells what each of them said."""
        if self._connection is not None:
            return
        failures: list[LinkError] = []
        servers = known_servers(self._options, self._info)
        random.shuffle(servers)
        for server in servers:
            connection = AsyncConnection(server, self._window.settle, self._received, self._wake, self._lost)
            connection.told = self._told
            try:
                await open_connection(self._options, connection, ping_interval_s=self._ping_interval_s)
            except NotConnected as error:
                failures.append(error)
                continue
            connection.write(f"SUB {self._inbox}.* {_SID}\r\n".encode())
            self._connection = connection
            self._info = connection.info
            self._window.max_payload = connection.info.max_payload
            self._tell(True, str(server))
            return
        refused = any(isinstance(error, AuthorizationViolation) for error in failures)
        kind = AuthorizationViolation if refused else NotConnected
        self._problem = kind("; ".join(str(error) for error in failures))
        raise self._problem

    async def close(self) -> None:
        """End it; messages without an outcome fail."""
        self._closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.gather(self._reconnecting, return_exceptions=True)
        if self._expiry is not None:
            self._expiry.cancel()
        connection, self._connection = self._connection, None
        self._problem = NotConnected("the publisher is closed")
        self._window.fail_all(self._problem)
        self._wake()
        if connection is not None:
            connection.close()

    def _lost(self, error: LinkError) -> None:
        if self._connection is None:
            return
        self._info = self._connection.info
        self._connection = None
        self._problem = error
        self._window.fail_all(error)
        self._wake()
        self._tell(False, str(error))
        if not self._closed:
            self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect())

    async def _reconnect(self) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
            try:
                return await self.connect()
            except LinkError as error:
                self._tell(False, str(error))
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    def _tell(self, connected: bool, text: str) -> None:
        if self._on_state is not None:
            self._on_state(connected, text)

    # -- publishing ---------------------------------------------------------------------------------

    async def publish(self, subject: bytes, payload: bytes, headers: bytes = b"") -> Receipt:
        """Publish one message and return where it was stored; raises what went wrong."""
        window = self._window
        problem = window.problem(subject, len(headers), len(payload))
        if problem is None and not self._has_room():
            await self._wait_for_room()
        if problem is None and self._connection is None:
            problem = self._problem
        if problem is not None:
            raise copy.copy(problem)
        done, receipts = self._awaited()
        window.add(receipts, subject, headers, payload)
        receipts.seal()
        self._plan_flush()
        return receipt_of(await done, 0)

    async def publish_many(self, messages: Iterable[tuple[bytes, bytes, bytes]]) -> Receipts:
        """Publish messages (subject, header block or empty, payload); the outcome of each, in order."""
        return await (await self.submit(messages))

    async def submit(self, messages: Iterable[tuple[bytes, bytes, bytes]]) -> "asyncio.Future[Receipts]":
        """The same, but back as soon as all of them are on their way: who submits one batch after the other
        has them stored in that order, and awaits the outcomes when it likes."""
        done, receipts = self._awaited()
        window = self._window
        waiting = messages if isinstance(messages, list) else list(messages)
        place = 0
        while place < len(waiting):
            if not self._has_room():
                await self._wait_for_room()
            if self._connection is None:
                receipts.refuse(self._problem)
                place += 1
                continue
            place = window.add_some(receipts, waiting, place, _FLUSH_AT)
            if window.frames.size >= _FLUSH_AT:
                self._flush()
        self._plan_flush()
        receipts.seal()
        return done

    def _awaited(self) -> "tuple[asyncio.Future[Receipts], Receipts]":
        done: asyncio.Future[Receipts] = asyncio.get_running_loop().create_future()
        return done, Receipts(lambda made: None if done.done() else done.set_result(made))

    def _plan_flush(self) -> None:
        if self._window.frames.size and not self._flush_planned:
            self._flush_planned = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _has_room(self) -> bool:
        connection = self._connection
        return connection is None or (connection.can_write and self._window.free() > 0)

    async def _wait_for_room(self) -> None:
        while not self._has_room():
            self._flush()
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _flush(self) -> None:
        self._flush_planned = False
        if self._connection is None or self._window.frames.size == 0:
            return
        loop = asyncio.get_running_loop()
        self._window.mark(loop.time())
        self._connection.write(self._window.frames.take())
        if self._expiry is None:
            self._expiry = loop.call_later(self._timeout_s, self._expire)

    # -- outcomes -----------------------------------------------------------------------------------

    def _told(self, text: str) -> None:
        """What the server does not permit it never answers; it says so out of turn."""
        match = _DENIED.search(text)
        if match is not None:
            self._window.deny(match[1].encode(), PermissionViolation(text))

    def _received(self) -> None:
        if self._waiters and (self._window.free() >= self._wake_at):
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._expiry = None
        if self._window.expire(loop.time() - self._timeout_s, self._timeout_s):
            self._wake()
        oldest = self._window.oldest()
        if oldest is not None:
            self._expiry = loop.call_at(oldest + self._timeout_s, self._expire)


def receipt_of(receipts: Receipts, place: int) -> Receipt:
    """What became of one message of a batch; raises what went wrong with it."""
    error = receipts.errors.get(place)
    if error is not None:
        raise copy.copy(error)  # one error may be the outcome of many messages
    origin = receipts.origins[place]
    assert origin is not None
    return Receipt(
        origin.stream,
        receipts.sequences[place],
        place in receipts.duplicates,
        origin.domain,
        receipts.details.get(place),
    )
