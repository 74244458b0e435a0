"""Configurations of consumers by name that also find those with a subject in common.

A work queue allows one consumer for each subject.  A lookup costs what it finds, so creating or restoring
thousands of consumers does not compare each with all others.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping

from millstream.jetstream.consumers.config_rules import filters_of
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.subjects.filter_index import FilterIndex


class SharedSubjects(Mapping[str, ConsumerConfig]):
    """Configurations by name."""

    @abstractmethod
    def sharing(self, pattern: bytes) -> Iterable[str]:
        """Return the names of the consumers that may get messages of a pattern."""


class CheckedConfigs(SharedSubjects):
    """The configurations of consumers that will be created together."""

    def __init__(self, configs: Mapping[str, ConsumerConfig] | None = None) -> None:
        self.counted = 0  # those of clients, without those of mirrors and sources
        self._by_name: dict[str, ConsumerConfig] = {}
        self._index = FilterIndex()
        for name, config in (configs or {}).items():
            self.add(name, config)

    def add(self, name: str, config: ConsumerConfig) -> None:
        """Add a consumer with a name that is not taken."""
        self._by_name[name] = config
        self._index.add(tuple(each.encode() for each in filters_of(config)), name)
        self.counted += not (config.direct or config.sourcing)

    def __getitem__(self, name: str) -> ConsumerConfig:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def sharing(self, pattern: bytes) -> Iterable[str]:
        return dict.fromkeys(name for group in self._index.colliding(pattern) for name in group)
