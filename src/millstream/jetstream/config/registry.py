"""The configurations of an account's streams, with the subjects of all of them in one tree.

A mapping by name.  ``check_overlap`` looks up subjects in the tree, so that creating a stream costs the same
however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from millstream.jsapi.stream_types import StreamConfig
from millstream.subjects.overlap import MOST_STEPS, PatternSet


class StreamConfigs(Mapping[str, StreamConfig]):
    """The configurations of all streams of an account."""

    def __init__(self) -> None:
        self._by_name: dict[str, StreamConfig] = {}
        self._subjects = PatternSet()
        self._added: dict[str, tuple[str, ...]] = {}  # the subjects of each stream that are in the tree

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
        self.discard(config.name)
        self._by_name[config.name] = config
        self._added[config.name] = tuple(config.subjects)
        for subject in config.subjects:
            self._subjects.add(subject.encode())

    def discard(self, name: str) -> None:
        self._by_name.pop(name, None)
        for subject in self._added.pop(name, ()):
            self._subjects.remove(subject.encode())

    def listen_to(self, subjects: Iterable[str]) -> bool:
        """Return True if a stream has one of these subjects; raise TooManySteps if that takes too long."""
        self._subjects.allow(MOST_STEPS)
        return any(self._subjects.collides(subject.encode()) for subject in subjects)
