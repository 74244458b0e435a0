"""Show progress: a live table on a terminal, plain lines elsewhere, or JSON lines.

A view is notified of every change and decides which to print; it always prints results and errors.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from millstream.spark.pipeline.progress import JobProgress, State

_ENDED: Final = (State.DONE, State.STOPPED, State.FAILED)
_STYLES: Final = {
    State.WAITING: "dim",
    State.STARTING: "cyan",
    State.RUNNING: "green",
    State.DONE: "bold green",
    State.STOPPED: "yellow",
    State.FAILED: "bold red",
}


class View(Protocol):
    def changed(self, progress: JobProgress) -> None: ...

    def close(self) -> None: ...


class LineView:
    """Prints a line for each job, at most once per interval."""

    def __init__(
        self,
        output: TextIO,
        interval_s: float,
        *,
        as_json: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output = output
        self._interval_s = interval_s
        self._format = _json_line if as_json else plain_line
        self._clock = clock
        self._shown: dict[str, tuple[State, float]] = {}

    def changed(self, progress: JobProgress) -> None:
        state, when = self._shown.get(progress.job, (None, 0.0))
        now = self._clock()
        if state is progress.state and now - when < self._interval_s:
            return
        self._shown[progress.job] = (progress.state, now)
        self._output.write(self._format(progress) + "\n")
        self._output.flush()

    def close(self) -> None: ...


class LiveView:
    """Redraws a table on a terminal."""

    def __init__(self, console: Console, jobs: Callable[[], list[JobProgress]]) -> None:
        self._jobs = jobs
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=4)
        self._live.start()

    def changed(self, progress: JobProgress) -> None: ...

    def close(self) -> None:
        self._live.stop()

    def _draw(self) -> Table:
        return progress_table(self._jobs())


def progress_table(jobs: Iterable[JobProgress]) -> Table:
    """Return the jobs as a table for `rich`."""
    table = Table(box=None, pad_edge=False)
    for name in ("job", "kind", "state"):
        table.add_column(name)
    for name in ("rows", "rows/s", "lag", "batches"):
        table.add_column(name, justify="right")
    table.add_column("", overflow="fold")
    for one in jobs:
        table.add_row(
            one.job,
            one.kind,
            f"[{_STYLES[one.state]}]{one.state}[/]",
            f"{one.rows:,}",
            f"{one.rate:,.0f}" if one.state is State.RUNNING else "",
            f"{sum(one.lag.values()):,}" if one.lag else "",
            f"{one.batches:,}" if one.batches else "",
            one.text.splitlines()[0] if one.text else "",
        )
    return table


def plain_line(one: JobProgress) -> str:
    parts = [f"{one.job} ({one.kind}): {one.state}"]
    if one.state is not State.WAITING and (one.rows or one.batches):
        parts.append(f"{one.rows} rows")
    if one.state is State.RUNNING and one.batches:
        parts.append(f"{one.rate:.0f} rows/s")
    if one.lag:
        parts.append(f"lag {sum(one.lag.values())}")
    # The reasons of failed jobs are printed at the end, for all jobs.
    telling = one.state in _ENDED or one.state is State.STARTING or not one.batches
    if one.text and telling and one.state is not State.FAILED:
        parts.append(one.text)
    return ", ".join(parts)


def _json_line(one: JobProgress) -> str:
    return json.dumps(one.as_json())


def choose_view(
    *, as_json: bool, interval_s: float, jobs: Callable[[], list[JobProgress]], output: TextIO | None = None
) -> View:
    """Return the view for this output: a terminal gets the table."""
    stream = sys.stdout if output is None else output
    if not as_json and stream.isatty():
        return LiveView(Console(file=stream), jobs)
    return LineView(stream, interval_s, as_json=as_json)
