"""Routes of the gateway and their lookup; `http.router` has the tree of paths."""

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
    """One method of one path; `is_open` needs no credentials, an `is_stream` answer does not end by itself.

    A route for GET serves HEAD, too: the answer without its body.
    """

    method: str
    template: str
    handler: Handler
    is_open: bool = False
    is_stream: bool = False


def read_only(route: Route) -> Route:
    """Return the route, or one that refuses if it changes something; consuming counts as a change."""
    return route._replace(handler=_refuse) if route.method != "GET" or route.is_stream else route


async def _refuse(_exchange: Exchange, _core: Core) -> None:
    raise ReadOnly


def find(router: Router[Target], method: str, path: str) -> Match[Target]:
    """Return the route of an undecoded path; raises NotFound, MethodNotAllowed or BadRequest."""
    try:
        return router.find(method, path)
    except NoRoute:
        raise NotFound(NOTHING_HERE) from None
    except WrongMethod as error:
        raise MethodNotAllowed(allowed(error.methods)) from None
    except BadPath as error:
        raise BadRequest(str(error)) from None
