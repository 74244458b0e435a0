"""The project has one name: the name it had before occurs nowhere."""

import subprocess
from pathlib import Path

import pytest

from tests.kits.paths import ROOT
from tests.kits.patience import PATIENCE_S

OLD_NAME = ("mill" + "race").encode()


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_the_old_name_is_in_no_file_and_no_path() -> None:
    paths = [path for path in tracked_files() if path.is_file()]
    assert len(paths) > 1000
    named = [path for path in paths if OLD_NAME in str(path.relative_to(ROOT)).lower().encode()]
    assert named == []
    assert [path for path in paths if OLD_NAME in path.read_bytes().lower()] == []
