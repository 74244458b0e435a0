"""Tables in a Glue catalog: commits of two writers at once, and a catalog that does not answer."""

import json
from pathlib import Path

import pytest

from tests.kits.engines.installed import run

pytestmark = pytest.mark.soak


def test_two_writers_fill_a_table_in_glue(tmp_path: Path) -> None:
    found = json.loads(run("moto", "glue_writers", str(tmp_path / "lake"), "5"))
    assert found["sequences"] == sorted([*range(1, 51), *range(1, 51)])
    assert found["batches"] == {"one": 4, "two": 4}
    assert found["error"] == "LakeUnavailable"  # so that a job waits for it
    assert found["text"].startswith("catalog aws does not answer: Could not connect to the endpoint URL")
