"""Running a workload on two servers in turn, and what the pairs of rounds say.

Both servers run at the same time but only one works: A B, B A, A B, ... so that a machine that slows down
or speeds up meets both alike.  A round of ours and the round of theirs next to it are a pair; the ratio
is the median over the pairs and its spread is their lowest and highest.
"""

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.bars import BARS, FLOORS
from benchmarks.ceiling import CEILINGS
from benchmarks.servers import running
from benchmarks.workloads import Figure, Outcome, Workload
from tests.kits.reference import Server

_WARM_SCALE = 0.2


@dataclass(frozen=True, slots=True)
class Side:
    """One server's rounds of one row."""

    values: tuple[float, ...]
    server_cores: float
    loader_cores: float
    load_cores: float
    server_s: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    unit: str
    higher_is_better: bool
    ours: Side
    theirs: Side
    ceiling: float | None
    same_work: bool = True  # False if the rounds of the two servers have different sizes

    @property
    def ratios(self) -> tuple[float, ...]:
        pairs = zip(self.ours.values, self.theirs.values, strict=True)
        return tuple(ours / theirs if self.higher_is_better else theirs / ours for ours, theirs in pairs)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def processor_ratio(self) -> float | None:
        """The median of theirs/ours in the servers' processor time, or None if it was not measured."""
        pairs = list(zip(self.ours.server_s, self.theirs.server_s, strict=True))
        if not self.same_work or not all(ours > 0 and theirs > 0 for ours, theirs in pairs):
            return None
        return statistics.median(theirs / ours for ours, theirs in pairs)

    @property
    def bar(self) -> float | None:
        return BARS.get(self.name)

    @property
    def floor(self) -> float | None:
        """A bar for ours alone, in the row's unit."""
        return FLOORS.get(self.name)


def compare(
    workload: Workload,
    ours: Server,
    theirs: Server,
    *,
    rounds: int,
    scale: float,
    progress: Callable[[str], None],
) -> list[Row]:
    """Run `workload` `rounds` times on each server, interleaved, and return its rows."""
    with ExitStack() as stack:
        targets = [stack.enter_context(running(kind)) for kind in (ours, theirs)]
        outcomes: tuple[list[Outcome], list[Outcome]] = ([], [])
        for target in targets:
            workload.run(target, scale * _WARM_SCALE)
        for number in range(rounds):
            progress(f"{workload.title}: round {number + 1} of {rounds}")
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                outcomes[side].append(workload.run(targets[side], scale))
    ceiling = _ceiling(workload, rounds, scale)
    return [
        row_of(
            f"{workload.name} {suffix}".strip(),
            f"{workload.title}, {suffix}" if suffix else workload.title,
            suffix,
            *outcomes,
            ceiling.get(suffix),
        )
        for suffix in workload.rows
    ]


def _ceiling(workload: Workload, rounds: int, scale: float) -> dict[str, float]:
    measure = CEILINGS.get(workload.name)
    if measure is None:
        return {}
    outcomes = [measure(scale) for _ in range(min(rounds, 3))]
    return {
        suffix: statistics.median(outcome.figures[suffix].value for outcome in outcomes)
        for suffix in workload.rows
    }


def row_of(
    name: str,
    title: str,
    suffix: str,
    ours: Sequence[Outcome],
    theirs: Sequence[Outcome],
    ceiling: float | None = None,
    *,
    same_work: bool = True,
) -> Row:
    """The row of the figures that go by `suffix`."""
    sample: Figure = theirs[0].figures[suffix]
    return Row(
        name=name,
        title=title,
        unit=sample.unit,
        higher_is_better=sample.higher_is_better,
        ours=_side(ours, suffix),
        theirs=_side(theirs, suffix),
        ceiling=ceiling,
        same_work=same_work,
    )


def _side(outcomes: Sequence[Outcome], suffix: str) -> Side:
    return Side(
        values=tuple(outcome.figures[suffix].value for outcome in outcomes),
        server_cores=statistics.median(outcome.server_cores for outcome in outcomes),
        loader_cores=statistics.median(outcome.loader_cores for outcome in outcomes),
        load_cores=statistics.median(outcome.load_cores for outcome in outcomes),
        server_s=tuple(outcome.server_s for outcome in outcomes),
    )
