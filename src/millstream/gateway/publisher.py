"""The fast way to the broker: for each link one connection that does nothing but publish.

nats-py makes an object, a future and a task switch for every answer; `millstream.link` makes none of them.
Publishes of all callers of a link share the connection: those of one turn of the loop leave in one write.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterable
from typing import Final

from millstream.gateway.credentials import Credentials
from millstream.gateway.errors import (
    BadRequest,
    GatewayError,
    JetStreamRefused,
    LinkDown,
    LinkTimeout,
    NoResponders,
    PayloadTooLarge,
    PermissionDenied,
    Unauthorized,
)
from millstream.gateway.settings import Nats
from millstream.link import errors as link_errors
from millstream.link.link import Link
from millstream.link.login import check_files
from millstream.link.options import LinkOptions
from millstream.link.publisher import Publisher
from millstream.link.publishing import PubAck

_HEADER: Final = re.compile(r"[!-9;-~]+")  # any printable character but the colon
_NOT_IN_VALUES: Final = re.compile(r"[\r\n\0]")


class LinkPublisher:
    """Connected when it is first needed; from then on it comes back by itself."""

    def __init__(self, options: Nats, credentials: Credentials | None) -> None:
        self._options = _wire_options(options, credentials)
        self._link = Link(self._options)
        self.wire = Publisher(self._link, timeout_s=options.publish_timeout_s or 3600.0)
        self._connecting: asyncio.Task[None] | None = None
        self._was_connected = False

    def check(self) -> None:
        """BadOptions if a file of certificates or credentials can not be used."""
        check_files(self._options)

    async def connect(self) -> Publisher:
        """The publisher, once it was connected; LinkDown or Unauthorized if it can not be."""
        if self._was_connected:
            return self.wire
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._link.connect())
        try:
            await asyncio.shield(self._connecting)
            self._was_connected = True
        except link_errors.LinkError as error:
            raise error_of(error) from error
        finally:
            if self._connecting is not None and self._connecting.done():
                self._connecting = None
        return self.wire

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str] | None) -> PubAck:
        """Store one message."""
        if not self._was_connected:
            await self.connect()
        block = header_block(headers.items()) if headers else b""
        try:
            return await self.wire.publish(subject.encode(), payload, block)
        except link_errors.LinkError as error:
            raise error_of(error) from error

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        await self._link.close()


def header_block(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Headers as they go over the wire; BadRequest for what could break out of them."""
    lines = ["NATS/1.0\r\n"]
    for name, value in pairs:
        if not _HEADER.fullmatch(name) or _NOT_IN_VALUES.search(value):
            raise BadRequest(f"{name!r} can not be a header of a message, or not with that value")
        lines.append(f"{name}: {value}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode()


def error_of(error: link_errors.LinkError) -> GatewayError:
    """The gateway's error for one of the wire."""
    match error:
        case link_errors.AuthorizationViolation():
            return Unauthorized("NATS does not take the credentials")
        case link_errors.NotConnected():
            return LinkDown(str(error))
        case link_errors.RequestTimeout():
            return LinkTimeout("NATS did not answer in time: whether it is stored is not known")
        case link_errors.NoResponders():
            return NoResponders()
        case link_errors.PermissionViolation():
            return PermissionDenied(f"nats: {error}")
        case link_errors.ApiError():
            return JetStreamRefused(error.code, error.err_code, error.description)
        case link_errors.BadMessage():
            return (
                PayloadTooLarge()
                if isinstance(error, link_errors.MessageTooLarge)
                else BadRequest(str(error))
            )
    return LinkDown(str(error))


def _wire_options(options: Nats, credentials: Credentials | None) -> LinkOptions:
    link = dataclasses.replace(options.link, name="millstream gateway publisher")
    if credentials is None:
        return link
    return dataclasses.replace(
        link.of_nobody(),
        user=credentials.user,
        password=credentials.password,
        token=credentials.token,
        nkey_seed=credentials.nkey_seed,
    )
