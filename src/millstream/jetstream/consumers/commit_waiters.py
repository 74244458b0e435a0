"""The consumers awaiting commit: they have delivered everything and want more.

A commit costs nothing for a consumer that it does not concern: consumers with literal filters are found by
the committed subjects.  Only if there are few, or their filters have wildcards, each checks by itself.

Compiled, because it is on the path of a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from millstream.base import guard
from millstream.store.counts import subjects_between
from millstream.subjects.tokens import is_literal

if TYPE_CHECKING:
    from millstream.jetstream.consumers.consumer import Consumer
    from millstream.store.log import Log

_FEW = 8  # so many may look for themselves


class AwaitingCommit:
    """The consumers of one stream that are awaiting commit."""

    def __init__(self) -> None:
        self._patterns: dict[Consumer, tuple[bytes, ...]] = {}  # as they were when the consumer came
        self._by_subject: dict[bytes, dict[Consumer, None]] = {}
        self._other: dict[Consumer, None] = {}  # without filters, or with a wildcard in one
        self._told = 0  # the last sequence that was told about

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._patterns)

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, consumer: Consumer) -> None:
        patterns = consumer.patterns
        if self._patterns.get(consumer) == patterns:
            return
        self.discard(consumer)
        self._patterns[consumer] = patterns
        if _are_literal(patterns):
            for subject in patterns:
                self._by_subject.setdefault(subject, {})[consumer] = None
        else:
            self._other[consumer] = None

    def discard(self, consumer: Consumer) -> None:
        patterns = self._patterns.pop(consumer, None)
        if patterns is None:
            return
        if consumer in self._other:
            del self._other[consumer]
            return
        for subject in patterns:
            consumers = self._by_subject[subject]
            del consumers[consumer]
            if not consumers:
                del self._by_subject[subject]

    def committed(self, log: Log) -> list[Consumer]:
        """Return the consumers for which there may be new messages since the last call."""
        last = log.state.committed
        first = min(self._told, last) + 1
        self._told = last
        if len(self._patterns) - len(self._other) <= _FEW:
            return list(self._patterns)
        concerned = dict(self._other)
        for subject in subjects_between(log, first, last):
            concerned.update(self._by_subject.get(subject, {}))
        return list(concerned)

    def deliver(self, log: Log) -> None:
        """Have these consumers deliver what was committed; errors are reported, others go on."""
        try:
            for consumer in self.committed(log):
                try:
                    consumer.pump()
                except Exception as error:
                    guard.report("delivering to a consumer", error)
            log.keep_recent(len(self._patterns) > 0)
        except Exception as error:
            guard.report("finding the consumers of a commit", error)


def _are_literal(patterns: tuple[bytes, ...]) -> bool:
    return bool(patterns) and all(map(is_literal, patterns))
