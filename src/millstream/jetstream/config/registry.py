"""The configurations of an account's streams, with the subjects of all of them in one tree.

A mapping by name.  ``check_overlap`` looks up subjects in the tree, so that creating a stream costs the same
however many there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import repeat

from millstream.jsapi.stream_types import StreamConfig
from millstream.subjects.overlap import MOST_STEPS, PatternSet, TooManySteps
from millstream.subjects.tokens import is_literal

_MOST_LISTENERS = 1_000  # tokens of subjects that are looked at in a step


class StreamConfigs(Mapping[str, StreamConfig]):
    """The configurations of all streams of an account."""

    def __init__(self) -> None:
        self._by_name: dict[str, StreamConfig] = {}
        self._subjects = PatternSet()
        self._added: dict[str, dict[str, str]] = {}  # the subjects of each stream that are in the tree
        self._listeners: dict[str, str] = {}  # the stream of each subject
        self._has_shared = False  # streams that were stored may share a subject

    def __getitem__(self, name: str) -> StreamConfig:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def put(self, config: StreamConfig) -> None:
        """Add a stream, or replace its configuration."""
        if self._by_name.get(config.name) is config:
            return
        before = self._added.get(config.name)
        new = added = self._added[config.name] = dict.fromkeys(config.subjects, config.name)
        self._by_name[config.name] = config
        if before:
            self._remove(before.keys() - added.keys())
            new = dict.fromkeys(added.keys() - before.keys(), config.name)
        self._subjects.add_all(new)
        # In this order, it looks at the subjects of one stream and not at those of all.
        self._has_shared = self._has_shared or not self._listeners.keys().isdisjoint(new)
        self._listeners.update(new)

    def discard(self, name: str) -> None:
        self._by_name.pop(name, None)
        self._remove(self._added.pop(name, {}))

    def _remove(self, subjects: Collection[str]) -> None:
        self._subjects.remove_all(subjects)
        deque(map(self._listeners.pop, subjects, repeat("")), maxlen=0)

    def listening_to(self, subject: str) -> set[str] | None:
        """Return the names of the streams with messages of a subject; None: they must be searched for."""
        if self._has_shared:
            return None
        self._subjects.allow(_MOST_LISTENERS)
        try:
            found = self._subjects.colliding(subject.encode())
        except TooManySteps:
            return None
        return {self._listeners[own.decode()] for own in found}

    def others_listen_to(self, name: str, subjects: Iterable[str]) -> bool:
        """Return True if a stream other than `name` has one of these subjects.

        Raises TooManySteps if that takes too long.
        """
        own = self._added.get(name, {})
        wanted = list(subjects)
        tree = self._subjects
        tree.allow(MOST_STEPS)
        kept = [subject.encode() for subject in wanted if subject in own]
        new = [subject.encode() for subject in wanted if subject not in own]
        # Each of its own subjects is in the tree once, and nearly always nothing has messages in common.
        if all(map(is_literal, kept)) and not any(map(tree.covers_twice, kept)):
            if not any(map(tree.collides, new)):
                return False
            if not own:
                return True
        tree.remove_all(own)
        try:
            return any(map(tree.collides, (*kept, *new)))
        finally:
            tree.add_all(own)
