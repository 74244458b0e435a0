"""Showing a contest: a table for people, Markdown for `README.md`, JSON for machines."""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.contest import Result
from benchmarks.machine import Machine

_HEADINGS: Final = ("row", "figure", "ratio", "spread", "bar", "server", "workers", "JVM")
_MEANING: Final = (
    "Ratio: to the row of the same group that has none, median over rounds; spread: lowest..highest round. "
    "Higher is better, for times too. The last three: processor time for each row, in ns."
)


@dataclass(frozen=True, slots=True)
class About:
    """The heading of the rows."""

    what: str
    versions: str
    settings: dict[str, str]
    machine: Machine
    rounds: int
    messages: int
    finished: str  # ISO 8601, UTC
    load_after: float = dataclasses.field(default_factory=lambda: round(os.getloadavg()[0], 2))


def show(console: Console, about: About, results: Sequence[Result]) -> None:
    for line in _lines(about):
        console.print(line, markup=False, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, caption=_MEANING, caption_justify="left")
    for number, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=True)
    for result in results:
        cells = _cells(result)
        colour = {None: "default", True: "green", False: "red"}[result.reached]
        table.add_row(*cells[:2], f"[{colour}]{cells[2]}[/]", *cells[3:])
    console.print(table)


def markdown(about: About, results: Sequence[Result]) -> str:
    """Return the table for `README.md`."""
    out = [*_lines(about), "", f"| {' | '.join(_HEADINGS)} |", "|---" + "|---:" * (len(_HEADINGS) - 1) + "|"]
    out += [f"| {' | '.join(_cells(result))} |" for result in results]
    return "\n".join([*out, "", _MEANING, ""])


def write_json(path: Path, about: About, results: Sequence[Result]) -> None:
    rows: list[dict[str, Any]] = [
        {**dataclasses.asdict(each), "median": each.median, "ratio": each.ratio, "reached": each.reached}
        for each in results
    ]
    path.write_text(json.dumps({**dataclasses.asdict(about), "rows": rows}, indent=2) + "\n")


def _lines(about: About) -> Iterator[str]:
    machine = about.machine
    yield f"{about.what}: {about.versions}; {about.finished}"
    yield (
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.kernel}, "
        f"{machine.python}; load average {machine.load_before} before, {about.load_after} after"
    )
    yield f"{about.rounds} interleaved rounds, {about.messages:,} messages of 128 B in a stream"
    if about.settings:
        yield "; ".join(f"{name}={value.rpartition('.')[2]}" for name, value in about.settings.items())


def _cells(result: Result) -> list[str]:
    bar = "" if result.bar is None else f"{result.bar:g}"
    if result.or_value is not None:
        bar += f" or {figure(result.or_value, '').strip()}"
    spread = f"{min(result.ratios):.2f}..{max(result.ratios):.2f}" if result.ratios else ""
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
    costs = [result.nanoseconds(who) for who in ("server", "workers", "jvm")]
    times = ["" if cost is None else f"{cost:.0f}" for cost in costs]
    return [result.title, figure(result.median, result.unit), ratio, spread, bar, *times]


def figure(value: float, unit: str) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.2f} M {unit}"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k {unit}"
    return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"
