"""Folders of other programs, and a photograph of a folder that shows every change."""

from __future__ import annotations

import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.kits.paths import GOLDEN
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

STORES = sorted((GOLDEN / "foreign_stores").glob("*.tar.xz"))
LONG_AGO_NS = 1_600_000_000_000_000_000

Photograph = dict[str, tuple[object, ...]]


def photograph(folder: Path) -> Photograph:
    """Every name in a folder with its kind, mode, time and content; links are not followed."""
    taken: Photograph = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        about = path.lstat()
        if stat.S_ISLNK(about.st_mode):
            content: object = os.readlink(path)
        elif stat.S_ISREG(about.st_mode):
            content = path.read_bytes()
        else:
            content = None
        taken[str(path.relative_to(folder))] = (
            stat.S_IFMT(about.st_mode),
            about.st_mode,
            about.st_mtime_ns,
            content,
        )
    return taken


def nats_server_store(archive: Path) -> Callable[[Path], None]:
    """Return what makes a folder a store directory that a nats-server has left."""

    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")

    return make


def _files(*names: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"what {name} holds\n")
            os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))

    return make


def _empty(folder: Path) -> None:
    folder.mkdir(parents=True)


def _git(folder: Path) -> None:
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "README.md").write_text("hello\n")


HOME = _files(".bashrc", ".ssh/id_ed25519", ".config/app/settings.json", "Documents/thesis.txt")
CHECKPOINT = _files(
    "metadata", "offsets/0", "offsets/1", "commits/0", "sources/0/0", ".metadata.crc", "state/0/0/1.delta"
)

# What may lie where somebody points us at, by name.
FOREIGN: dict[str, Callable[[Path], None]] = {
    **{each.name.removesuffix(".tar.xz"): nats_server_store(each) for each in STORES},
    "spark-checkpoint": CHECKPOINT,
    "home": HOME,
    "git": _git,
}


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the `millstream` command to its end."""
    assert ServerProcess.nursery is not None
    return ServerProcess.nursery.run([*map(str, arguments)], environment, PATIENCE_S)
