"""A JetStream client for any NATS server."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import fields
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from millstream.client.api import DEFAULT_TIMEOUT_S, Api, check_name
from millstream.client.carriers import Carrier, LinkCarrier
from millstream.client.config import (
    ALL_SUBJECTS,
    DEFAULT_HEARTBEAT_S,
    StartAt,
    UserConfig,
    ordered_config,
)
from millstream.client.errors import BadOptions, CredentialsRefused, ServerUnavailable
from millstream.client.groups import Groups
from millstream.client.ordered import Callback, OrderedConsumer
from millstream.jsapi.enums import ReplayPolicy
from millstream.jsapi.names import API_PREFIX
from millstream.link import errors as link_errors
from millstream.link.link import Link
from millstream.link.options import LinkOptions, parse_servers
from millstream.link.servers import Backoff, Reconnect

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsPyConnection

DEFAULT_URL: Final = "nats://127.0.0.1:4222"
DEFAULT_CONNECT_S: Final = 10.0
DEFAULT_BUFFER_MESSAGES: Final = 65_536
DEFAULT_BUFFER_BYTES: Final = 64 * 1024 * 1024  # twice the widest window of the server's flow control


class Client:
    """JetStream on a `Link` or on a nats-py connection.

    ``Client(connection)`` never closes the connection; `connect` makes a link that is closed with the client.
    Without `domain`, the domain or API prefix of the link's options is used.
    """

    def __init__(
        self,
        connection: Link | NatsPyConnection,
        *,
        domain: str = "",
        request_timeout_s: float = DEFAULT_TIMEOUT_S,
        owned: bool = False,
    ) -> None:
        self._connection = connection
        self._owned = owned
        prefix = API_PREFIX
        if isinstance(connection, Link) and not domain:
            domain, prefix = connection.options.domain, connection.options.api
        self._api = Api(_carrier(connection), domain=domain, prefix=prefix, timeout_s=request_timeout_s)

    @property
    def connection(self) -> Any:
        """The underlying connection, for calls that the client does not offer."""
        return self._connection

    @property
    def groups(self) -> Groups:
        """The partitioned consumer groups of the account."""
        return Groups(self._api)

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
        `config` has further fields of the consumer's configuration, by their names on the wire; a field that
        an ordered consumer cannot have raises OrderedConfigError.  With `callback`, each message is passed to
        it in turn, and an exception of the callback ends the reading.
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
            self._api,
            stream,
            checked,
            name_prefix=name_prefix,
            buffer_messages=buffer_messages,
            buffer_bytes=buffer_bytes,
            callback=callback,
        )

    async def publish(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> int:
        """Publish to a stream and return the message's sequence.

        Raises ValueError for an invalid subject, and NoStream if no stream captures it.
        """
        return await self._api.publish(subject, data, headers)

    async def close(self) -> None:
        """Close the connection if `connect` made it; open readings end with ClientClosed."""
        if self._owned:
            await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def ordered(connection: Link | NatsPyConnection, stream: str, /, **options: Any) -> OrderedConsumer:
    """Return an ordered consumer on an existing connection; `options` are those of `Client.ordered`."""
    return Client(connection).ordered(stream, **options)


def _carrier(connection: Link | NatsPyConnection) -> Carrier:
    if isinstance(connection, Link):
        return LinkCarrier(connection)
    from millstream.client.nats_py import NatsPyCarrier  # an optional dependency

    return NatsPyCarrier(connection)


async def connect(
    servers: str | Sequence[str] = DEFAULT_URL,
    *,
    domain: str = "",
    timeout_s: float = DEFAULT_CONNECT_S,
    request_timeout_s: float = DEFAULT_TIMEOUT_S,
    reconnect: Reconnect | None = None,
    **options: Any,
) -> Client:
    """Connect to one of `servers`; `options` are the other fields of `LinkOptions`.

    Raises ServerUnavailable if there is no connection after `timeout_s`, and BadOptions or CredentialsRefused
    at once.  The client reconnects for ever unless `reconnect` sets an end.
    """
    link = Link(_options(servers, domain, request_timeout_s, options), reconnect=reconnect)
    pauses = Backoff(first_s=0.05, longest_s=1.0, generator=random.Random())
    failure: link_errors.LinkError = link_errors.NotConnected("no server answered in time; check the address")
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                await asyncio.sleep(pauses.next_s())
                try:
                    await link.connect()
                    break
                except (
                    link_errors.AuthorizationViolation,
                    link_errors.TlsFailure,
                    link_errors.BadLinkOptions,
                ):
                    raise
                except link_errors.LinkError as error:
                    failure = error
    except TimeoutError:
        await link.close()
        raise ServerUnavailable(str(failure)) from None
    except link_errors.AuthorizationViolation as error:
        await link.close()
        raise CredentialsRefused(str(error)) from None
    except link_errors.BadLinkOptions as error:
        await link.close()
        raise BadOptions(str(error)) from None
    except link_errors.LinkError as error:
        await link.close()
        raise ServerUnavailable(str(error)) from None
    except BaseException:
        await link.close()
        raise
    return Client(link, domain=domain, request_timeout_s=request_timeout_s, owned=True)


def _options(
    servers: str | Sequence[str], domain: str, request_timeout_s: float, options: dict[str, Any]
) -> LinkOptions:
    known = {field.name for field in fields(LinkOptions)} - {"servers", "domain", "request_timeout_s"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise BadOptions(f"there is no option {unknown[0]!r}; options are {', '.join(sorted(known))}")
    if not isinstance(servers, str) and not all(isinstance(server, str) for server in servers):
        raise BadOptions(f"{servers!r} is no address of a server, and no list of some")
    try:
        return LinkOptions(
            servers=parse_servers(servers), domain=domain, request_timeout_s=request_timeout_s, **options
        )
    except link_errors.BadLinkOptions as error:
        raise BadOptions(str(error)) from None
