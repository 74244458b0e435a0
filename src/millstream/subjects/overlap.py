"""Many patterns at once: does another one have a subject in common with any of them?

A tree by tokens, so the answer takes a few steps however many patterns there are; a wildcard in the question
looks at every branch where it stands.  As in ``match``, patterns are taken to be valid.

Somebody may choose patterns for which every question has many branches, so those beyond the first are
counted: more than `most_steps`, for all questions to one set, are TooManySteps.
"""

from typing import Final

from millstream.base.errors import MillstreamError

MOST_STEPS: Final = 200_000

_STAR: Final = b"*"
_TAIL: Final = b">"


class TooManySteps(MillstreamError):
    """Patterns cannot be compared with a set in a time that others can wait for."""


class _Node:
    __slots__ = ("children", "ends")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.ends = 0  # patterns that end here


class PatternSet:
    """Patterns, some of which may be literal subjects."""

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

    def remove(self, pattern: bytes) -> None:
        """Take away a pattern that was added."""
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
        """Let the next questions take so many steps."""
        self._steps_left = most_steps

    def collides(self, pattern: bytes) -> bool:
        """Whether some literal subject falls under `pattern` and under one that is here."""
        nodes = [self._root]
        for token in pattern.split(b"."):
            if token == _TAIL:
                return any(node.children for node in nodes)
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
        return any(node.ends for node in nodes)

    def covers_twice(self, subset: bytes) -> bool:
        """Whether at least two that are here cover all of `subset`, as ``match.is_subset`` judges.

        If `subset` is one of them, that is whether another one covers it.
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
        return covering + sum(node.ends for node in nodes) > 1

    def _count(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooManySteps("there are too many wildcards among these subjects to compare them")
