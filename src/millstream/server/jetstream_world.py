"""Implement the ports of JetStream (``jetstream.ports``) for an account of the broker.

Compiled, because every commit calls it a dozen times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from millstream.base import guard
from millstream.base.slices import Pieces
from millstream.broker.internal import (
    OURSELVES,
    CallbackSubscriber,
    CaptureSubscriber,
    InternalMessage,
    ServiceSubscriber,
)
from millstream.broker.options import ConnectionType
from millstream.broker.outlet import AnswerOutlet
from millstream.broker.reply_outlet import answer_outlet, outlet_to
from millstream.broker.router import REPLY_PREFIX
from millstream.broker.routes import Subscription
from millstream.broker.watchdog import PART_S
from millstream.golang.time import Time
from millstream.jetstream.api import find_endpoint, name_of_endpoint
from millstream.jetstream.ports import ClientRequest, JournalOfCommits, MessageLimits, Sink, Traced
from millstream.jsapi.advisory_types import ClientInfo
from millstream.protocol.headers import make_status
from millstream.protocol.inlet import Inlet, Responder
from millstream.protocol.parser import make_frame

if TYPE_CHECKING:
    from millstream.base.clock import Clock
    from millstream.broker.accounts import Account
    from millstream.broker.broker import Broker
    from millstream.broker.connection import Tick
    from millstream.broker.session import ClientSession
    from millstream.broker.turns import Planned
    from millstream.otel.spans import SpanQueue
    from millstream.protocol.outlet import Outlet
    from millstream.protocol.replies import Replies
    from millstream.server.workers import Workers

_TOKENS_NAMED: Final = 4  # of other requests: $JS.API.DIRECT.GET, $JS.API.CONSUMER.MSG
_FAILED: Final = make_status(b"500 Internal Error")  # to whoever asked for what raised an exception


class AccountWorld:
    """Implements ``jetstream.ports.World``."""

    def __init__(
        self,
        broker: Broker,
        account: Account,
        clock: Clock,
        workers: Workers,
        spans: SpanQueue | None = None,
    ) -> None:
        self._broker = broker
        self._turns = broker.turns
        self._tick: Tick = broker.tick
        self._account = account
        self._workers = self.writers = workers
        self.now_ns = clock.wall_ns
        self.steady_ns = clock.steady_ns
        self.spans = spans

    @property
    def limits(self) -> MessageLimits:
        options = self._broker.options
        return MessageLimits(options.max_payload, options.max_control_line)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Planned:
        return self._turns.later(delay_s, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._turns.soon(callback)

    def in_slices(self, name: str, pieces: Pieces[Any]) -> None:
        self._turns.in_slices(name, pieces)

    def run_in_worker(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._workers.submit(work, done)

    @property
    def journal(self) -> JournalOfCommits:
        return self._workers.journal

    @property
    def publisher(self) -> int:
        return self._tick.reader

    def hold_publisher(self) -> None:
        self._tick.near_max_pending = self._tick.flooded = True

    def release_publishers(self) -> None:
        if self._tick.held:
            self._tick.release()

    def publish(
        self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None
    ) -> None:
        self._broker.publish(self._account, subject, payload, reply=reply, headers=headers)

    def ask(self, subject: bytes, payload: bytes, reply: bytes = b"", headers: bytes | None = None) -> None:
        self._broker.publish(self._account, subject, payload, reply=reply, headers=headers, source=OURSELVES)

    def acknowledge(self, start: bytes, acks: Replies, flush: bool = True) -> None:
        self._account.space.answer(acks, start)
        if flush and not self._workers.ending_many:
            self._tick.flush()

    def confirm(self, replies: list[bytes]) -> None:
        self._account.space.confirm(replies)
        if not self._workers.ending_many:
            self._tick.flush()

    def has_interest(self, subject: bytes) -> bool:
        if subject.startswith(REPLY_PREFIX):
            return self.outlet(subject).has_interest()
        return self._broker.has_interest(self._account, subject)

    def capture(
        self,
        subject: bytes,
        sink: Sink,
        traced: Traced | None = None,
        refuse: Callable[[bytes], None] | None = None,
        *,
        from_clients: bool = False,
    ) -> Subscription:
        owner = CaptureSubscriber(sink, traced, refuse, from_clients=from_clients)
        subscription = Subscription(owner, subject, None, b"")
        if isinstance(sink, Inlet):
            subscription.inlet = sink
        self._account.space.subscribe(subscription)
        self._broker.imports.shadow_ours(self._account, subscription)
        return subscription

    def serve(
        self,
        subject: bytes,
        callback: Callable[[ClientRequest], None],
        queue: bytes | None = None,
        *,
        spared: tuple[bytes, ...] = (),
        responder: Responder | None = None,
    ) -> Subscription:
        subscription = self._listen(ServiceSubscriber, subject, callback, queue, responder)
        subscription.spared = spared
        self._account.space.subscribe(subscription)
        return subscription

    def hear(self, inbox: bytes, callback: Callable[[ClientRequest], None]) -> Subscription:
        subscription = self._listen(CallbackSubscriber, inbox, callback, None)
        self._account.space.subscribe(subscription)
        return subscription

    def _listen(
        self,
        kind: type[CallbackSubscriber],
        subject: bytes,
        callback: Callable[[ClientRequest], None],
        queue: bytes | None,
        responder: Responder | None = None,
    ) -> Subscription:
        listener = _Listener(self._broker, self._account, subject, callback)
        owner = kind(listener.hear)
        if responder is not None:
            owner = ServiceSubscriber(listener.hear, responder, AnswerOutlet(self._account.space))
        listener.subscription = Subscription(owner, subject, queue, b"")
        return listener.subscription

    def release(self, handle: Any) -> None:
        if isinstance(handle, _Watch):
            self._account.space.unwatch(handle.subject, handle.changed)
            return
        self._broker.unsubscribe(self._account, handle)
        self._broker.imports.forget_ours(handle)
        if isinstance(handle.owner, CallbackSubscriber):
            handle.owner.let_go()

    def outlet(self, subject: bytes, queue: bytes | None = None) -> Outlet:
        return outlet_to(self._broker.imports, self._account, subject, queue)

    def flush(self) -> None:
        self._broker.flush_soon()

    def watch(self, subject: bytes, changed: Callable[[], None]) -> _Watch:
        self._account.space.watch(subject, changed)
        return _Watch(subject, changed)


class _Listener:
    """Passes the messages of one subscription to a function as requests; answers those that it fails at."""

    def __init__(
        self, broker: Broker, account: Account, subject: bytes, callback: Callable[[ClientRequest], None]
    ) -> None:
        self.subscription: Subscription
        self._broker = broker
        self._account = account
        self._callback = callback
        self._place = f"a request to {subject.decode(errors='replace')}"

    def hear(self, message: InternalMessage) -> None:
        client = None if message.source is OURSELVES else message.source
        requester = SourceRequester(self._broker, self._account, client)
        request = ClientRequest(message.subject, message.reply, message.headers, message.payload, requester)
        if client is None:  # we sent it, and are in the middle of something
            self._broker.turns.soon(self._answer, request)
        else:
            self._answer(request)

    def _answer(self, request: ClientRequest) -> None:
        if self.subscription.closed:
            return
        watchdog = self._broker.turns.watchdog
        began = watchdog.began()
        if not guard.alone(self._place, self._callback, request):
            request.answer(b"", headers=_FAILED)
        took = watchdog.since(began)
        if took > PART_S:
            watchdog.part_ended(took, _name_of(request.subject))


class _Watch(NamedTuple):
    """The handle of a watched subject."""

    subject: bytes
    changed: Callable[[], None]


class SourceRequester:
    """Implements ``jetstream.ports.Requester`` for the source of a message; None is this server itself."""

    def __init__(self, broker: Broker, account: Account, client: Any) -> None:
        self._broker = broker
        self._account = account
        self._client = client

    @property
    def closed(self) -> bool:
        return getattr(self._client, "closed", False)

    def answer(self, reply: bytes, payload: bytes, headers: bytes | None) -> None:
        if getattr(self._client, "permissions", None) is None:
            self._broker.publish(self._account, reply, payload, headers=headers)
        else:
            self.outlet(reply).send(reply, make_frame(b"", headers, payload))
            self._broker.flush_soon()

    def outlet(self, reply: bytes) -> Outlet:
        return answer_outlet(self._broker.imports, self._account, reply, self._client)

    def describe(self) -> ClientInfo | None:
        client = self._client
        session: ClientSession | None = getattr(client, "session", None)
        if session is None:
            return None
        return ClientInfo(
            start=Time(session.started_ns),
            host=session.ip,
            id=client.cid,
            acc=client.account.name,
            user=session.identity.user if session.identity is not None else "",
            name=session.connect.name,
            lang=session.connect.lang,
            ver=session.connect.version,
            rtt=round(client.keepalive.round_trip_s * 1_000_000_000),
            server=self._broker.identity.server_name,
            kind="Client",
            client_type="websocket" if session.kind is ConnectionType.WEBSOCKET else "nats",
        )


def _name_of(subject: bytes) -> str:
    """Return the watchdog's name for a request, without names of streams and consumers."""
    endpoint, _ = find_endpoint(subject)
    if endpoint:
        return name_of_endpoint(endpoint)
    return "request " + ".".join(subject.decode(errors="replace").split(".")[:_TOKENS_NAMED])
