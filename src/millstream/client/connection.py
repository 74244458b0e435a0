"""A client of a NATS server with JetStream, ours or any other, on top of nats-py."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from nats.aio.client import Client as Connection

from millstream.client.api import DEFAULT_TIMEOUT_S, Api, check_name
from millstream.client.config import ALL_SUBJECTS, DEFAULT_HEARTBEAT_S, UserConfig, ordered_config
from millstream.client.link import Link
from millstream.client.ordered import Callback, OrderedConsumer
from millstream.client.start import StartAt
from millstream.jsapi.enums import ReplayPolicy

DEFAULT_URL: Final = "nats://127.0.0.1:4222"
DEFAULT_CONNECT_S: Final = 10.0
DEFAULT_BUFFER_MESSAGES: Final = 65_536
DEFAULT_BUFFER_BYTES: Final = 64 * 1024 * 1024  # twice the widest window of the server's flow control


class Client:
    """JetStream on a connection of nats-py.

    ``Client(connection)`` leaves the connection to whoever made it; `connect` makes one that is closed with
    the client, and that tells readings at once when it was lost and found again.
    """

    def __init__(
        self,
        connection: Connection | Link,
        *,
        domain: str = "",
        request_timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._owned = isinstance(connection, Link)
        self._link = connection if isinstance(connection, Link) else Link(connection)
        self._api = Api(self._link.connection, domain=domain, timeout_s=request_timeout_s)

    @property
    def connection(self) -> Connection:
        """The connection of nats-py, to publish or to ask for whatever is not offered here."""
        return self._link.connection

    def ordered(
        self,
        stream: str,
        /,
        *,
        subjects: str | Sequence[str] = (ALL_SUBJECTS,),
        start: StartAt = StartAt.FIRST,
        heartbeat_s: float = DEFAULT_HEARTBEAT_S,
        headers_only: bool = False,
        replay: ReplayPolicy = ReplayPolicy.INSTANT,
        config: UserConfig | None = None,
        name_prefix: str = "",
        buffer_messages: int = DEFAULT_BUFFER_MESSAGES,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        callback: Callback | None = None,
    ) -> OrderedConsumer:
        """Return a consumer that yields every message once, in stream order, across reconnects.

        Use with ``async with``: entering raises StreamNotFound, leaving deletes the server-side consumer.
        `config` has further fields of a consumer's configuration, by their names on the wire; what an
        ordered consumer can not be is refused here, with OrderedConfigError.  With `callback`, messages go
        there, one after the other, and an error of it ends the reading.
        """
        check_name(stream, "stream")
        if name_prefix:
            check_name(name_prefix, "consumer")
        checked = ordered_config(
            config,
            subjects=subjects,
            start=start,
            heartbeat_s=heartbeat_s,
            headers_only=headers_only,
            replay=replay,
        )
        return OrderedConsumer(
            self._link,
            self._api,
            stream,
            checked,
            name_prefix=name_prefix,
            buffer_messages=buffer_messages,
            buffer_bytes=buffer_bytes,
            callback=callback,
        )

    async def publish(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> int:
        """Publish to a stream and return the sequence that the message got there.

        ValueError if there can be no such subject, NoStream if no stream takes it.
        """
        return await self._api.publish(subject, data, headers)

    async def close(self) -> None:
        """Close the connection, if `connect` made it; readings that are open end with ClientClosed."""
        if self._owned:
            await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def connect(
    servers: str | list[str] = DEFAULT_URL,
    *,
    domain: str = "",
    timeout_s: float = DEFAULT_CONNECT_S,
    request_timeout_s: float = DEFAULT_TIMEOUT_S,
    **options: Any,
) -> Client:
    """Connect to one of `servers`; `options` are those of ``nats.connect``.

    ServerUnavailable if there is no connection after `timeout_s`.  A connection that is lost later is tried
    to get back for ever, unless `options` set an end.
    """
    link = await Link.connect(servers, timeout_s, **options)
    return Client(link, domain=domain, request_timeout_s=request_timeout_s)
