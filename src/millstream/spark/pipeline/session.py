"""Start the Spark session that the jobs of a pipeline share, with settings that suit streams.

All settings here are defaults: `[spark.conf]` in the file wins.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from millstream.spark.errors import JavaMissing, SparkError
from millstream.spark.jobs.context import explain
from millstream.spark.jobs.settings import Pipeline
from millstream.spark.pipeline.spark_log import SparkLog

_FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_LEAST_JAVA: Final = 17
_GET_JAVA: Final = "install it (Debian: openjdk-17-jre-headless), or set JAVA_HOME to where it is"
_WORKER_PYTHON: Final = Path(__file__).with_name("worker_python")
_PRESETS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",  # a replay of hours does not delay the batches of other jobs
    "spark.python.worker.reuse": "true",
    "spark.python.authenticate.socketTimeout": "2m",  # the default of 15 s is too short on a busy machine
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Rows of a batch are in sequence order, and stay so if there is a writer for each day at the same
    # time.
    "spark.sql.maxConcurrentOutputFileWriters": "32",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
}


def session_settings(pipeline: Pipeline, master: str | None, cores: int) -> dict[str, str]:
    """Return the settings of the session."""
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


def make_session(
    pipeline: Pipeline, master: str | None, modules: Path | None = None, log: SparkLog | None = None
) -> SparkSession:
    """Start Spark, or raise JavaMissing.

    Python functions of the file may be imported from the folder `modules`.  `log` receives Spark's output,
    which otherwise goes to ours.
    """
    settings = session_settings(pipeline, master, os.cpu_count() or 2)
    use_this_python(settings["spark.master"])
    if modules is not None:
        folder = str(modules.absolute())
        sys.path.insert(0, folder)
        others = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{others}" if others else folder
    builder: Any = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    if log is not None:
        log.quieten_python()
    session = start_spark(builder, log)
    session.sparkContext.setLogLevel("ERROR")
    return session


def use_this_python(master: str) -> None:
    """Make Spark's workers run this Python, not any `python3` on the path without this package."""
    for name, value in python_environment(master).items():
        if name.startswith("MILLSTREAM_"):
            os.environ[name] = value
        else:
            os.environ.setdefault(name, value)


def python_environment(master: str) -> dict[str, str]:
    """Return the environment variables that name this Python to Spark.

    Workers on this machine run it through `worker_python`, which starts in a third of the time.  Spark uses
    the driver's Python for data sources that it finds by itself.
    """
    ours = (
        master.startswith("local") and "SPARK_HOME" not in os.environ and os.access(_WORKER_PYTHON, os.X_OK)
    )
    python = str(_WORKER_PYTHON) if ours else sys.executable
    return {
        "MILLSTREAM_WORKER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
    }


def start_spark(builder: Any, log: SparkLog | None = None) -> SparkSession:
    """Return the builder's session; raise JavaMissing, or SparkError with Spark's reason."""
    java = require_java()
    try:
        with log.taking_output() if log is not None else contextlib.nullcontext():
            session: SparkSession = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        if not isinstance(error, PySparkRuntimeError) or error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise SparkError(f"Spark did not start: {explain(error)}") from error
        words = log.last_words() if log is not None else "see what it printed"
        raise JavaMissing(f"{java} ended before Spark ran: {words}") from None
    return session


def require_java() -> str:
    """Return the Java that Spark's own scripts would use; raise JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        place = f" in JAVA_HOME, which is {home}" if home else ""
        raise JavaMissing(f"Spark needs Java 17 or later, and there is none{place}; {_GET_JAVA}")
    version = _java_version(java)
    if not _is_recent(version):
        raise JavaMissing(f"Spark needs Java 17 or later, and {java} is {version}; {_GET_JAVA}")
    return java


def _java_version(java: str) -> str:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not usable ({error})"
    return next(iter((told.stderr + told.stdout).splitlines()), "silent about its version")


def _is_recent(version: str) -> bool:
    """Return False if the first line of `java -version` shows a Java that is too old for Spark."""
    found = re.search(r'version "(\d+)', version)
    return found is None or int(found[1]) >= _LEAST_JAVA


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
