"""The environment of a job: a Spark session, the connection, a place for its state, a request to stop.

A job is a function `run(context, settings)` that returns when it is done or has been stopped.  Jobs of one
pipeline run in threads of one driver; `stopping` is set once for all of them.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.spark.jobs.errors import JobError
from millstream.spark.jobs.watermarks import interval

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

ONCE: Final = "once"
_POLL_S: Final = 0.2
_DEEPEST: Final = 20  # length of a chain of causes
# Our own errors arrive as text inside other text after crossing Python, the JVM and back.
_OUR_ERROR: Final = re.compile(r"^(?:\w+: )*millstream\.[\w.]+\.[A-Z]\w*: (?P<text>.+)$", re.MULTILINE)
# The last line of the traceback of any other error.
_PYTHON_ERROR: Final = re.compile(
    r"^(?:\w+: )*(?P<text>(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): .+)$", re.MULTILINE
)
_NAME: Final = re.compile(r"^\[[A-Z_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+;?")
_CONDITION: Final = re.compile(r"\[[A-Z_]+(?:\.[A-Z_]+)*\][^\n]*")


@dataclass(frozen=True, slots=True)
class Report:
    """The progress of a job without a streaming query."""

    job: str
    rows: int
    text: str = ""


@dataclass
class JobContext:
    """The environment of one job."""

    spark: SparkSession
    name: str
    nats: Mapping[str, str]  # the data source's options `nats.*`
    checkpoint: str = ""
    stopping: threading.Event = field(default_factory=threading.Event)
    report: Callable[[Report], None] = lambda report: None
    stop_timeout_s: float = 30.0
    catalog_settings: CatalogSettings = field(default_factory=CatalogSettings)

    def catalog(self, *, create: bool = False) -> "Catalog":
        """Return the catalog of Iceberg tables; with `create`, a new one if there is none in its folder."""
        return open_catalog(self.catalog_settings, create=create)

    def say(self, rows: int, text: str = "") -> None:
        self.report(Report(self.name, rows, text))

    def follow(self, *queries: StreamingQuery, between: Callable[[], None] = lambda: None) -> None:
        """Return when the queries have ended.  If one failed, end the others and raise its error.

        `between` is called from time to time and once at the end.
        """
        try:
            while any(query.isActive for query in queries):
                _raise_failure(queries)
                if self.stopping.wait(_POLL_S):
                    break
                between()
        finally:
            for query in queries:
                end_query(query, self.stop_timeout_s)
        _raise_failure(queries)
        between()


@contextlib.contextmanager
def started_together() -> Iterator[list[StreamingQuery]]:
    """Yield a list for the queries of a job; if starting one fails, stop those in the list."""
    queries: list[StreamingQuery] = []
    try:
        yield queries
    except BaseException:
        for query in queries:
            query.stop()
        raise


def trigger(writer: DataStreamWriter, text: str) -> DataStreamWriter:
    """Set the trigger of a query from a job's settings."""
    if text == ONCE:
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=interval("trigger", text))


def end_query(query: StreamingQuery, timeout_s: float) -> None:
    """Stop a query after its current batch, or in the middle of it after the timeout."""
    waited = threading.Event()
    left = int(timeout_s / _POLL_S)
    running = _last_batch(query)
    # A query with a backlog begins the next batch at once; that batch has done nothing yet and may be cut
    # off.
    while (
        query.isActive and left > 0 and query.status.get("isTriggerActive") and _last_batch(query) == running
    ):
        waited.wait(_POLL_S)
        left -= 1
    query.stop()


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return int(progress.batchId) if progress else -1


def explain(error: BaseException) -> str:
    """Return one or two lines with the cause of an error that came through Spark."""
    text = _java_text(error) or str(error)
    ours = _OUR_ERROR.findall(text)
    if ours:
        return str(ours[-1]).strip()
    python = _PYTHON_ERROR.findall(text) if "Traceback" in text else []
    if python:
        return str(python[-1]).strip()
    condition = _CONDITION.search(text) if isinstance(error, PySparkException) else None
    if condition:
        return plain(condition[0])
    lines = [line for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).strip()


def plain(text: str) -> str:
    """Return Spark's message without the names and numbers of its errors."""
    return _STATE.sub("", _NAME.sub("", text.strip())).strip()


def _java_text(error: BaseException) -> str:
    """Return the JVM's text of an error that is not Spark's own; py4j's only says where it was called."""
    found = getattr(error, "java_exception", None)
    lines: list[str] = []
    while found is not None and len(lines) < _DEEPEST:
        misfit = "a jar is not for this version of Spark: " if _is_misfit(found) else ""
        lines.append(misfit + str(found.getMessage() or found.toString()))
        found = found.getCause()
    return "\n".join(reversed(lines))  # the deepest cause is the most specific


def _is_misfit(found: Any) -> bool:
    """Return True if a class was compiled against other versions of its dependencies."""
    kind = found.getClass()
    while kind is not None and kind.getName() != "java.lang.LinkageError":
        kind = kind.getSuperclass()
    return kind is not None


def _raise_failure(queries: tuple[StreamingQuery, ...]) -> None:
    for query in queries:
        failure = query.exception()
        if failure is not None:
            raise JobError(explain(failure)) from failure
