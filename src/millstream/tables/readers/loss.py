"""Detect messages of a range that no longer exist, and report their exact sequences.

A stream loses its oldest messages by limits and purges, and all of them when it is deleted.  Single messages
deleted inside a stream were deleted on purpose and are no loss.  So a gap counts only before the first
existing message, and only if nothing was missing when the range was planned.
"""

import logging
from collections.abc import Iterable
from typing import Final

from millstream.tables.errors import DataLoss
from millstream.tables.stream_range import StreamRange
from millstream.tables.streams import StreamAsker, StreamFacts, stream_facts

logger: Final = logging.getLogger("millstream.tables")


def report(stream: str, pieces: Iterable[tuple[int, int]], why: str, *, fail: bool) -> None:
    """Raise `DataLoss`, or log a warning, for the given sequences; do nothing if there are none."""
    texts = [f"{low}" if low == high else f"{low} to {high}" for low, high in pieces if low <= high]
    if not texts:
        return
    what = f"stream {stream}: messages {', '.join(texts)} were to be read and are gone: {why}"
    if fail:
        raise DataLoss(f"{what}. With failOnDataLoss=false the query would go on without them")
    logger.warning("%s; the query goes on without them", what)


def check_before(api: StreamAsker, partition: StreamRange, *, fail: bool) -> bool:
    """Check the stream before its range is read; return False if there is nothing left to read."""
    if partition.advisories or not partition.id:
        return True
    facts = stream_facts(api, partition.stream)
    if facts.id != partition.id:
        report(partition.stream, [(partition.low, partition.high)], _recreated(facts), fail=fail)
        return False
    if facts.first > partition.low:
        report(
            partition.stream,
            [(partition.low, min(facts.first - 1, partition.high))],
            _first(facts),
            fail=fail,
        )
    return True


def check_after(
    api: StreamAsker, partition: StreamRange, last: int, gaps: list[tuple[int, int]], *, fail: bool
) -> None:
    """Check again if messages were missing: the stream may have lost them while it was read.

    `last` is the last sequence that is accounted for; later ones did not arrive.
    """
    rest = [(last + 1, partition.high)] if last < partition.high else []
    known = gaps if partition.dense and not partition.filters else []  # other gaps are intended
    if not rest and not known:
        return
    facts = stream_facts(api, partition.stream)
    if partition.id and facts.id != partition.id:
        report(partition.stream, [*known, *rest], _recreated(facts), fail=fail)
        return
    tail = [(max(low, facts.after_last), high) for low, high in rest]
    report(partition.stream, tail, _last(facts), fail=fail)
    head = [(low, min(high, facts.first - 1)) for low, high in [*known, *(rest if partition.dense else [])]]
    report(partition.stream, head, _first(facts), fail=fail)


def _first(facts: StreamFacts) -> str:
    return f"its first message is {facts.first} now, the rest was purged or went by its limits"


def _last(facts: StreamFacts) -> str:
    return f"its last sequence is {facts.after_last - 1} now"


def _recreated(facts: StreamFacts) -> str:
    return f"it was deleted and created again at {facts.id}"
