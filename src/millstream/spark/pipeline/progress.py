"""Progress of the jobs: rows, rate and lag of each, from Spark's listener and from jobs' reports.

Not here: the definition of lag and how it follows from Spark's progress (`millstream.spark.lag`).
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from millstream.spark.jobs.context import Report
from millstream.spark.lag import lag_of

_SMOOTHING: Final = 0.4  # weight of the newest rate


class State(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"  # for the first time or again, see `text`
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class JobProgress:
    """The progress of one job at one moment."""

    job: str
    kind: str
    state: State = State.WAITING
    rows: int = 0
    batches: int = 0
    rate: float = 0.0  # rows per second, smoothed
    lag: dict[str, int] = field(default_factory=dict)  # by stream; empty for jobs that follow no stream
    text: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "kind": self.kind,
            "state": self.state.value,
            "rows": self.rows,
            "batches": self.batches,
            "rate": round(self.rate, 1),
            "lag": self.lag,
            "text": self.text,
        }


class ProgressBoard:
    """The progress of all jobs; jobs and Spark's listener write from their threads, a view reads."""

    def __init__(self, changed: Callable[[JobProgress], None] = lambda progress: None) -> None:
        self._jobs: dict[str, JobProgress] = {}
        self._lags: dict[str, dict[str, dict[str, int]]] = {}  # by job, query and stream
        self._clocks: dict[str, tuple[float, int]] = {}  # time of a job's last report, and its rows
        self._changed = changed
        self._lock = threading.Lock()

    def add(self, job: str, kind: str) -> None:
        with self._lock:
            self._jobs[job] = JobProgress(job, kind)

    def jobs(self) -> list[JobProgress]:
        with self._lock:
            return list(self._jobs.values())

    def batches(self, job: str) -> int:
        with self._lock:
            return self._jobs[job].batches

    def set_state(self, job: str, state: State, text: str = "") -> None:
        """Change a job's state; keep its text, except the reason of a restart."""

        def change(old: JobProgress) -> JobProgress:
            kept = "" if old.state is State.STARTING else old.text
            return replace(old, state=state, text=text or kept)

        self._update(job, change)

    def begin(self, job: str) -> None:
        """Mark a starting job as running."""
        self._update(job, _running)

    def report(self, report: Report) -> None:
        """Record the report of a job without a streaming query."""
        now = time.monotonic()

        def change(old: JobProgress) -> JobProgress:
            then, rows = self._clocks.get(report.job, (now, 0))
            self._clocks[report.job] = (now, report.rows)
            rate = (report.rows - rows) / (now - then) if now > then else old.rate
            return replace(old, rows=report.rows, rate=rate, text=report.text)

        self._update(report.job, change)

    def add_batch(self, job: str, query: str, progress: Any) -> None:
        """Record Spark's progress of a query's batch (StreamingQueryProgress)."""
        lag = lag_of(progress)
        rows = int(progress.numInputRows)
        seconds = max(float(progress.batchDuration or 0) / 1000, 0.001)

        def change(old: JobProgress) -> JobProgress:
            old = _running(old)
            lags = self._lags.setdefault(job, {})
            lags[query] = lag.behind if lag else {}
            together: dict[str, int] = {}
            for one in lags.values():  # several queries of a job read the same stream: the slowest counts
                for stream, behind in one.items():
                    together[stream] = max(behind, together.get(stream, 0))
            # They also read the same messages, so only the first query counts rows.
            if next(iter(lags)) != query:
                return replace(old, lag=together)
            rate = old.rate + _SMOOTHING * (rows / seconds - old.rate) if old.batches else rows / seconds
            return replace(
                old,
                rows=old.rows + rows,
                batches=old.batches + 1,
                rate=rate if rows else old.rate,
                lag=together,
            )

        self._update(job, change)

    def _update(self, job: str, change: Callable[[JobProgress], JobProgress]) -> None:
        with self._lock:
            if job not in self._jobs:
                return
            self._jobs[job] = changed = change(self._jobs[job])
        self._changed(changed)


def _running(old: JobProgress) -> JobProgress:
    """Return the progress, with a starting job marked as running."""
    return replace(old, state=State.RUNNING, text="") if old.state is State.STARTING else old


class BatchListener(StreamingQueryListener):
    """Forwards the progress of one job's queries, and that they run without data."""

    def __init__(self, on_batch: Callable[[str, Any], None], on_idle: Callable[[], None]) -> None:
        self._on_batch = on_batch
        self._on_idle = on_idle

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        self._on_batch(event.progress.name or "", event.progress)

    def onQueryIdle(self, event: Any) -> None:
        self._on_idle()

    def onQueryTerminated(self, event: Any) -> None: ...
