"""The publisher of a link, for batches; it is the one that single messages use too."""

from __future__ import annotations

from millrace.gateway.credentials import Credentials
from millrace.gateway.errors import LinkDown
from millrace.gateway.link import Link
from millrace.gateway.publisher import error_of
from millrace.gateway.settings import Nats
from millrace.wire.async_publisher import AsyncPublisher

__all__ = ["error_of", "publisher_of"]


async def publisher_of(link: Link, options: Nats, credentials: Credentials | None) -> AsyncPublisher:
    """The publisher of `link`; LinkDown or Unauthorized if it can not be connected."""
    if link.is_closed:
        raise LinkDown("the link is closed")
    return await link.publisher().connect()
