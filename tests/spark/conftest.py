"""A server with streams for each test, and one Spark session for all that need one."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from source_kit import Lab

from millrace.spark.connecting import close_idle_links
from millrace.testing.reference import ServerKind, ServerProcess


@pytest.fixture(autouse=True)
def _no_links_left() -> Iterator[None]:
    """What a worker of Spark keeps for its next task must not outlive a test."""
    yield
    close_idle_links()


@pytest.fixture
def lab(shared_server: Callable[..., ServerProcess]) -> Iterator[Lab]:
    """Streams on a server that others use too."""
    lab = Lab(shared_server(jetstream=True))
    yield lab
    lab.close()


@pytest.fixture
def millrace_lab(_server_pool: Any) -> Iterator[Lab]:
    """The same on Millrace alone, for what does not depend on the server."""
    lab = Lab(_server_pool.get(ServerKind.MILLRACE, jetstream=True))
    yield lab
    lab.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One JVM for all tests; it is started when the first asks for it."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers would use any python3
    session = (
        SparkSession.builder.master("local[2]")
        .appName("millrace tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
