"""What a route of the gateway is, and how one is found; the tree of paths is `http.router`'s."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from millstream.gateway.core import Core
from millstream.gateway.errors import BadRequest, MethodNotAllowed, NotFound, ReadOnly
from millstream.gateway.exchange import Exchange
from millstream.http.router import BadPath, Match, NoRoute, Router, WrongMethod, allowed

Handler = Callable[[Exchange, Core], Awaitable[None]]
Target = TypeVar("Target")

NOTHING_HERE: Final = "there is nothing at this path; /v2/docs shows what there is"


class Route(NamedTuple):
    """One method of one path; `is_open` needs no credentials, `is_stream` has no end of its own.

    What takes GET takes HEAD as well: the same answer without its body.
    """

    method: str
    template: str
    handler: Handler
    is_open: bool = False
    is_stream: bool = False


def read_only(route: Route) -> Route:
    """Return the route, with a refusal in its place if it changes something; to consume is to change."""
    return route._replace(handler=_refuse) if route.method != "GET" or route.is_stream else route


async def _refuse(_exchange: Exchange, _core: Core) -> None:
    raise ReadOnly


def find(router: Router[Target], method: str, path: str) -> Match[Target]:
    """Return what serves a path as it was sent; raises NotFound, MethodNotAllowed or BadRequest."""
    try:
        return router.find(method, path)
    except NoRoute:
        raise NotFound(NOTHING_HERE) from None
    except WrongMethod as error:
        raise MethodNotAllowed(allowed(error.methods)) from None
    except BadPath as error:
        raise BadRequest(str(error)) from None
