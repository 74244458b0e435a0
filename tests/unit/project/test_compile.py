"""Killed builds leave nothing that the next `make build` takes for finished."""

import contextlib
import importlib.machinery
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.base.build import pure_requested
from tests.kits.paths import ROOT
from tests.kits.patience import PATIENCE_S
from tests.kits.server.monitor import eventually

pytestmark = pytest.mark.skipif(pure_requested(), reason="nothing is compiled for the interpreted build")

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
# A compiler that writes half of a module, and kills the build.
DEADLY = f"""#!{sys.executable}
import os, signal, sys
if "-shared" in sys.argv:
    with open(sys.argv[sys.argv.index("-o") + 1], "wb") as module:
        module.write(b"half a module")
    os.kill(os.getppid(), signal.SIGKILL)
else:
    os.execvp("gcc", ["gcc", *sys.argv[1:]])
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package of one compiled module, with our `setup.py`."""
    base = tmp_path / "src/millstream/base"
    base.mkdir(parents=True)
    shutil.copy(ROOT / "setup.py", tmp_path)
    (tmp_path / "src/tiny.py").write_text("ANSWER = 42\n")
    (base / "build.py").write_text("PURE_SWITCH = 'NONE'\nX86_MODULES = ()\nCOMPILED_MODULES = ('tiny',)\n")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "tiny"\nversion = "1"\n'
        '[tool.setuptools]\npackage-dir = {"" = "src"}\npy-modules = []\n'
    )
    deadly = tmp_path / "deadly-gcc"
    deadly.write_text(DEADLY)
    deadly.chmod(0o755)
    return tmp_path


def build(project: Path, **environment: str) -> int:
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    return subprocess.run(
        command, cwd=project, env={**os.environ, **environment}, timeout=PATIENCE_S, check=False
    ).returncode


def processes_in(folder: Path) -> list[str]:
    """Return the ids of processes whose working folder this is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if (process / "cwd").readlink() == folder:
                found.append(process.name)
    return found


def test_a_build_that_is_killed_leaves_no_part_of_a_file(project: Path) -> None:
    assert build(project, CC=str(project / "deadly-gcc")) == -signal.SIGKILL
    eventually(lambda: not processes_in(project))
    assert not list(project.rglob(f"*{SUFFIX}"))
    [translation] = project.rglob("tiny.c")
    whole = translation.read_bytes()
    translation.write_bytes(whole[: len(whole) // 2])  # as if Cython had been killed, too
    assert build(project) == 0
    found = "import tiny; print(tiny.__file__, tiny.ANSWER)"
    done = subprocess.run(
        [sys.executable, "-c", found],
        cwd=project / "src",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.split() == [str(project / f"src/tiny{SUFFIX}"), "42"]
    assert not list(project.rglob("*.unfinished"))
