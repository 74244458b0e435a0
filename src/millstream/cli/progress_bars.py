"""The progress of a transfer: bars on a terminal, occasional lines elsewhere, nothing with JSON.

Progress goes to standard error, so that standard output has only the result.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from millstream.base.owned import visible
from millstream.cli.output.texts import size_text

_LINE_EVERY_S: Final = 10.0


class Bars:
    """Progress bars for a terminal."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._tasks: dict[tuple[str, str], TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begin(self, stream: str, step: str, total: int) -> None:
        task = self._tasks.get((stream, step))
        if task is None:
            title = f"{step} {escape(visible(stream))}"
            self._tasks[stream, step] = self._progress.add_task(title, total=total or None)
        else:
            self._progress.reset(task, total=total or None)

    def advance(self, stream: str, step: str, done: int) -> None:
        self._progress.update(self._tasks[stream, step], completed=done)

    def end(self, stream: str, step: str) -> None:
        task = self._tasks[stream, step]
        total = self._progress.tasks[self._progress.task_ids.index(task)].total
        self._progress.update(task, completed=total or 1, total=total or 1)

    def say(self, text: str) -> None:
        self._progress.console.print(visible(text), highlight=False, markup=False)


class ProgressLines:
    """Lines of progress for files and pipes."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, str], int] = {}
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self, stream: str, step: str, total: int) -> None:
        self._totals[stream, step] = total
        self.say(f"{step} of {stream} begins")

    def advance(self, stream: str, step: str, done: int) -> None:
        if time.monotonic() - self._told < _LINE_EVERY_S:
            return
        self._told = time.monotonic()
        total = self._totals[stream, step]
        share = f", {100 * done // total} %" if total else ""
        self.say(f"{step} of {stream}: {size_text(done)}{share}")

    def end(self, stream: str, step: str) -> None:
        self.say(f"{step} of {stream} is done")

    def say(self, text: str) -> None:
        print(visible(text), file=sys.stderr, flush=True)


class Quiet(ProgressLines):
    """No progress, for programs that read JSON."""

    def say(self, text: str) -> None:
        pass


def progress_for(*, json: bool, quiet: bool = False) -> Bars | ProgressLines:
    """Return the kind of progress for the present output."""
    if json or quiet:
        return Quiet()
    return Bars() if sys.stderr.isatty() else ProgressLines()
