"""Find the consumers whose filters match a subject, without asking each of them.

Consumers with the same pattern are one group, and the patterns are in a tree.  So a lookup costs what
matches, whatever the number of consumers.  The groups of subjects in use are cached until a pattern is added
or removed.  Patterns are looked up in another tree, which is built at the first such lookup.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from millstream.subjects.match import collide, matches, valid_literal_subject
from millstream.subjects.overlap import PatternSet, TooManySteps
from millstream.subjects.tokens import valid_subject
from millstream.subjects.tree import SubjectTree

_MOST_KNOWN = 4096  # subjects whose groups are cached
_FEW = 100  # patterns that are compared one by one
_ANY = b">"

Member = Hashable
Group = dict[Any, None]  # of members that have the same pattern


class FilterIndex:
    """Members by the patterns of their filters; without a filter, all subjects match."""

    def __init__(self) -> None:
        self._groups: dict[bytes, Group] = {}  # by pattern, none of them empty
        self._tree: SubjectTree | None = None  # of the patterns; most streams have no consumers
        self._set: PatternSet | None = None  # of the patterns, once a pattern was looked up
        self.known: dict[bytes, tuple[Group, ...]] = {}  # by subject

    def add(self, patterns: tuple[bytes, ...], member: Member) -> None:
        """Add a member with its filters."""
        for pattern in patterns or (_ANY,):
            group = self._groups.get(pattern)
            if group is None:
                group = self._groups[pattern] = {}
                if self._tree is None:
                    self._tree = SubjectTree()
                self._tree.insert(pattern, None, pattern)
                if self._set is not None:
                    self._set.add(pattern)
                self.known.clear()
            group[member] = None

    def discard(self, patterns: tuple[bytes, ...], member: Member) -> None:
        """Remove a member that was added with these filters."""
        for pattern in patterns or (_ANY,):
            group = self._groups.get(pattern, {})
            group.pop(member, None)
            if not group and self._tree is not None and pattern in self._groups:
                del self._groups[pattern]
                self._tree.remove(pattern, None, pattern)
                if self._set is not None:
                    self._set.remove(pattern)
                self.known.clear()

    def find(self, subject: bytes) -> tuple[Group, ...]:
        """Return the groups whose pattern matches a literal subject; none of them is empty."""
        found = self.known.get(subject)
        if found is None:
            found = tuple([self._groups[pattern] for pattern in self._patterns_of(subject)])
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[subject] = found
        return found

    def colliding(self, pattern: bytes) -> list[Group]:
        """Return the groups whose pattern matches a literal subject that `pattern` matches, too."""
        return [self._groups[each] for each in self._patterns_beside(pattern)]

    def _patterns_beside(self, pattern: bytes) -> list[Any]:
        if len(self._groups) > _FEW and valid_subject(pattern):
            if self._set is None:
                self._set = PatternSet()
                for each in self._groups:
                    self._set.add(each)
            self._set.allow(len(self._groups))
            try:
                return self._set.colliding(pattern)
            except TooManySteps:
                pass
        return [each for each in self._groups if collide(each, pattern)]

    def _patterns_of(self, subject: bytes) -> list[Any]:
        if self._tree is None:
            return []
        if not valid_literal_subject(
            subject
        ):  # an archive may have brought it; the tree knows no empty tokens
            return [pattern for pattern in self._groups if matches(subject, pattern)]
        return self._tree.match(subject).plain
