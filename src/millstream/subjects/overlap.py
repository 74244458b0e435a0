"""A set of patterns that finds out whether another pattern overlaps with any of them.

The set is a tree of tokens, so a lookup takes few steps however many patterns there are; a wildcard in the
pattern looked up visits every branch at its level.  As in ``match``, patterns must be valid.

A client can choose patterns for which every lookup visits many branches.  Branches beyond the first are
therefore counted over all lookups; more than `most_steps` raise TooManySteps.

Compiled, because a configuration has thousands of patterns, and an account millions.
"""

from collections.abc import Iterable

from millstream.base.errors import MillstreamError

MOST_STEPS = 200_000

_STAR = b"*"
_TAIL = b">"


class TooManySteps(MillstreamError):
    """Comparing patterns with a set would take longer than other clients can wait."""


class _Node:
    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.ends = 0  # patterns that end here


class PatternSet:
    """A set of patterns, which may be literal subjects."""

    def __init__(self, most_steps: int = MOST_STEPS) -> None:
        self._root = _Node()
        self._steps_left = most_steps

    def add(self, pattern: bytes) -> None:
        node = self._root
        for token in pattern.split(b"."):
            following = node.children.get(token)
            if following is None:
                following = node.children[token] = _Node()
            node = following
        node.ends += 1

    def add_all(self, patterns: Iterable[str]) -> None:
        for pattern in patterns:
            self.add(pattern.encode())

    def remove_all(self, patterns: Iterable[str]) -> None:
        """Remove patterns that were added."""
        for pattern in patterns:
            self.remove(pattern.encode())

    def remove(self, pattern: bytes) -> None:
        """Remove a pattern that was added."""
        path: list[tuple[_Node, bytes]] = []
        node = self._root
        for token in pattern.split(b"."):
            path.append((node, token))
            node = node.children[token]
        node.ends -= 1
        for above, token in reversed(path):
            if node.ends or node.children:
                return
            del above.children[token]
            node = above

    def allow(self, most_steps: int) -> None:
        """Set the number of steps that further lookups may take."""
        self._steps_left = most_steps

    def collides(self, pattern: bytes) -> bool:
        """Return True if at least one literal subject matches both `pattern` and a member of the set."""
        nodes = [self._root]
        for token in pattern.split(b"."):
            if token == _TAIL:
                for node in nodes:  # noqa: SIM110 - compiled without a closure
                    if node.children:
                        return True
                return False
            following: list[_Node] = []
            for node in nodes:
                if _TAIL in node.children:
                    return True
                if token == _STAR:
                    following.extend(node.children.values())
                    continue
                for each in (token, _STAR):
                    if (found := node.children.get(each)) is not None:
                        following.append(found)
            if not following:
                return False
            self._count(len(following) - 1)
            nodes = following
        for node in nodes:  # noqa: SIM110 - compiled without a closure
            if node.ends > 0:
                return True
        return False

    def colliding(self, pattern: bytes) -> list[bytes]:
        """Return the members that match a literal subject which `pattern` matches, too."""
        found: list[bytes] = []
        nodes = [self._root]
        starts = [b""]  # what leads to each of these nodes
        for token in pattern.split(b"."):
            following: list[_Node] = []
            starts_there: list[bytes] = []
            for index in range(len(nodes)):
                node = nodes[index]
                start = starts[index]
                if token == _TAIL:
                    self._list_below(node, start, found)
                    continue
                if _TAIL in node.children:
                    found.append(start + _TAIL)
                self._count(len(node.children) if token == _STAR else 1)
                for each in list(node.children) if token == _STAR else (token, _STAR):
                    if each != _TAIL and each in node.children:
                        following.append(node.children[each])
                        starts_there.append(b"%b%b." % (start, each))
            nodes = following
            starts = starts_there
        for index in range(len(nodes)):
            node = nodes[index]
            if node.ends > 0:
                found.append(starts[index][:-1])
        return found

    def _list_below(self, node: _Node, start: bytes, found: list[bytes]) -> None:
        """Add all members below a node to which `start` leads."""
        nodes = [node]
        starts = [start]
        while nodes:
            node = nodes.pop()
            start = starts.pop()
            self._count(len(node.children))
            for token, below in node.children.items():
                if below.ends > 0:
                    found.append(start + token)
                if below.children:
                    nodes.append(below)
                    starts.append(b"%b%b." % (start, token))

    def covers_twice(self, subset: bytes) -> bool:
        """Return True if at least two members cover all of `subset`, as defined by ``match.is_subset``.

        If `subset` is a member itself, this means that another member covers it.
        """
        covering = 0
        nodes = [self._root]
        for token in subset.split(b"."):
            following: list[_Node] = []
            for node in nodes:
                tail = node.children.get(_TAIL)
                if tail is not None:
                    covering += tail.ends
                if not token or token == _TAIL:
                    continue
                for each in (token, _STAR) if token != _STAR else (_STAR,):
                    if (found := node.children.get(each)) is not None:
                        following.append(found)
            if covering > 1 or not following:
                return covering > 1
            self._count(len(following) - 1)
            nodes = following
        for node in nodes:
            covering += node.ends
        return covering > 1

    def _count(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooManySteps("there are too many wildcards among these subjects to compare them")
