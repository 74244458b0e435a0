"""Programs of others that cannot be in the environment of the tests: each in a folder of its own.

`make engines` installs them below the environment, which has another DuckDB and other packages of its own.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.kits.paths import ROOT

FOLDER: Final = Path(sys.prefix) / "engines"


def run(engine: str, script: str, *arguments: str) -> str:
    """Return the output of a script of this package that runs with an engine; skip without the engine."""
    place = FOLDER / engine
    if not place.is_dir():
        pytest.skip(f"{place} is missing: `make engines` installs it")
    paths = os.pathsep.join([str(place), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", f"tests.kits.engines.{script}", *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
