"""Many patterns at once: does another one have a subject in common with any of them?

A tree by tokens, so the answer takes a few steps however many patterns there are; a wildcard in the question
looks at every branch where it stands.  As in ``match``, patterns are taken to be valid.
"""

from typing import Final

_STAR: Final = b"*"
_TAIL: Final = b">"


class _Node:
    __slots__ = ("children", "is_end")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.is_end = False  # of a pattern


class PatternSet:
    """Patterns, some of which may be literal subjects."""

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, pattern: bytes) -> None:
        node = self._root
        for token in pattern.split(b"."):
            following = node.children.get(token)
            if following is None:
                following = node.children[token] = _Node()
            node = following
        node.is_end = True

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
            nodes = following
        return any(node.is_end for node in nodes)
