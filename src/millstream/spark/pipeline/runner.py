"""Run the jobs of a pipeline, each in its own thread and Spark session, on one Spark.

A job starts when those named in `after` are done and the one before it in the file has started to work:
Spark gives each new Python process ten seconds, and on a small machine several that start at once exceed
that.  A job with a temporary failure (`restarts`) is restarted after a pause.  Any other failure stops all
jobs; so does `stop`, which a signal calls.  Stopping waits for running batches, up to `stop_timeout`; a batch
that is cut off is repeated by the next run, from the checkpoints, with the same result.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from millstream.base.errors import MillstreamError
from millstream.lake.catalog import CatalogSettings
from millstream.spark import option_values
from millstream.spark.jobs import analytics, archive, compact, deadletters, redrive, replay, transform, verify
from millstream.spark.jobs.admin import StreamAdmin
from millstream.spark.jobs.context import JobContext, explain
from millstream.spark.jobs.settings import (
    Analytics,
    AnyJob,
    Archive,
    CatalogSection,
    Compact,
    DeadLetters,
    Job,
    Pipeline,
    Redrive,
    Replay,
    StreamingJob,
    Transform,
    Verify,
)
from millstream.spark.pipeline.check import checkpoint_of
from millstream.spark.pipeline.progress import BatchListener, JobProgress, ProgressBoard, State
from millstream.spark.pipeline.restarts import PAUSES_S, passing_cause
from millstream.spark.source import JetStreamDataSource

_RUN: Final[dict[type[Job], Callable[[JobContext, Any], str]]] = {
    Analytics: analytics.run,
    Archive: archive.run,
    Compact: compact.run,
    DeadLetters: deadletters.run,
    Redrive: redrive.run,
    Replay: replay.run,
    Transform: transform.run,
    Verify: verify.run,
}

_TURN_S: Final = 20.0  # the longest wait for the previous job to start


@dataclass(frozen=True)
class Failure:
    """The reason why a job failed."""

    job: str
    text: str
    error: BaseException


class PipelineRun:
    """One run of a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        nats: Mapping[str, str],
    ) -> None:
        self.on_change: Callable[[JobProgress], None] = lambda progress: None
        self.failures: list[Failure] = []
        self._pipeline = pipeline
        self._spark = spark
        self._nats = nats
        self.board = ProgressBoard(self._on_change)
        self._stopping = threading.Event()
        self._ended = {job.name: threading.Event() for job in pipeline.job}
        self._begun = {job.name: threading.Event() for job in pipeline.job}  # set once Spark reported the job
        self._done: set[str] = set()
        self._admin: StreamAdmin | None = None
        self._publishing = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run_job, args=(job,), name=f"job-{job.name}")
            for job in pipeline.job
        ]
        for job in pipeline.job:
            self.board.add(job.name, str(job.__struct_config__.tag))

    def start(self) -> None:
        if self._pipeline.progress.subject:
            self._admin = StreamAdmin(self._nats, f"{self._pipeline.name}/progress", patience_s=1)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask every job to end; return at once."""
        self._stopping.set()

    @property
    def running(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when all jobs have ended, or after the timeout."""
        waited = threading.Event()
        left = timeout_s
        cancelled = False
        while self.running and (left is None or left > 0):
            if self._stopping.is_set() and not cancelled:
                self._cancel()
                cancelled = True
            step = 0.2 if left is None else min(0.2, left)
            waited.wait(step)
            left = None if left is None else left - step
        if not self.running and self._admin is not None:
            self._admin.close()
            self._admin = None

    def _run_job(self, job: AnyJob) -> None:
        try:
            if not self._wait_for(job):
                self.board.set_state(job.name, State.STOPPED)
                return
            self._wait_for_turn(job)
            text = self._work(job)
            stopped = self._stopping.is_set()
            self.board.set_state(job.name, State.STOPPED if stopped else State.DONE, text)
            if not stopped:
                self._done.add(job.name)
        except Exception as error:
            self._fail(job, error)
        finally:
            self._begun[job.name].set()
            self._ended[job.name].set()

    def _wait_for_turn(self, job: AnyJob) -> None:
        """Wait until the previous streaming job has started, or for a limited time: it may have no data."""
        before = [each.name for each in self._pipeline.job if isinstance(each, StreamingJob)]
        if job.name not in before[1:]:
            return
        deadline = time.monotonic() + _TURN_S
        begun = self._begun[before[before.index(job.name) - 1]]
        while not begun.wait(0.1) and time.monotonic() < deadline and not self._stopping.is_set():
            pass

    def _work(self, job: AnyJob) -> str:
        """Run the job; restart it after temporary failures."""
        failed = batches = 0
        while True:
            # A streaming job is running when Spark has reported it for the first time.
            begins = State.STARTING if isinstance(job, StreamingJob) else State.RUNNING
            self.board.set_state(job.name, begins)
            try:
                return _RUN[type(job)](self._context(job), job)
            except Exception as error:
                done = self.board.batches(job.name)
                failed = failed + 1 if done == batches else 1
                batches = done
                cause = passing_cause(error, worked=batches > 0)
                if not cause or failed > len(PAUSES_S) or self._stopping.is_set():
                    raise
            pause = PAUSES_S[failed - 1]
            self.board.set_state(job.name, State.STARTING, f"starts again in {pause} s: {cause}")
            if self._stopping.wait(pause):
                return ""

    def _wait_for(self, job: AnyJob) -> bool:
        """Wait for the jobs in `after`; return False if this job must not run."""
        for name in job.after:
            while not self._ended[name].wait(0.1):
                if self._stopping.is_set():
                    return False
            if name not in self._done:
                return False
        return not self._stopping.is_set()

    def _context(self, job: AnyJob) -> JobContext:
        session = self._spark.newSession()
        _make_active(session)
        # Spark would find the source by itself, unless another package that offers a source is broken.
        session.dataSource.register(JetStreamDataSource)
        context = session.sparkContext
        context.setLocalProperty("spark.scheduler.pool", job.name)
        context.setJobGroup(job.name, f"millstream pipeline job {job.name}", interruptOnCancel=True)
        if isinstance(job, StreamingJob):
            checkpoint = checkpoint_of(self._pipeline, job)
            session.streams.addListener(
                BatchListener(
                    lambda query, progress: self.board.add_batch(job.name, query, progress),
                    lambda: self.board.begin(job.name),
                )
            )
        else:
            root = self._pipeline.checkpoint.rstrip("/")
            checkpoint = f"{root}/{job.name}" if root else ""
        return JobContext(
            spark=session,
            name=job.name,
            nats=self._nats,
            checkpoint=checkpoint,
            stopping=self._stopping,
            report=self.board.report,
            stop_timeout_s=option_values.duration("stop_timeout", self._pipeline.stop_timeout),
            catalog_settings=catalog_settings(self._pipeline.catalog),
        )

    def _cancel(self) -> None:
        """Cut off the work of jobs without streaming queries; streaming queries end after their batch."""
        for job in self._pipeline.job:
            if not isinstance(job, StreamingJob) and not self._ended[job.name].is_set():
                self._spark.sparkContext.cancelJobGroup(job.name)

    def _fail(self, job: AnyJob, error: Exception) -> None:
        # Work that was cut off looks like a failure of Spark; only our own errors are real ones.
        if self._stopping.is_set() and not isinstance(error, MillstreamError):
            self.board.set_state(job.name, State.STOPPED)
            return
        text = str(error) if isinstance(error, MillstreamError) else explain(error)
        self.failures.append(Failure(job.name, text, error))
        self.board.set_state(job.name, State.FAILED, text)
        self._stopping.set()

    def _on_change(self, progress: JobProgress) -> None:
        if progress.state is not State.WAITING and progress.state is not State.STARTING:
            self._begun[progress.job].set()
        self.on_change(progress)
        admin, subject = self._admin, self._pipeline.progress.subject
        if admin is not None:
            # Ignore a failed report: the next one contains more, and the work does not depend on it.
            with self._publishing, contextlib.suppress(MillstreamError):
                admin.publish(subject, json.dumps(progress.as_json()).encode())


def catalog_settings(section: CatalogSection) -> CatalogSettings:
    """Return the settings of the catalog in a pipeline file."""
    return CatalogSettings(section.name, section.warehouse, section.type, section.uri, section.properties)


def _make_active(session: SparkSession) -> None:
    """Make the session the thread's active one, where Spark looks for Python sinks."""
    jvm = session._jvm
    assert jvm is not None
    SparkSession._get_j_spark_session_class(jvm).setActiveSession(session._jsparkSession)
