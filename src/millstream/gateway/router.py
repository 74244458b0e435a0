"""From a path to a handler: a tree of segments, where `{name}` takes any one segment.

Paths are matched as they came over the wire, segment by segment, and decoded after that: an encoded slash
is no slash, and what it hides is not found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final, NamedTuple
from urllib.parse import unquote

from millstream.gateway.core import Core
from millstream.gateway.errors import BadRequest, MethodNotAllowed, NotFound
from millstream.gateway.exchange import Exchange

Handler = Callable[[Exchange, Core], Awaitable[None]]


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


def method_served(method: str) -> str:
    """Return the method whose route serves a request: GET's serves HEAD, too."""
    return "GET" if method == "HEAD" else method


def allowed(methods: Collection[str]) -> tuple[str, ...]:
    """Return what the header Allow has for a path with routes for these methods."""
    return tuple(sorted({*methods, *(("HEAD",) if "GET" in methods else ())}))


class _Node:
    __slots__ = ("any", "children", "routes")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.routes: dict[str, Route] = {}


class Router:
    """Finds the route of a request among those that were added."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, route: Route) -> None:
        node = self._root
        for segment in route.template.split("/")[1:]:
            if segment.startswith("{"):
                node.any = node.any or _Node()
                node = node.any
            else:
                node = node.children.setdefault(segment, _Node())
        node.routes[route.method] = route

    def find(self, method: str, raw_path: str) -> tuple[Route, tuple[str, ...]]:
        """The route and the decoded segments that stand for names; NotFound or MethodNotAllowed."""
        node = self._root
        parameters: list[str] = []
        for segment in raw_path.split("/")[1:]:
            child = node.children.get(segment)
            if child is None:
                child = node.any
                if child is None or not segment:
                    raise NotFound(NOTHING_HERE)
                parameters.append(_decoded(segment))
            node = child
        route = node.routes.get(method_served(method))
        if route is not None:
            return route, tuple(parameters)
        if node.routes:
            raise MethodNotAllowed(allowed(node.routes))
        raise NotFound(NOTHING_HERE)


def _decoded(segment: str) -> str:
    if "%" not in segment:
        return segment
    try:
        decoded = unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequest("the path is not UTF-8") from error
    if "/" in decoded:
        raise NotFound(NOTHING_HERE)
    return decoded
