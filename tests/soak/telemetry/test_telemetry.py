"""`python -m examples.telemetry`, small: every reading once in the tables, and a plot at the end."""

import subprocess
import sys
from pathlib import Path

import pytest

from millstream.lake.catalog import CatalogSettings, open_catalog
from tests.kits.paths import ROOT

pytestmark = [pytest.mark.timeout(1200), pytest.mark.soak]

READINGS = 60  # of each device: ten minutes


def test_the_example_runs_with_one_command(tmp_path: Path) -> None:
    folder = tmp_path / "telemetry"
    command = [
        sys.executable,
        "-m",
        "examples.telemetry",
        "--readings",
        str(READINGS),
        "--folder",
        str(folder),
    ]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"{3 * READINGS} readings of 3 devices, in the stream and its archive" in ran.stdout
    lines = ran.stdout.splitlines()[-3:]
    assert [line.split()[:2] for line in lines] == [
        ["cellar", "boiler"],
        ["kitchen", "freezer"],
        ["kitchen", "oven"],
    ]
    catalog = open_catalog(CatalogSettings(warehouse=str(folder / "lake")))
    readings = catalog.load_table("plant.readings").scan().to_arrow()
    assert sorted(readings.column("seq").to_pylist()) == list(range(1, 3 * READINGS + 1))
    minutes = catalog.load_table("plant.minutes").scan().to_arrow().to_pylist()
    assert {(row["name"], row["minute"].minute) for row in minutes} == {
        (name, minute) for name in ("boiler", "freezer", "oven") for minute in range(8)
    }
    assert all(row["readings"] == 6 for row in minutes)
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert again.returncode == 2
    assert "has data of an earlier run" in again.stderr
