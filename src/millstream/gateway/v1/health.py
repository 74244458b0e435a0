"""The health checks `alive` and `ready` of either group."""

from __future__ import annotations

from typing import Final

from millstream.gateway.core import Core
from millstream.gateway.exchange import Exchange
from millstream.gateway.v1.answers import refuse, succeed
from millstream.link.errors import LinkError, NoResponders, NotConnected, RequestTimeout

_PATIENCE_S: Final = 2.0
_NOT_READY: Final = "not ready"


async def alive(exchange: Exchange, core: Core) -> None:
    await succeed(exchange)


async def ready(exchange: Exchange, core: Core) -> None:
    """Answer whether calls can succeed: NATS and JetStream answer, and the gateway is not stopping."""
    if await is_ready(core):
        await succeed(exchange)
    else:
        await refuse(exchange, 500, _NOT_READY, _NOT_READY)


async def is_ready(core: Core) -> bool:
    if core.stopping.is_set():
        return False
    own = core.links.own
    if not own.is_up:
        # A gateway that only passes credentials through needs none of its own; the refusal proves that NATS
        # is up.
        return own.was_refused and core.settings.auth.pass_through
    try:
        await own.api("INFO", timeout_s=_PATIENCE_S)
    except (NotConnected, RequestTimeout, NoResponders):
        return False
    except LinkError:
        return True  # this user may not ask, or its account has no JetStream; callers' accounts may
    return True
