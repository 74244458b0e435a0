"""Where kits of other folders are, and what all tests here need."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent.parent / "client"))  # cluster_kit

from death_kit import Driver, MakeDriver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[MakeDriver]:
    """Make drivers, each in a folder of its own; none outlives the test."""
    made: list[Driver] = []

    def make(url: str, target: str, **options: object) -> Driver:
        folder = tmp_path / f"driver{len(made)}"
        folder.mkdir()
        made.append(Driver(folder, url, target, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.kill()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session in this process, for tests that look at what a user is told."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
