"""Connections to NATS: one of the gateway's own, and one for each set of credentials that callers pass
through.

A `Link` outlives the connections it is made of.  nats-py's own way to reconnect can lose its way when a
line is cut while it is being mended, so every connection here is used once: when it ends, the link makes
another one, for as long as it takes.  Subscriptions do not move over by themselves: whoever has some
listens for the change and makes them anew on `link.nats`.

Not here: what is asked over a link (`v1`, `v2`), who may use which (`auth`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from millstream.base.errors import UNREADABLE_JSON
from millstream.client.errors import ClientError, CredentialsRefused
from millstream.client.opening import open_connection
from millstream.gateway.credentials import Credentials
from millstream.gateway.errors import (
    GatewayError,
    JetStreamOff,
    JetStreamRefused,
    LinkDown,
    LinkTimeout,
    NoResponders,
    PermissionDenied,
    Unauthorized,
)
from millstream.gateway.publisher import LinkPublisher
from millstream.gateway.replies import Replies
from millstream.gateway.settings import Nats
from millstream.jsapi.errors import not_enabled
from millstream.link.login import load_credentials, tls_context
from millstream.link.publishing import PubAck

__all__ = [
    "Credentials",
    "JetStreamRefused",
    "Link",
    "LinkDown",
    "LinkTimeout",
    "NoResponders",
    "PermissionDenied",
    "PubAck",
]

_LOG: Final = logging.getLogger("millstream.gateway.link")
_WATCH_S: Final = 1.0
_PING_S: Final = 15
_PUBLISHER: Final = "publisher"

Listener = Callable[[], None]


class Companion(Protocol):
    """Something of the same credentials, that ends with the link."""

    async def close(self) -> None: ...


class _Refusal(msgspec.Struct):
    code: int = 500
    err_code: int = 0
    description: str = ""


class _Hold:
    """What `Link.held` gives."""

    __slots__ = ("_link",)

    def __init__(self, link: Link) -> None:
        self._link = link

    def __enter__(self) -> Link:
        self._link.hold(1)
        return self._link

    def __exit__(self, *_: object) -> None:
        self._link.hold(-1)


class Link:
    """NATS under one set of credentials, whatever happens to the connection."""

    def __init__(self, options: Nats, credentials: Credentials | None = None) -> None:
        self._options = options
        self._credentials = credentials
        self._prefix = f"{options.link.api}."
        self._connection: Connection | None = None
        self._replies: Replies | None = None
        self._mender: asyncio.Task[None] | None = None
        self._closed: GatewayError | None = None
        self._listeners: set[Listener] = set()
        self.companions: dict[str, Companion] = {}
        self._holders = 0
        self.generation = 0  # rises with every new connection
        self.last_used = 0.0  # in the loop's time
        self.was_refused = False  # NATS was reached, and did not take the credentials
        self._complaint = ""  # what is wrong, as the log has it

    # -- what it is good for ------------------------------------------------------------------------

    @property
    def nats(self) -> Connection:
        """The connection of the moment; LinkDown if there is none."""
        if self._connection is None:
            raise self._closed or LinkDown("there is no connection to NATS")
        return self._connection

    @property
    def where(self) -> str:
        """The server of the moment, for people."""
        url = None if self._connection is None else self._connection.connected_url
        return "a server that is gone" if url is None else url.netloc.rpartition("@")[2]

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    @property
    def is_closed(self) -> bool:
        """Whether it is over for good: closed, or its credentials are no longer taken."""
        return self._closed is not None

    async def request(
        self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None, timeout: float = 0
    ) -> Msg:
        """Ask whoever listens on `subject` and return the first answer."""
        if self._replies is None:
            raise self._closed or LinkDown("there is no connection to NATS")
        return await self._replies.ask(
            subject, payload, headers, timeout or self._options.link.request_timeout_s
        )

    async def api(self, suffix: str, request: object = b"", timeout: float = 0) -> dict[str, Any]:
        """Ask the JetStream API, ``STREAM.INFO.orders`` for example; `request` is JSON, or will be."""
        body = request if isinstance(request, bytes) else msgspec.json.encode(request)
        try:
            message = await self.request(self._prefix + suffix, body, timeout=timeout)
        except NoResponders:
            raise JetStreamOff(not_enabled(self.where, self._options.link.domain)) from None
        try:
            answer = msgspec.json.decode(message.data)
        except UNREADABLE_JSON as error:
            raise JetStreamRefused(500, 0, f"the answer of {suffix} can not be read: {error}") from error
        if not isinstance(answer, dict):
            raise JetStreamRefused(500, 0, f"the answer of {suffix} is no object")
        refusal = answer.get("error")
        if refusal is not None:
            told = msgspec.convert(refusal, _Refusal)
            raise JetStreamRefused(told.code, told.err_code, told.description)
        return answer

    async def publish(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, timeout: float = 0
    ) -> PubAck:
        """Store a message in the stream that takes `subject`; back when JetStream says that it did."""
        if self._closed is not None:
            raise self._closed
        if not timeout:
            return await self.publisher().publish(subject, payload, headers)
        try:
            async with asyncio.timeout(timeout):
                return await self.publisher().publish(subject, payload, headers)
        except TimeoutError:
            raise LinkTimeout(f"no answer to {subject} in time") from None

    def publisher(self) -> LinkPublisher:
        """What publishes for this link, on a connection of its own."""
        made = self.companions.get(_PUBLISHER)
        if not isinstance(made, LinkPublisher):
            made = self.companions[_PUBLISHER] = LinkPublisher(self._options, self._credentials)
        return made

    # -- who wants to know --------------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        """Call `listener` when the connection was lost, when there is a new one, and at the end."""
        self._listeners.add(listener)

    def unlisten(self, listener: Listener) -> None:
        self._listeners.discard(listener)

    def held(self) -> _Hold:
        """Keep the link from being closed as idle, for the life of a request or stream."""
        return _Hold(self)

    def hold(self, difference: int) -> None:
        """Called by what `held` gives."""
        self._holders += difference
        self.last_used = asyncio.get_running_loop().time()

    @property
    def is_held(self) -> bool:
        return self._holders > 0

    # -- its life -----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, or raise; a link that has failed to open may be opened again."""
        self._adopt(*await self._connect())

    def open_in_time(self) -> None:
        """Connect as soon as it is possible, and go on trying until then."""
        self._mend(at_once=True)

    async def close(self, reason: GatewayError | None = None) -> None:
        """End it for good."""
        if self._closed is None:
            self._closed = reason or LinkDown("the link is closed")
        mender, self._mender = self._mender, None
        if mender is not None and mender is not asyncio.current_task():
            mender.cancel()
            await asyncio.wait([mender])
        companions, self.companions = self.companions, {}
        for companion in companions.values():
            await companion.close()
        connection, self._connection = self._connection, None
        if self._replies is not None:
            self._replies.end(self._closed)
            self._replies = None
        if connection is not None:
            await _abandon(connection)
        self._tell()

    async def _connect(self) -> tuple[Connection, Replies]:
        failures: list[str] = []
        for server in self._options.link.servers:
            connection = Connection()
            replies = Replies(connection, self._options.link.inbox_prefix)
            options = self._connect_options(connection, replies)
            timeout_s = self._options.link.connect_timeout_s
            try:
                await open_connection(connection, server.full_url, timeout_s, patient=False, **options)
                async with asyncio.timeout(timeout_s):
                    await replies.open()
                return connection, replies
            except CredentialsRefused as error:
                mine = self._credentials is None  # nobody else is told where NATS is
                raise Unauthorized(str(error) if mine else "NATS does not take the credentials") from None
            except (ClientError, NatsError, OSError) as error:  # a timeout is an OSError
                failures.append(str(error) or type(error).__name__)
                await _abandon(connection)
            except BaseException:
                await _abandon(connection)
                raise
        raise LinkDown("; ".join(failures) or "no servers are configured")

    def _connect_options(self, connection: Connection, replies: Replies) -> dict[str, Any]:
        async def ended() -> None:
            self._lost(connection)

        async def told(error: Exception) -> None:
            replies.told(error)
            _LOG.debug("NATS says: %s", error)

        options = self._options.link
        chosen: dict[str, Any] = {
            "allow_reconnect": False,
            "closed_cb": ended,
            "error_cb": told,
            "name": "millstream gateway",
            "connect_timeout": options.connect_timeout_s,
            "ping_interval": _PING_S,
            "inbox_prefix": options.inbox_prefix,
        }
        if options.tls is not None:
            chosen["tls"] = tls_context(options)
            chosen["tls_handshake_first"] = options.tls.first
        if self._credentials is not None:
            chosen |= self._credentials.options()
        elif options.creds_file:
            chosen["user_credentials"] = options.creds_file
        elif options.says_who:
            seed = load_credentials(options, options.servers[0]).seed
            own = Credentials(options.user, options.password, options.token, seed)
            chosen |= own.options()
        return chosen

    def _adopt(self, connection: Connection, replies: Replies) -> None:
        self._connection = connection
        self._replies = replies
        self.was_refused = False
        self.generation += 1
        self.last_used = asyncio.get_running_loop().time()
        if connection.is_closed:  # in the same breath
            self._lost(connection)
            return
        for task in (connection._flusher_task, connection._reading_task):
            if task is not None:
                task.add_done_callback(_look_at)
        self._watch(connection)
        self._tell()

    def _watch(self, connection: Connection) -> None:
        """Look whether it is closed: nats-py tells nobody if closing fails on a line that is cut again."""
        if connection is not self._connection:
            return
        if connection.is_closed:
            self._lost(connection)
        else:
            asyncio.get_running_loop().call_later(_WATCH_S, self._watch, connection)

    def _lost(self, connection: Connection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        _end_subscriptions(connection)
        replies, self._replies = self._replies, None
        if replies is not None:
            replies.end(LinkDown("the connection to NATS was lost before the answer came"))
        reason = connection.last_error or "closed by the server"
        self._complain(f"the connection to NATS was lost: {reason}; trying to get it back")
        self._tell()
        if self._closed is None:
            self._mend(at_once=False)

    def _mend(self, *, at_once: bool) -> None:
        if self._mender is None or self._mender.done():
            self._mender = asyncio.get_running_loop().create_task(self._keep_trying(at_once))

    async def _keep_trying(self, at_once: bool) -> None:
        attempts = 0
        while not self._closed:
            if attempts or not at_once:
                # The first try comes soon: most outages are a restart.
                await asyncio.sleep(self._options.reconnect_wait_s if attempts else 0.05)
            attempts += 1
            try:
                made = await self._connect()
            except Unauthorized as error:
                self.was_refused = True
                if self._credentials is not None:
                    await self.close(error)
                    return
                self._complain(f"{error}; only callers with credentials of their own are served")
            except LinkDown as error:
                self.was_refused = False
                self._complain(f"{error}; trying again every {self._options.reconnect_wait_s:g} s")
            except Exception as error:  # of a library that was cut off in the middle: no reason to give up
                self._complain(f"connecting to NATS failed: {error!r}", error)
            else:
                level = logging.WARNING if self._complaint else logging.INFO  # after bad news the good ones
                self._complaint = ""
                self._mender = None
                self._adopt(*made)
                if self._credentials is None:
                    _LOG.log(level, "connected to NATS at %s", self.where)
                    await self._look_for_jetstream()
                return
            if 0 <= self._options.reconnect_attempts <= attempts:
                text = f"gave up after {attempts} attempts to connect to NATS"
                _LOG.error("%s; restart the gateway, or set nats.reconnect.max_attempts", text)
                await self.close(LinkDown(text))
                return

    async def _look_for_jetstream(self) -> None:
        """Say at once what every call would be told."""
        try:
            await self.api("INFO")
        except JetStreamOff as error:
            _LOG.warning("%s", error.advice)
        except GatewayError:
            return  # it may not ask, or the connection is lost again

    def _complain(self, text: str, error: Exception | None = None) -> None:
        """Log what is wrong, once until it changes; of links of callers, only to those who look for it."""
        level = logging.WARNING if self._credentials is None and text != self._complaint else logging.DEBUG
        self._complaint = text
        _LOG.log(level, "%s", text, exc_info=error)

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener()


async def _abandon(connection: Connection) -> None:
    """Close a connection that nobody uses."""
    with contextlib.suppress(NatsError, OSError):
        await connection.close()
    _end_subscriptions(connection)


def _end_subscriptions(connection: Connection) -> None:
    """Cancel the tasks of a closed connection's subscriptions.

    nats-py forgets them if the line breaks while it closes: it does not come to that step.
    """
    for subscription in connection._subs.values():
        task: Any = subscription._wait_for_msgs_task
        if task is not None:
            task.cancel()


def _look_at(task: asyncio.Task[Any]) -> None:
    """What ended a task of nats-py's is known here already; unseen, it would be logged as an error."""
    if not task.cancelled():
        task.exception()
