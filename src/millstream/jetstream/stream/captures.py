"""The subscriptions through which messages reach a stream.

A configuration may have thousands of subjects, so they change in pieces (``base.slices``).  Meanwhile the
stream already gets messages of some new subjects, or still of some old ones.  Where an old and a new subject
have messages in common, they are exchanged in one step: no message is lost, and none is stored twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from millstream.base.slices import Pieces
from millstream.jetstream.ports import Messaging
from millstream.subjects.overlap import PatternSet, TooManySteps

_COST: Final = 8  # items of a slice that a subscription counts for


class Captures:
    """The subscriptions of one stream; `capture` makes one."""

    def __init__(self, world: Messaging, capture: Callable[[bytes], Any]) -> None:
        self._world = world
        self._capture = capture
        self._handles: dict[str, Any] = {}  # by subject
        self._changes = 0  # begun

    def follow(self, subjects: Iterable[str]) -> Pieces[None]:
        """Subscribe to these subjects and unsubscribe from all others; a later call ends this one."""
        self._changes += 1
        change = self._changes
        wanted = dict.fromkeys(subjects)
        going = [subject for subject in self._handles if subject not in wanted]
        coming = [subject for subject in wanted if subject not in self._handles]
        exchanged: list[str] = []
        replaced: list[str] = []
        if going:
            coming, exchanged = yield from _split(coming, going)
            going, replaced = yield from _split(going, exchanged)
        for subject in going:
            if self._changes != change:
                return
            self._remove(subject)
            yield _COST
        for subject in coming:
            if self._changes != change:
                return
            self._add(subject)
            yield _COST
        if self._changes == change:
            for subject in replaced:
                self._remove(subject)
            for subject in exchanged:
                self._add(subject)

    def stop(self) -> None:
        """Unsubscribe from everything at once."""
        self._changes += 1
        for subject in list(self._handles):
            self._remove(subject)

    def _add(self, subject: str) -> None:
        self._handles[subject] = self._capture(subject.encode())

    def _remove(self, subject: str) -> None:
        self._world.release(self._handles.pop(subject))


def _split(subjects: list[str], others: list[str]) -> Pieces[tuple[list[str], list[str]]]:
    """Divide subjects into those that have nothing in common with any of the others, and the rest."""
    if not subjects or not others:
        return subjects, []
    patterns = PatternSet()
    for other in others:
        patterns.add(other.encode())
        yield 1
    apart: list[str] = []
    shared: list[str] = []
    for subject in subjects:
        try:
            collides = patterns.collides(subject.encode())
        except TooManySteps:
            collides = True
        (shared if collides else apart).append(subject)
        yield 1
    return apart, shared
