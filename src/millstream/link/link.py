"""A connection to NATS for programs with an event loop; it reconnects until it is closed.

    link = Link(LinkOptions(servers=parse_servers("nats://127.0.0.1:4222")))
    await link.connect()
    link.publish("orders.new", b"hello")                     # written at the end of this turn of the loop
    link.subscribe("orders.>", deliver=take)                 # lists of messages, as they were read
    answer = await link.request("help", b"?", timeout_s=1)
    info = await link.ask(STREAM_INFO, "ORDERS")
    await link.drain()

After a loss, the link tries all known servers with growing pauses (`Reconnect`), and reads credentials and
certificate files again for each attempt.  Meanwhile:

    subscriptions       are restored under their numbers before anything else is sent
    open requests       fail with ConnectionLost; with `repeat_s`, `ask` and `api` repeat those that are safe
    publishes           are refused with NotConnected, or kept up to `hold_bytes`
    windows             fail every message without an outcome with ConnectionLost (`publisher`)

The link leaves a server in lame duck mode for another as soon as nothing is in flight, if there is another.
A link belongs to one loop.  `connection` has login and TLS, `servers` chooses the next server.
"""

import asyncio
import contextlib
import copy
import logging
import random
import ssl
from collections import deque
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import Final, Self

from millstream.link.calls import Calls
from millstream.link.connection import PING_INTERVAL_S, LinkConnection, open_connection
from millstream.link.deliveries import BatchReceiver, LinkMessage, Receiver
from millstream.link.dialogue import Dialogue
from millstream.link.errors import (
    AuthorizationViolation,
    BadLinkOptions,
    ConnectionLost,
    LinkError,
    NotConnected,
    RequestTimeout,
    summary,
)
from millstream.link.frames import Headers, message_frame
from millstream.link.login import new_inbox
from millstream.link.options import LinkOptions
from millstream.link.outbox import LinkOutbox
from millstream.link.servers import Backoff, Reconnect
from millstream.link.subscriptions import (
    DEFAULT_BUFFER,
    DEFAULT_BUFFER_BYTES,
    Deliver,
    LinkSubscription,
    Overflow,
)

_LOG: Final = logging.getLogger("millstream.link")
_SWEEP_S: Final = 0.1  # between two checks of request deadlines
_LEAVE_S: Final = 5.0  # for requests in flight on a server in lame duck mode


class LinkState(Enum):
    """The states that a link reports to its listeners."""

    CONNECTED = "connected"
    LOST = "lost"  # the link begins to reconnect
    RETRYING = "retrying"  # a round over all servers has failed
    CLOSED = "closed"  # for good


StateCallback = Callable[[LinkState, LinkError | None], None]


