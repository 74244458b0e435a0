"""The live picture in a terminal, and plain lines where there is none.  The picture fits 80 x 24."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.orders.figures import ConsumerFigures, Figures

LEAVE_SCREEN: Final = "\x1b[?1049l\x1b[?25h"  # back to what was there before, with a cursor
_TROUBLES_SHOWN: Final = 2


@dataclass(frozen=True, slots=True)
class Moment:
    """The figures to show now."""

    figures: Figures
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)  # as the pipeline tells of them, by name
    spark: str = ""  # what the pipeline does while it has no jobs to show
    addresses: Sequence[str] = ()
    hints: Sequence[str] = ()
    troubles: Sequence[str] = ()


class View(Protocol):
    """Shows one moment after the other."""

    interval_s: float

    def show(self, moment: Moment) -> None: ...


@contextlib.contextmanager
def open_view(line_every_s: float) -> Iterator[View]:
    """Return the view for this output: the picture in a terminal, lines elsewhere."""
    console = Console()
    if console.is_terminal and not console.is_dumb_terminal:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield Screen(live)
    else:
        yield Lines(line_every_s)


class Screen:
    """Draws the picture again and again."""

    interval_s = 0.5

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, moment: Moment) -> None:
        try:
            self._live.update(picture(moment), refresh=True)
        except Exception as error:  # a terminal that is gone, or figures of another kind: the rest goes on
            with contextlib.suppress(Exception):
                self._live.update(Text(f"cannot draw this moment: {error}"), refresh=True)


class Lines:
    """Prints the figures every few seconds, and everything else when it changes."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._told: set[str] = set()

    def show(self, moment: Moment) -> None:
        news = [*moment.addresses, *moment.hints, *moment.troubles]
        try:
            print("\n".join([*(each for each in news if each not in self._told), line(moment)]), flush=True)
        except OSError:
            go_on_unheard()
        self._told = set(news)


def go_on_unheard() -> None:
    """Drop the output from now on: whoever read it is gone."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    with contextlib.suppress(OSError):
        print("nobody reads the output any more; the order desk goes on, Ctrl-C stops it", file=sys.stderr)


def picture(moment: Moment) -> RenderableType:
    """Return everything on one screen."""
    figures = moment.figures
    shown = len(figures.consumers)
    stream = Text.assemble(
        ("ORDERS ", "bold"),
        f"{figures.messages:,} messages, {_size(figures.stored_bytes)}, ",
        (f"{figures.rate:,.1f}/s", "green"),
        f", {figures.consumer_count} consumers"
        + (f" ({shown} shown)" if figures.consumer_count > shown else ""),
    )
    pipeline = Text.assemble(
        ("Pipeline on Spark ", "bold"),
        f"archive: {figures.archive_files:,} Parquet files, {_size(figures.archive_bytes)}",
    )
    parts: list[RenderableType] = [
        stream,
        _consumers(figures),
        Text(),
        pipeline,
        _jobs(moment.jobs) if moment.jobs else _line(moment.spark, "dim"),
        Text(),
        *(_line(text) for text in moment.addresses),
        *([_line("Paste into another terminal, in the same folder:", "bold")] if moment.hints else []),
        *(_line(text) for text in moment.hints),
        *(_line(text, "yellow") for text in moment.troubles[:_TROUBLES_SHOWN]),
        _line("Ctrl-C stops everything; what is stored stays.", "dim"),
    ]
    return Group(*parts)


def line(moment: Moment) -> str:
    """Return the figures in one line, for logs."""
    figures = moment.figures
    consumers = " ".join(
        f"{each.name}={each.acknowledged}/{each.pending}+{each.waiting_for_ack}" for each in figures.consumers
    )
    jobs = " ".join(
        f"{name}={said.get('rows', 0)}" + ("" if said.get("state") == "running" else f"({said.get('state')})")
        for name, said in sorted(moment.jobs.items())
    )
    archive = f"archive={figures.archive_bytes}B"
    return f"messages={figures.messages} {consumers} jobs: {jobs or moment.spark} {archive}"


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _consumers(figures: Figures) -> Table:
    table = Table("consumer", "kind", box=None, pad_edge=False)
    for title in ("pending", "unacked", "acked", "again", "median ack", "99%"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in figures.consumers:
        table.add_row(*_consumer(each))
    return table


def _consumer(each: ConsumerFigures) -> list[str]:
    counts = (each.pending, each.waiting_for_ack, each.acknowledged, each.redelivered)
    times = (each.median_ms, each.slowest_percent_ms)
    return [each.name[:16], each.kind, *(f"{count:,}" for count in counts), *map(_milliseconds, times)]


def _jobs(jobs: dict[str, dict[str, Any]]) -> Table:
    table = Table("job", "state", box=None, pad_edge=False)
    for title in ("batches", "rows", "rows/s", "behind"):
        table.add_column(title, justify="right")
    for name, said in sorted(jobs.items()):
        table.add_row(
            name,
            str(said.get("state", "")),
            f"{said.get('batches', 0):,}",
            f"{said.get('rows', 0):,}",
            f"{said.get('rate', 0):,.0f}",
            f"{sum(said.get('lag', {}).values()):,}",
        )
    return table


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} ms"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
