"""Where kits of other folders are, and what all tests here need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits.spark.deaths import Driver, MakeDriver


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