class Link(Calls):
    """A link with an event loop; `generation` rises with every connection."""

    def __init__(
        self,
        options: LinkOptions,
        *,
        reconnect: Reconnect | None = None,
        hold_bytes: int = 0,
        on_state: StateCallback | None = None,
        ping_interval_s: float = PING_INTERVAL_S,
        context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(options)
        self.dialogue: Final = Dialogue(options)
        self.out: Final = LinkOutbox(hold_bytes)
        self.generation = 0
        self.on_state = on_state
        self._reconnect = reconnect or Reconnect()
        self._ping_interval_s = ping_interval_s
        self._context = context
        self._connection: LinkConnection | None = None
        self._closed: LinkError | None = None
        self._mender: asyncio.Task[None] | None = None
        self._listeners: set[Callable[[], None]] = set()
        self._subscriptions: dict[int, LinkSubscription] = {}
        self._pongs: deque[asyncio.Future[None]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None
        self._leave_timer: asyncio.TimerHandle | None = None
        self.after_read: Final[set[Callable[[], None]]] = set()
        self.at_loss: Final[set[Callable[[LinkError], None]]] = set()  # called before the listeners
        self._seen_pongs = 0
        self.unanswered: Final[set[Callable[[], int]]] = (
            set()
        )  # functions that count publishes without an outcome

    def __repr__(self) -> str:
        return f"<Link to {self.where or 'nobody'}>"

    # -- its life -----------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    @property
    def is_closed(self) -> bool:
        """Return whether the link is closed for good."""
        return self._closed is not None

    @property
    def where(self) -> str:
        """The address of the current server, for messages; empty without a connection."""
        return str(self._connection.server) if self._connection is not None else ""

    @property
    def max_payload(self) -> int:
        return self.dialogue.info.max_payload

    async def connect(self) -> None:
        """Try every server once; raises NotConnected with the answer of each.  May be called again."""
        if self._closed is not None:
            raise copy.copy(self._closed)
        if self._connection is None:
            await self._connect()

    def connect_in_background(self) -> None:
        """Connect in the background, trying until it succeeds."""
        self._mend(at_once=True)

    async def close(self, reason: LinkError | None = None) -> None:
        """Close the link for good; everything that waits fails with `reason`."""
        if self._closed is None:
            self._closed = reason or NotConnected("the link is closed")
        mender, self._mender = self._mender, None
        if mender is not None and mender is not asyncio.current_task():
            mender.cancel()
            await asyncio.wait([mender])
        connection, self._connection = self._connection, None
        self.out.close(self._closed)
        if connection is not None:
            connection.close()
        self._end_all(self._closed)
        for subscription in list(self._subscriptions.values()):
            subscription.fail(self._closed)
        self._subscriptions.clear()
        self.dialogue.clear()
        self._tell(LinkState.CLOSED, reason)

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Deliver what is on its way to subscriptions, send what was published, and close."""
        with contextlib.suppress(LinkError, TimeoutError):
            await asyncio.gather(*(each.drain(timeout_s) for each in list(self._subscriptions.values())))
            await self.flush(timeout_s)
        await self.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` with each `LinkState`: connection lost, regained, closed."""
        self._listeners.add(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        self._listeners.discard(listener)

    def _tell(self, state: LinkState, error: LinkError | None) -> None:
        if self.on_state is not None:
            self.on_state(state, error)
        if state is not LinkState.RETRYING:
            for listener in list(self._listeners):
                listener()

    # -- connecting ---------------------------------------------------------------------------------

    async def _connect(self) -> None:
        failures: list[LinkError] = []
        pool = self.dialogue.pool
        for server in pool.round():
            connection = LinkConnection(server, self.dialogue, self)
            try:
                await open_connection(
                    connection,
                    self.options,
                    tls_name=pool.tls_name(server),
                    ping_interval_s=self._ping_interval_s,
                    context=self._context,
                )
            except (NotConnected, BadLinkOptions) as error:
                failures.append(error)
                continue
            if self._closed is not None or self._connection is not None:  # meanwhile
                connection.close()
                return
            self._adopt(connection)
            return
        problem = summary(failures)
        self.out.detach(problem)
        raise problem

    def _adopt(self, connection: LinkConnection) -> None:
        self._connection = connection
        self.generation += 1
        self.dialogue.greeted(connection.server, connection.info)
        self.out.attach(connection, self.dialogue.restored())
        self._tell(LinkState.CONNECTED, None)

    def ended(self, connection: LinkConnection, reason: LinkError) -> None:
        """Called by the connection when it has ended."""
        if connection is not self._connection:
            return
        self._connection = None
        self.out.detach(reason)
        self._end_all(reason)
        self._tell(LinkState.LOST, reason)
        if self._closed is None:
            self._mend(at_once=False)

    def _end_all(self, reason: LinkError) -> None:
        """Fail everything that waits for this connection."""
        for timer in (self._sweeper, self._leave_timer):
            if timer is not None:
                timer.cancel()
        self._sweeper = self._leave_timer = None
        closed = self._closed
        text = f"the connection to NATS was lost before the answer came: {reason}"
        self.dialogue.requests.fail_all(lambda _: copy.copy(closed) if closed else ConnectionLost(text))
        pongs, self._pongs = self._pongs, deque()
        for waiter in pongs:
            if not waiter.done():
                waiter.set_exception(ConnectionLost(text))
        for tell in list(self.at_loss):
            tell(reason)

    def _mend(self, *, at_once: bool) -> None:
        if self._closed is None and (self._mender is None or self._mender.done()):
            self._mender = asyncio.get_running_loop().create_task(self._keep_trying(at_once))

    async def _keep_trying(self, at_once: bool) -> None:
        rules = self._reconnect
        pauses = Backoff(first_s=rules.first_s, longest_s=rules.longest_s, generator=random.Random())
        if not at_once:
            pauses.next_s()  # the first attempt waits too: most outages are restarts
        while self._closed is None and self._connection is None:
            await asyncio.sleep(pauses.next_s())
            try:
                await self._connect()
                return
            except AuthorizationViolation as error:
                failure: LinkError = error
                if rules.stop_when_refused:
                    await self.close(error)
                    return
            except LinkError as error:
                failure = error
            except Exception as error:  # an unforeseen error must not end the attempts
                _LOG.error("connecting to NATS failed: %r", error, exc_info=error)
                failure = NotConnected(f"connecting to NATS failed: {error!r}")
            self._tell(LinkState.RETRYING, failure)
            if 0 <= rules.attempts <= pauses.failures - (not at_once):
                await self.close(NotConnected(f"gave up after {rules.attempts} attempts: {failure}"))
                return

    # -- called by the connection -------------------------------------------------------------------

    def received(self) -> None:
        seen = self.dialogue.pongs
        while self._seen_pongs < seen:
            self._seen_pongs += 1
            if self._pongs:
                waiter = self._pongs.popleft()
                if not waiter.done():
                    waiter.set_result(None)
        for told in self.after_read:
            told()
        if self.dialogue.info.ldm:
            self._leave()

    def writable(self) -> None:
        self.out.wake()

    def _leave(self) -> None:
        """Change to another server once nothing is in flight here, or after a time limit."""
        connection = self._connection
        if connection is None or not self.dialogue.pool.has_others(connection.server):
            return
        loop = asyncio.get_running_loop()
        if self._leave_timer is None:
            self._leave_timer = loop.call_later(_LEAVE_S, self._left, connection)
        waiting = self.dialogue.requests or self._pongs or any(count() for count in self.unanswered)
        if not waiting and self.out.is_idle:
            self._left(connection)

    def _left(self, connection: LinkConnection) -> None:
        if connection is self._connection:
            connection.abort(NotConnected(f"{connection.server} is about to shut down"))

    # -- messages out -------------------------------------------------------------------------------

    def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", headers: Headers = b"") -> None:
        """Publish one message; it is written at the end of this turn of the loop.

        Raises BadMessage for what no server accepts, and NotConnected if there is neither a connection nor
        room in `hold_bytes`.
        """
        self.out.send(message_frame(subject, payload, reply, headers, self.max_payload))

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until the server has processed everything that was sent; raises RequestTimeout."""
        self.out.check()
        timeout_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs.append(waiter)
        self.out.send(b"PING\r\n")
        try:
            async with asyncio.timeout(timeout_s or None):
                await waiter
        except TimeoutError:
            raise RequestTimeout(f"{self.where} did not answer a PING within {timeout_s:g} s") from None

    # -- subscriptions ------------------------------------------------------------------------------

    def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        deliver: Deliver | None = None,
        max_messages: int = 0,
        buffer: int = DEFAULT_BUFFER,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        overflow: Overflow = Overflow.DROP,
    ) -> LinkSubscription:
        """Subscribe to a subject, in a `queue` group if named, until `max_messages` have come.

        With `deliver`, messages go there in lists; otherwise iterate over the subscription.  Without a
        connection, the subscription is made with the next one.
        """
        made = LinkSubscription(self, subject, deliver, buffer, buffer_bytes, overflow)
        made.sid = self._subscribe(subject, queue, BatchReceiver(made.take), max_messages, made.fail)
        self._subscriptions[made.sid] = made
        return made

    def subscribe_receiver(self, subject: str, receiver: Receiver, queue: str = "") -> int:
        """Pass the messages of a subject to a compiled receiver; return a number for `end_subscription`."""
        return self._subscribe(subject, queue, receiver, 0, None)

    def _subscribe(
        self,
        subject: str,
        queue: str,
        receiver: Receiver,
        most: int,
        denied: Callable[[LinkError], None] | None,
    ) -> int:
        if self._closed is not None:
            raise copy.copy(self._closed)
        sid, frames = self.dialogue.subscribe(subject, queue, receiver, most=most, denied=denied)
        if self._connection is not None:
            self.out.send(frames)
        return sid

    def end_subscription(self, sid: int) -> None:
        """End a subscription."""
        self._subscriptions.pop(sid, None)
        frame = self.dialogue.unsubscribe(sid)
        if frame and self._connection is not None:
            self.out.send(frame)

    async def drain_subscription(self, sid: int, timeout_s: float) -> None:
        """End a subscription on the server, and wait until messages on their way are delivered."""
        self._subscriptions.pop(sid, None)
        frame = self.dialogue.unsubscribe(sid, keep_receiver=True)
        try:
            if frame and self._connection is not None:
                self.out.send(frame)
                with contextlib.suppress(LinkError):
                    await self.flush(timeout_s)
        finally:
            self.dialogue.dispatcher.remove(sid)

    def new_inbox(self) -> str:
        """Return a new unique subject."""
        return new_inbox(self.options)

    # -- requests -----------------------------------------------------------------------------------

    async def request(
        self, subject: str, payload: bytes = b"", headers: Headers = b"", timeout_s: float | None = None
    ) -> LinkMessage:
        """Send a request and return the first answer; `timeout_s` 0 waits for ever.

        Raises NoResponders without a subscriber, RequestTimeout without an answer in time,
        PermissionViolation if the request is not permitted, NotConnected if nothing was sent, and
        ConnectionLost if it may have been sent.
        """
        self.out.check()
        timeout_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        future: asyncio.Future[LinkMessage] = loop.create_future()

        def settle(outcome: LinkMessage | LinkError) -> None:
            if not future.done():
                if isinstance(outcome, LinkMessage):
                    future.set_result(outcome)
                else:
                    future.set_exception(outcome)

        requests = self.dialogue.requests
        inbox = self.dialogue.open_inbox()
        if inbox:
            self.out.send(inbox)
        reply = requests.ask(subject, settle, loop.time(), timeout_s)
        try:
            self.publish(subject, payload, reply=reply, headers=headers)
            if self._sweeper is None:
                self._sweeper = loop.call_later(_SWEEP_S, self._sweep)
            return await future
        finally:
            requests.forget(reply)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self.dialogue.requests.expire(loop.time())
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep) if self.dialogue.requests else None

    async def until_up(self, deadline: float) -> None:
        changed = asyncio.Event()
        self.listen(changed.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    while self._connection is None and self._closed is None:
                        await changed.wait()
                        changed.clear()
        finally:
            self.unlisten(changed.set)
