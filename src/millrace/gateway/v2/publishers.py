"""The fast way to the broker: for each link one connection that does nothing but publish.

nats-py makes an object, a future and a task switch for every answer; `millrace.wire` makes none of them.
"""

from __future__ import annotations

import asyncio
from typing import Final

from millrace.gateway.credentials import Credentials
from millrace.gateway.errors import (
    BadRequest,
    GatewayError,
    JetStreamRefused,
    LinkDown,
    LinkTimeout,
    NoResponders,
    PayloadTooLarge,
    Unauthorized,
)
from millrace.gateway.link import Link
from millrace.gateway.settings import Nats
from millrace.wire import errors as wire
from millrace.wire.async_publisher import AsyncPublisher
from millrace.wire.options import LinkOptions, TlsOptions, parse_servers

_NAME: Final = "publisher"


class LinkPublisher:
    """A publisher, and the one task that connects it."""

    def __init__(self, publisher: AsyncPublisher) -> None:
        self.publisher = publisher
        self._connecting: asyncio.Task[None] | None = None
        self.connected = False

    async def connect(self) -> None:
        """Once for all who want it at the same time; later on it connects again by itself."""
        if self.connected:
            return
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self.publisher.connect())
        try:
            await asyncio.shield(self._connecting)
            self.connected = True
        finally:
            if self._connecting is not None and self._connecting.done():
                self._connecting = None

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        await self.publisher.close()


async def publisher_of(link: Link, options: Nats, credentials: Credentials | None) -> AsyncPublisher:
    """The publisher of `link`; LinkDown or Unauthorized if it can not be connected."""
    if link.is_closed:
        raise LinkDown("the link is closed")
    kept = link.companions.get(_NAME)
    if not isinstance(kept, LinkPublisher):
        made = AsyncPublisher(_wire_options(options, credentials), timeout_s=options.publish_timeout_s)
        kept = LinkPublisher(made)
        link.companions[_NAME] = kept
    try:
        await kept.connect()
    except wire.WireError as error:
        raise error_of(error) from error
    return kept.publisher


def error_of(error: wire.WireError) -> GatewayError:
    """The gateway's error for one of the wire."""
    match error:
        case wire.AuthorizationViolation():
            return Unauthorized("NATS does not take the credentials")
        case wire.NotConnected():
            return LinkDown(str(error))
        case wire.RequestTimeout():
            return LinkTimeout("NATS did not answer in time: whether it is stored is not known")
        case wire.NoResponders():
            return NoResponders("no stream stores this subject")
        case wire.ApiRefused():
            return JetStreamRefused(error.code, error.err_code, error.description)
        case wire.BadMessage():
            return PayloadTooLarge(str(error)) if "bytes" in str(error) else BadRequest(str(error))
    return LinkDown(str(error))


def _wire_options(options: Nats, credentials: Credentials | None) -> LinkOptions:
    tls = None
    if options.tls is not None:
        tls = TlsOptions(
            ca_file=str(options.tls.authorities or ""),
            cert_file=str(options.tls.certificate or ""),
            key_file=str(options.tls.key or ""),
        )
    file = ""
    if credentials is None:
        credentials = Credentials(options.user, options.password, options.token, options.nkey_seed)
        file = str(options.credentials_file or "")
    return LinkOptions(
        servers=parse_servers(options.servers),
        name="millrace gateway publisher",
        user="" if file else credentials.user,
        password="" if file else credentials.password,
        token="" if file else credentials.token,
        nkey_seed="" if file else credentials.nkey_seed,
        creds_file=file,
        tls=tls,
        inbox_prefix=options.inbox_prefix,
        connect_timeout_s=options.connect_timeout_s or 30,
        domain=options.domain,
    )
