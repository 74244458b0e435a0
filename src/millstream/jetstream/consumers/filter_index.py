"""Find the consumers whose filters match a subject, without asking each of them.

Consumers with the same pattern are one group, and the patterns are in a tree.  So a lookup costs what
matches, whatever the number of consumers.  The groups of subjects in use are cached until a pattern is added
or removed.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from millstream.subjects.match import matches
from millstream.subjects.tokens import valid_literal_subject
from millstream.subjects.tree import SubjectTree

_MOST_KNOWN: Final = 4096  # subjects whose groups are cached
_ANY: Final = b">"

Member = TypeVar("Member")


class FilterIndex(Generic[Member]):
    """Members, which are hashable, by the patterns of their filters; without a filter, all subjects match."""

    def __init__(self) -> None:
        self._groups: dict[bytes, dict[Member, None]] = {}  # by pattern, none of them empty
        self._tree: SubjectTree | None = None  # of the patterns; most streams have no consumers
        self._known: dict[bytes, tuple[dict[Member, None], ...]] = {}  # by subject

    def add(self, patterns: tuple[bytes, ...], member: Member) -> None:
        """Add a member with its filters."""
        for pattern in patterns or (_ANY,):
            group = self._groups.get(pattern)
            if group is None:
                group = self._groups[pattern] = {}
                if self._tree is None:
                    self._tree = SubjectTree()
                self._tree.insert(pattern, None, pattern)
                self._known.clear()
            group[member] = None

    def discard(self, patterns: tuple[bytes, ...], member: Member) -> None:
        """Remove a member that was added with these filters."""
        for pattern in patterns or (_ANY,):
            group = self._groups.get(pattern, {})
            group.pop(member, None)
            if not group and self._tree is not None and pattern in self._groups:
                del self._groups[pattern]
                self._tree.remove(pattern, None, pattern)
                self._known.clear()

    def find(self, subject: bytes) -> tuple[dict[Member, None], ...]:
        """Return the groups whose pattern matches a literal subject; none of them is empty."""
        found = self._known.get(subject)
        if found is None:
            found = tuple([self._groups[pattern] for pattern in self._patterns_of(subject)])
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[subject] = found
        return found

    def _patterns_of(self, subject: bytes) -> list[Any]:
        if self._tree is None:
            return []
        if not valid_literal_subject(
            subject
        ):  # an archive may have brought it; the tree knows no empty tokens
            return [pattern for pattern in self._groups if matches(subject, pattern)]
        return self._tree.match(subject).plain
