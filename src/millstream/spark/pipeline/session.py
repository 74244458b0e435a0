"""The Spark session that the jobs of a pipeline share, with settings that suit streams.

Everything here is a default: what the file says in `[spark.conf]` wins.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from millstream.spark.errors import JavaMissing
from millstream.spark.jobs.settings import Pipeline

_FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_GET_JAVA: Final = "install it (Debian: openjdk-17-jre-headless), or set JAVA_HOME to where it is"
_PRESETS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",  # a replay of hours does not hold up the batches of other jobs
    "spark.python.worker.reuse": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Rows of a batch are in the order of sequences; with writers for each day side by side they stay in it.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
}


def session_settings(pipeline: Pipeline, master: str | None, cores: int) -> dict[str, str]:
    """The settings of the session, by name."""
    chosen = master or pipeline.spark.master
    settings = {
        "spark.master": chosen,
        "spark.app.name": pipeline.name,
        # The default of 200 costs seconds for each batch of an aggregation.
        "spark.sql.shuffle.partitions": str(cores),
        **_PRESETS,
    }
    settings.update((name, _text(value)) for name, value in pipeline.spark.conf.items())
    return settings


def make_session(pipeline: Pipeline, master: str | None, modules: Path | None = None) -> SparkSession:
    """Start Spark, or raise JavaMissing.

    `modules` is a folder that Python functions of the file may be imported from.
    """
    use_this_python()
    if modules is not None:
        folder = str(modules.absolute())
        sys.path.insert(0, folder)
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{others}" if others else folder
    builder: Any = SparkSession.builder
    for name, value in session_settings(pipeline, master, os.cpu_count() or 2).items():
        builder = builder.config(name, value)
    session = start_spark(builder)
    session.sparkContext.setLogLevel("ERROR")
    return session


def use_this_python() -> None:
    """Let Spark's workers run this Python, not any `python3` on the path, which may know nothing of us."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def start_spark(builder: Any) -> SparkSession:
    """Return the builder's session; raise JavaMissing where Spark finds no Java that it can run on."""
    java = _java()
    if java is None:
        raise JavaMissing(f"Spark needs Java 17 or later, and there is none: {_GET_JAVA}")
    try:
        session: SparkSession = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise JavaMissing(
            f"Spark needs Java 17 or later; {java} is {_java_version(java)}: {_GET_JAVA}"
        ) from None
    return session


def _java() -> str | None:
    """Return the Java that Spark's own scripts would take."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")


def _java_version(java: str) -> str:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not usable ({error})"
    return next(iter((told.stderr + told.stdout).splitlines()), "silent about its version")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
