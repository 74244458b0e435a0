"""Subject mappings of an account, from published to delivered subjects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from millstream.base.slices import Pieces
from millstream.broker.options import SubjectMapping
from millstream.subjects.match import valid_literal_subject
from millstream.subjects.transform import WeightedMapping
from millstream.subjects.tree import SubjectTree

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
    rules: list[WeightedMapping] = []
    tree = SubjectTree()  # of the positions in `rules`, by source
    for mapping in mappings:
        shares = [(destination.subject, destination.weight) for destination in mapping.destinations]
        tree.insert(mapping.source.encode(), None, len(rules))
        rules.append(WeightedMapping(mapping.source, shares, generator=generator))
        yield 1

    def rule_for(subject: bytes) -> WeightedMapping | None:
        if valid_literal_subject(subject):
            positions = tree.match(subject).plain
            return rules[min(positions)] if positions else None
        return next((rule for rule in rules if rule.covers(subject)), None)

    known: dict[bytes, bytes] = {}  # where chance decides nothing

    def mapped(subject: bytes) -> bytes:
        found = known.get(subject)
        if found is not None:
            return found
        rule = rule_for(subject)
        found = subject if rule is None else rule.choose(subject)
        if rule is None or not rule.by_chance:
            if len(known) >= _MOST_KNOWN:
                known.clear()
            known[subject] = found
        return found

    return mapped
