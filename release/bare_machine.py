"""Install a wheel on a machine without a compiler, and use it there: ``python -m release.bare_machine``.

The machine is a folder that has this Python, the shared libraries that it needs and nothing else: no
compiler, no header, no shell.  It is the root of processes in namespaces of their own, which any user may
make on most systems.  There pip installs the wheel from ``dist`` with what it depends on, and
:mod:`release.smoke` starts a server, publishes, consumes and opens the dashboard.  Every step is timed, also
in seconds of a core, which other programs on this machine do not change.

Needs Linux, ``unshare``, and a Python with ``venv`` and ``ensurepip``.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FROM_THIS_MACHINE: Final = ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf")
DEVICES: Final = ("null", "random", "urandom", "zero")
# By every wheel for manylinux: the C library has had most of these within itself since 2.34.
ASSUMED: Final = (
    "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1", "libstdc++.so.6",
    "libutil.so.1",
)  # fmt: skip
NOT_BARE: Final = re.compile(r"(.*-)?(cc|c\+\+|gcc|g\+\+|clang|tcc|ld|as|make|sh|bash|dash)(-[\d.]+)?")
# How pip reaches an index here.
PASSED_ON: Final = (
    "HTTPS_PROXY",
    "PIP_CERT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "https_proxy",
    "no_proxy",
)


def copy(path: str | Path, root: Path) -> None:
    """Copy a file of this machine to its place below ``root``."""
    target = root / str(path).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy2(path, target)


def libraries(*programs: Path) -> set[str]:
    """Return the shared libraries that programs and modules need, with the loader."""
    shown = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", shown, re.MULTILINE))


def make_root(root: Path) -> Path:
    """Make the machine in a folder, and return the path of Python on it."""
    prefix = Path(sys.base_prefix)
    python = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib"))
    left_out = shutil.ignore_patterns("config-*", "site-packages", "test", "__pycache__", "idlelib")
    shutil.copytree(standard, root / str(standard).lstrip("/"), ignore=left_out, symlinks=True)
    needed = libraries(python, *(standard / "lib-dynload").glob("*.so"))
    needed |= {str(path) for path in prefix.glob("lib/libpython3*.so*")}
    folders = {str(Path(path).parent) for path in needed}
    needed |= {f"{folder}/{name}" for folder in folders for name in ASSUMED if Path(folder, name).exists()}
    for path in (str(python), *needed, *FROM_THIS_MACHINE):
        if Path(path).exists():
            copy(path, root)
    certificates = os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt")
    if Path(certificates).exists():
        copy(certificates, root)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/none\n")
    for name in ("dev", "proc", "root", "tmp"):
        (root / name).mkdir(exist_ok=True)
    for name in DEVICES:
        (root / "dev" / name).touch()
    return python


def newest_wheel() -> Path:
    """Return the newest wheel in ``dist`` for this Python."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    found = sorted((ROOT / "dist").glob(f"millstream-*-{tag}-*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit(f"there is no wheel for {tag} in dist: run `make dist`, or name a wheel")
    return found[-1]


def enter(root: Path, command: list[str]) -> int:
    """Run a command with ``root`` as its root, and return its exit code."""
    mounts = [f"mount --bind /dev/{name} {shlex.quote(str(root / 'dev' / name))}" for name in DEVICES]
    mounts.append(f"mount -t proc proc {shlex.quote(str(root / 'proc'))}")
    script = " && ".join([*mounts, f"exec chroot {shlex.quote(str(root))} {shlex.join(command)}"])
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", script],
        env=environment | {"HOME": "/root", "PATH": os.environ["PATH"], "PIP_NO_CACHE_DIR": "1"},
        check=False,
    ).returncode


def files_here() -> Iterator[Path]:
    """Return all files of the machine, without those of the kernel."""
    for folder, folders, files in os.walk("/"):
        if folder == "/":
            folders.remove("proc")
        yield from (Path(folder, name) for name in files)


def inside(wheel: str) -> None:
    """Install and use the wheel; runs on the bare machine."""
    found = [str(path) for path in files_here() if path.suffix == ".h" or NOT_BARE.fullmatch(path.name)]
    assert not found, f"this machine is not bare: it has {found[:5]}"
    steps = {
        "make an environment": [sys.executable, "-m", "venv", "/env"],
        "pip install": [
            "/env/bin/pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            f"{wheel}[gateway]",
        ],
        "serve, publish, consume, dashboard": ["/env/bin/python", "-I", "/smoke.py", "gateway"],
    }
    began = os.times()
    for name, command in steps.items():
        start = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(line(name, start), flush=True)
    print(line("together", began))


def line(name: str, start: os.times_result) -> str:
    """Return the line of a step: how long it took, and what its processes used of a core."""
    now = os.times()
    used = now.children_user + now.children_system - start.children_user - start.children_system
    return f"{name:36} {now.elapsed - start.elapsed:5.1f} s   {used:5.1f} s of a core"


def main() -> int:
    """Make the machine and enter it, or work on it; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m release.bare_machine", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "wheel", nargs="?", type=Path, help="the newest one in dist for this Python otherwise"
    )
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside)
        return 0
    wheel = given.wheel or newest_wheel()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        python = make_root(root)
        for path in (wheel, ROOT / "release" / "smoke.py", Path(__file__)):
            shutil.copy2(path, root / path.name)
        print(f"{wheel.name} on a machine with Python {sys.version.split()[0]} and nothing else", flush=True)
        return enter(root, [str(python), "-I", f"/{Path(__file__).name}", "--inside", f"/{wheel.name}"])


if __name__ == "__main__":
    sys.exit(main())
