"""Patterns that find out which of them cover a subject or a pattern.

Few patterns are compared one by one.  More are put into a tree at the first lookup, which then costs what
covers the subject, whatever the number of patterns.
"""

from collections.abc import Iterable
from typing import Final

from millstream.subjects.match import is_subset
from millstream.subjects.tree import SubjectTree

_FEW: Final = 8
_TAIL: Final = b">"
_ANY_TOKEN: Final = b"x"  # in place of a `>`: the patterns that end with `>` are those that cover it


class Cover:
    """Valid patterns, in order and without repetitions."""

    __slots__ = ("_tree", "patterns")

    def __init__(self, patterns: Iterable[bytes]) -> None:
        self.patterns = tuple(dict.fromkeys(patterns))
        self._tree: SubjectTree | None = None

    def of(self, subset: bytes) -> list[bytes]:
        """Return the patterns of which `subset` is a part, as defined by ``match.is_subset``."""
        if len(self.patterns) <= _FEW or _is_odd(subset):
            return [pattern for pattern in self.patterns if is_subset(subset, pattern)]
        if subset != _TAIL and not subset.endswith(b".>"):
            return self.matching(subset)
        found = self.matching(subset[:-1] + _ANY_TOKEN)
        return [pattern for pattern in found if pattern.endswith(_TAIL)]

    def matching(self, subject: bytes) -> list[bytes]:
        """Return the patterns that match a subject without empty tokens, whose wildcards are plain tokens."""
        if self._tree is None:
            self._tree = SubjectTree()
            for pattern in self.patterns:
                self._tree.insert(pattern, None, pattern)
        return self._tree.match(subject).plain


def _is_odd(subset: bytes) -> bool:
    """Return True if a token is empty, or a ``>`` before the end: the tree knows neither."""
    tokens = subset.split(b".")
    return b"" in tokens or _TAIL in tokens[:-1]
