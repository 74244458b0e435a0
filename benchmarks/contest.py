"""Several ways to do one thing, taking turns, each beside the one it is measured by.

As in ``compare``, a round of every way runs in the same minute, and every other round goes backwards.  The
ratio is the median over the rounds of the quotient within one round; it is higher for what is better, times
included.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

ROWS: Final = "rows/s"


@dataclass(frozen=True, slots=True)
class Measured:
    """One round of one way."""

    value: float
    server_ns: float | None = None  # processor time for each row: of the server,
    workers_ns: float | None = None  # of Spark's Python workers,
    jvm_ns: float | None = None  # and of the JVM


@dataclass(frozen=True, slots=True)
class Entrant:
    name: str
    title: str
    run: Callable[[], Measured]
    unit: str = ROWS
    base: str = ""  # the entrant that it is measured by
    bar: float | None = None  # for the ratio
    or_value: float | None = None  # a value that does as well
    prepare: Callable[[], object] | None = None  # before the first round; without it a round that counts not

    @property
    def higher_is_better(self) -> bool:
        return self.unit == ROWS


@dataclass(slots=True)
class Result:
    """All rounds of one way."""

    name: str
    title: str
    unit: str
    base: str
    bar: float | None
    or_value: float | None
    rounds: list[Measured] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(one.value for one in self.rounds)

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def reached(self) -> bool | None:
        """Return whether the bar is reached; None without a bar."""
        if self.bar is None or self.ratio is None:
            return None
        return self.ratio >= self.bar or (self.or_value is not None and self.median >= self.or_value)

    def nanoseconds(self, who: str) -> float | None:
        """Processor time for each row, the median: of "server", "workers" or "jvm"."""
        known = [taken for one in self.rounds if (taken := getattr(one, f"{who}_ns")) is not None]
        return statistics.median(known) if known else None


def hold(entrants: Sequence[Entrant], rounds: int, progress: Callable[[str], None]) -> list[Result]:
    """Let all of them run, `rounds` times."""
    results = {
        each.name: Result(each.name, each.title, each.unit, each.base, each.bar, each.or_value)
        for each in entrants
    }
    for each in entrants:
        progress(f"{each.title}: prepared")
        (each.prepare or each.run)()
    for number in range(rounds):
        for each in entrants if number % 2 == 0 else reversed(entrants):
            progress(f"{each.title}: round {number + 1} of {rounds}")
            results[each.name].rounds.append(each.run())
    for each in entrants:
        if each.base not in results:  # it has none, or that one was not asked for
            continue
        pairs = zip(results[each.name].rounds, results[each.base].rounds, strict=True)
        results[each.name].ratios = [
            ours.value / base.value if each.higher_is_better else base.value / ours.value
            for ours, base in pairs
        ]
    return list(results.values())
