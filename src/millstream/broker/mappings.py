"""Subject mappings of an account, from published to delivered subjects."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.broker.options import SubjectMapping
from millstream.subjects.transform import WeightedMapping

if TYPE_CHECKING:
    from random import Random

_MOST_KNOWN: Final = 4096  # subjects of which it is kept what they become


def account_mapping(
    mappings: Sequence[SubjectMapping], generator: Random
) -> Pieces[Callable[[bytes], bytes] | None]:
    """Return a function from published to delivered subject, or None if nothing is mapped; works in pieces.

    The first mapping whose source covers the subject decides.  A message to be dropped (the weights may leave
    a rest) is mapped to the empty subject, which nobody can subscribe to.
    """
    if not mappings:
        return None
    rules = []
    for mapping in mappings:
        shares = [(destination.subject, destination.weight) for destination in mapping.destinations]
        start = re.split(r"[*>]", mapping.source, maxsplit=1)[0].encode()  # of all subjects that are covered
        rules.append((start, WeightedMapping(mapping.source, shares, generator=generator)))
        yield 1

    known: dict[bytes, bytes] = {}  # where chance decides nothing

    def mapped(subject: bytes) -> bytes:
        found = known.get(subject)
        if found is not None:
            return found
        found, by_chance = subject, False
        for start, rule in rules:
            if subject.startswith(start) and rule.covers(subject):
                found, by_chance = rule.choose(subject), rule.by_chance
                break
        if not by_chance:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[subject] = found
        return found

    return mapped
