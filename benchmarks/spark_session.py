"""The Spark that the rows of `spark` run in, and what its processes use.

One JVM for all rows, warmed by every one of them before the clock starts.  The settings that matter are in
`SETTINGS` and printed with the figures: everything else is Spark's default.  Python workers are children of
the JVM; their processor time is told apart from its own: ours is in the workers, Spark's is in both.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark_baselines import BASELINES
from millstream.spark.source import JetStreamDataSource

SETTINGS: Final[dict[str, str]] = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",  # instead of TCP between JVM and workers
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_QUIET: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_ROOT: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time so far, in seconds."""

    jvm: float
    workers: float

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(self.jvm - other.jvm, self.workers - other.workers)


class Spark:
    """A session, a folder that goes with it, and its processes."""

    def __init__(self, session: Any, folder: Path) -> None:
        self.session: Any = session
        self.folder = folder
        self._pid: int = session.sparkContext._gateway.proc.pid
        self._targets = 0

    def fresh_folder(self) -> str:
        self._targets += 1
        return str(self.folder / f"target-{self._targets}")

    def usage(self) -> Usage:
        times = process_times(self._pid)
        return Usage(times.pop(self._pid), sum(times.values()))


@contextmanager
def started(settings: dict[str, str] = SETTINGS) -> Iterator[Spark]:
    """A session with these settings; the JVM ends with it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    others = os.environ.get("PYTHONPATH")
    # Workers import the baselines from here.
    os.environ["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{others}" if others else str(_ROOT)
    with tempfile.TemporaryDirectory(prefix="millstream-bench-", ignore_cleanup_errors=True) as name:
        builder: Any = SparkSession.builder.appName("millstream benchmarks")
        local = {"spark.local.dir": f"{name}/local", "spark.sql.warehouse.dir": f"{name}/warehouse"}
        for key, value in {**settings, **_QUIET, **local}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        try:
            session.sparkContext.setLogLevel("OFF")
            for source in (JetStreamDataSource, *BASELINES):
                session.dataSource.register(source)
            yield Spark(session, Path(name))
        finally:
            session.stop()


def to_noop(table: DataFrame, folder: str) -> None:
    table.write.format("noop").mode("overwrite").save()


def to_parquet(table: DataFrame, folder: str) -> None:
    table.write.parquet(folder)


def process_times(root: int) -> dict[int, float]:
    """Processor time of a process and all below it, with what their own dead children used."""
    return {
        pid: sum(int(fields[i]) for i in ((11, 12) if pid == root else (11, 12, 13, 14))) / _TICKS
        for pid, fields in _family(root).items()
    }


def process_memory(root: int) -> dict[int, float]:
    """Memory in RAM, in MiB, of a process and all below it; what they share is divided between them.

    Workers are forked, so the sum of what each of them sees would count most of it several times.
    """
    found: dict[int, float] = {}
    for pid in _family(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        found[pid] = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return found


def _family(root: int) -> dict[int, list[str]]:
    """The fields of /proc/PID/stat behind the name, of a process and all its descendants."""
    found: dict[int, list[str]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                text = (path / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
            found[int(path.name)] = text.rpartition(")")[2].split()
    family = {root: found[root]} if root in found else {}
    size = 0
    while size != len(family):
        size = len(family)
        family |= {pid: fields for pid, fields in found.items() if int(fields[1]) in family}
    return family
