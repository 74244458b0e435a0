"""Showing a comparison: a table for people, JSON for machines."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.bars import GOAL
from benchmarks.compare import Row
from benchmarks.machine import Machine


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of the rows."""

    ours: str
    theirs: str
    machine: Machine
    rounds: int
    scale: float
    finished: str  # ISO 8601, UTC


def show(console: Console, heading: Heading, rows: Sequence[Row], failures: dict[str, str]) -> None:
    machine = heading.machine
    console.print(f"{heading.ours}  against  {heading.theirs}, {heading.finished}")
    console.print(
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.kernel}, "
        f"{machine.python}, load average {machine.load_before} before the run"
    )
    table = Table(box=box.SIMPLE_HEAD, caption=_caption(heading), caption_justify="left")
    table.add_column("workload", no_wrap=True)
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("theirs", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", style="bold", no_wrap=True)
    table.add_column("spread", justify="right", no_wrap=True)
    table.add_column("bar", justify="right", no_wrap=True)
    table.add_column("processor time", justify="right", no_wrap=True)
    table.add_column("cores: ours", justify="right")
    table.add_column("theirs", justify="right")
    table.add_column("busiest loader", justify="right")
    table.add_column("harness ceiling", justify="right")
    for row in rows:
        table.add_row(
            row.title,
            _figure(row.ours.median, row.unit),
            _figure(row.theirs.median, row.unit),
            _coloured(row),
            f"{min(row.ratios):.2f}..{max(row.ratios):.2f}",
            _bar(row),
            "" if row.processor_ratio is None else f"{row.processor_ratio:.2f}",
            f"{row.ours.server_cores:.2f}",
            f"{row.theirs.server_cores:.2f}",
            f"{max(row.ours.loader_cores, row.theirs.loader_cores):.2f}",
            "" if row.ceiling is None else _figure(row.ceiling, row.unit),
        )
    console.print(table)
    for name, reason in failures.items():
        console.print(f"failed: {name}\n{reason}", markup=False, style="red")


def write_json(path: Path, heading: Heading, rows: Sequence[Row], failures: dict[str, str]) -> None:
    document = {
        **dataclasses.asdict(heading),
        "goal": GOAL,
        "rows": [
            {
                **dataclasses.asdict(row),
                "ratio": row.ratio,
                "ratios": row.ratios,
                "processor_ratio": row.processor_ratio,
                "bar": row.bar,
                "floor": row.floor,
            }
            for row in rows
        ],
        "failures": failures,
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def _caption(heading: Heading) -> str:
    return (
        f"Medians of {heading.rounds} interleaved rounds (scale {heading.scale:g}). Ratio: median over pairs "
        "of rounds, spread: lowest..highest pair; higher is better, for times too (theirs/ours). "
        "Processor time: the same ratio for the processor time of the servers. "
        f"Goal behind the bars: {GOAL:g}."
    )


def _figure(value: float, unit: str) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.2f} M {unit}"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k {unit}"
    if value < 10:
        return f"{value:.2f} {unit}"
    return f"{value:.0f} {unit}"


def _bar(row: Row) -> str:
    """Return the bar of the ratio, or of our figure alone."""
    if row.floor is None:
        return "" if row.bar is None else f"{row.bar:.2f}"
    colour = "green" if row.ours.median >= row.floor else "red"
    return f"[{colour}]{_figure(row.floor, row.unit)}[/]"


def _coloured(row: Row) -> str:
    reached = row.bar is None or row.ratio >= row.bar
    colour = "green" if row.ratio >= GOAL else "default" if reached else "red"
    return f"[{colour}]{row.ratio:.2f}[/]"
