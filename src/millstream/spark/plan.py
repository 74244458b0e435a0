"""Choose the sequences that a read takes and cut them into ranges.  Pure functions, no server.

A range is closed, `[low, high]`, and belongs to one task.  `cut` depends only on its arguments, which come
from the offset, so a repeated batch has the same ranges.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from millstream.spark.offsets import Position
from millstream.spark.options import BatchLimits

SMALL_BATCH: Final = 5_000  # fewer rows are not worth a second task, which costs 25 to 40 ms


@dataclass(frozen=True, slots=True)
class Range:
    """Sequences of one stream, both ends included; empty when `high` is below `low`."""

    stream: str
    low: int
    high: int

    @property
    def count(self) -> int:
        return max(0, self.high - self.low + 1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The readable part of one stream, `[start, end)`, and the average size of its messages."""

    start: int
    end: int
    average_bytes: float = 0.0

    @property
    def count(self) -> int:
        return max(0, self.end - self.start)


def parts_for(count: int, min_partitions: int, max_records: int) -> int:
    """Return the number of ranges for `count` sequences; 0 for none."""
    if count <= 0:
        return 0
    needed = -(-count // max_records)
    if needed == 1 and count < SMALL_BATCH:
        return 1
    return min(count, max(min_partitions, needed))


def cut(stream: str, start: int, end: int, parts: int) -> list[Range]:
    """Cut `[start, end)` into `parts` closed ranges, in order, whose sizes differ by at most one."""
    count = end - start
    edges = [start + count * part // parts for part in range(parts + 1)] if parts else []
    return [Range(stream, low, high - 1) for low, high in pairwise(edges)]


def ranges_of(streams: Mapping[str, Position]) -> list[Range]:
    """Return the ranges of the micro-batch that ends at these positions."""
    return [part for name, at in sorted(streams.items()) for part in cut(name, at.start, at.next, at.parts)]


def limited(backlogs: Mapping[str, Backlog], limits: BatchLimits) -> dict[str, int]:
    """Return where the next micro-batch ends in each stream, within the limits on rows and bytes.

    Several streams share a limit in proportion to their backlog.  At least one message is always taken: a
    limit below one message would stop the query for ever.
    """
    total = sum(backlog.count for backlog in backlogs.values())
    allowed = total if limits.max_rows is None else min(total, limits.max_rows)
    if limits.max_bytes is not None:
        weight = sum(backlog.count * backlog.average_bytes for backlog in backlogs.values())
        if weight > limits.max_bytes:
            allowed = min(allowed, max(1, int(total * limits.max_bytes / weight)))
    shares = _shares({name: backlog.count for name, backlog in backlogs.items()}, allowed)
    return {name: backlog.start + shares[name] for name, backlog in backlogs.items()}


def _shares(counts: Mapping[str, int], allowed: int) -> dict[str, int]:
    """Divide `allowed` in proportion to `counts`; the largest remainders get what rounding leaves."""
    total = sum(counts.values())
    if allowed >= total:
        return dict(counts)
    shares = {name: count * allowed // total for name, count in counts.items()}
    left = allowed - sum(shares.values())
    by_remainder = sorted(counts, key=lambda name: (-(counts[name] * allowed % total), name))
    for name in by_remainder[:left]:
        shares[name] += 1
    return shares


def waits(backlogs: Mapping[str, Backlog], limits: BatchLimits, waited_seconds: float) -> bool:
    """Return True if there is too little for a micro-batch yet."""
    if limits.min_rows is None or waited_seconds >= limits.max_delay:
        return False
    return sum(backlog.count for backlog in backlogs.values()) < limits.min_rows
