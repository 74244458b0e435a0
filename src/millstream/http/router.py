"""A router from paths to targets: a tree of segments, in which `{name}` matches any one segment.

Paths are matched segment by segment as they were sent, and decoded afterwards, so an encoded slash never
separates segments.  The parameter `rest` matches everything that follows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote

from millstream.base.errors import MillstreamError

Target = TypeVar("Target")


class NoRoute(MillstreamError):
    """Raised for a path without a route."""


class WrongMethod(MillstreamError):
    """Raised for a path that has routes for other methods only."""

    def __init__(self, methods: Collection[str]) -> None:
        super().__init__()
        self.methods = methods  # that have routes


class BadPath(MillstreamError):
    """Raised for a path that cannot be decoded."""


class Match(NamedTuple, Generic[Target]):
    """The target of a path, and the values of the template's parameters."""

    target: Target
    names: tuple[str, ...]
    values: tuple[str, ...]


def method_served(method: str) -> str:
    """Return the method whose route serves a request: HEAD is served by GET's."""
    return "GET" if method == "HEAD" else method


def allowed(methods: Collection[str]) -> tuple[str, ...]:
    """Return the Allow header of a path that has routes for these methods."""
    return tuple(sorted({*methods, *(("HEAD",) if "GET" in methods else ())}))


class _Node(Generic[Target]):
    __slots__ = ("any", "children", "is_rest", "targets")

    def __init__(self) -> None:
        self.children: dict[str, _Node[Target]] = {}
        self.any: _Node[Target] | None = None
        self.is_rest = False
        self.targets: dict[str, tuple[Target, tuple[str, ...]]] = {}


class Router(Generic[Target]):
    """Finds the target of a request."""

    def __init__(self, *, rest: str = "", encoded_slashes: bool = False) -> None:
        self._root: _Node[Target] = _Node()
        self._rest = rest
        self._encoded_slashes = encoded_slashes

    def add(self, method: str, template: str, target: Target) -> None:
        """Route `method` of the paths that match `template` to `target`."""
        node = self._root
        names: list[str] = []
        for segment in template.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.any = node.any or _Node()
                node = node.any
                node.is_rest = bool(self._rest) and names[-1] == self._rest
            else:
                node = node.children.setdefault(segment, _Node())
        node.targets[method] = target, tuple(names)

    def find(self, method: str, path: str) -> Match[Target]:
        """Return the match of a path as it was sent; raises NoRoute, WrongMethod or BadPath."""
        node = self._root
        values: list[str] = []
        segments = path.split("/")
        for position in range(1, len(segments)):
            segment = segments[position]
            child = node.children.get(segment)
            if child is None:
                child = node.any
                if child is None or not segment:
                    raise NoRoute
                if child.is_rest:
                    values.append(self._decoded("/".join(segments[position:])))
                    node = child
                    break
                values.append(self._decoded(segment))
            node = child
        found = node.targets.get(method_served(method))
        if found is not None:
            return Match(*found, tuple(values))
        if node.targets:
            raise WrongMethod(node.targets)
        raise NoRoute

    def _decoded(self, text: str) -> str:
        if "%" not in text:
            return text
        try:
            decoded = unquote(text, errors="strict")
        except UnicodeDecodeError:
            raise BadPath("the path is not UTF-8") from None
        if not self._encoded_slashes and "/" in decoded:
            raise NoRoute
        return decoded
