"""Subject mappings of an account, from published to delivered subjects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from millstream.broker.options import SubjectMapping
from millstream.subjects.transform import WeightedMapping

if TYPE_CHECKING:
    from random import Random


def account_mapping(mappings: Sequence[SubjectMapping], generator: Random) -> Callable[[bytes], bytes] | None:
    """Return a function from published to delivered subject, or None if nothing is mapped.

    The first mapping whose source covers the subject decides.  A message to be dropped (the weights may leave
    a rest) is mapped to the empty subject, which nobody can subscribe to.
    """
    if not mappings:
        return None
    rules = [
        WeightedMapping(
            mapping.source,
            [(destination.subject, destination.weight) for destination in mapping.destinations],
            generator=generator,
        )
        for mapping in mappings
    ]

    def mapped(subject: bytes) -> bytes:
        for rule in rules:
            if rule.covers(subject):
                found = rule.apply(subject)
                return subject if found is None else found
        return subject

    return mapped
