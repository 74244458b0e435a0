"""Checks of this machine: the folder of the store, the sync time of its disk, limits, our own build."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

import millstream
from millstream.base.reasons import file_reason
from millstream.cli.checkup.findings import Findings
from millstream.cli.output.texts import count_text, size_text

_SYNCS: Final = 20
_SLOW_SYNC_S: Final = 0.02
_FREE: Final = 0.1
_DESCRIPTORS: Final = 65_536
_FLEETING: Final = ("tmpfs", "ramfs")
_REMOTE: Final = ("nfs", "nfs4", "cifs", "smbfs", "fuse.sshfs")


def check_machine(found: Findings) -> None:
    """Check this installation and the limits of this shell."""
    python = platform.python_version()
    advice = "Install a wheel, or run `make build`: interpreted, a server is several times slower."
    text = f"millstream {millstream.__version__}, {millstream.BUILD}, Python {python}"
    found.judge(millstream.BUILD == "compiled", "this program", text, advice)
    _check_descriptors(found)


def _check_descriptors(found: Findings) -> None:
    try:
        import resource
    except ImportError:
        found.skip("open files", "this system has no such limit")
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    enough = soft == endless or soft >= _DESCRIPTORS
    shown = "unlimited" if soft == endless else count_text(soft)
    most = "unlimited" if hard == endless else count_text(hard)
    change = f"say `ulimit -n {_DESCRIPTORS}`, or LimitNOFILE in systemd"
    advice = f"A server that starts here serves fewer clients than it could; {change}."
    found.judge(enough, "open files", f"{shown} at once in this shell, at most {most}", advice)


def check_store(folder: Path, found: Findings) -> None:
    """Check the store folder of a server; an unnamed file is written there."""
    try:
        mode = folder.stat()
    except OSError as error:
        found.fail(
            "store", f"{folder}: {file_reason(error)}", "Name the folder of -sd or store_dir: --store FOLDER."
        )
        return
    if not stat.S_ISDIR(mode.st_mode):
        found.fail("store", f"{folder} is no folder", "Name the folder of -sd or store_dir: --store FOLDER.")
        return
    others = stat.S_IMODE(mode.st_mode) & 0o007
    advice = f"Messages are readable for other users of this machine: chmod 700 {folder}"
    found.judge(not others, "store", f"{folder}, mode {stat.S_IMODE(mode.st_mode):o}", advice)
    _check_file_system(folder, found)
    _check_space(folder, found)
    _check_sync(folder, found)


def _check_file_system(folder: Path, found: Findings) -> None:
    kind = _file_system(folder)
    if not kind:
        found.skip("file system", "this system does not say which it is")
    elif kind in _FLEETING:
        found.warn(
            "file system", f"{kind}: a restart of the machine loses everything", "Use a folder on a disk."
        )
    elif kind in _REMOTE:
        found.warn(
            "file system", f"{kind}: syncs and locks depend on the network", "Use a disk of this machine."
        )
    else:
        found.ok("file system", kind)


def _file_system(folder: Path) -> str:
    """Return the type of a folder's file system; empty if it is not known."""
    best, kind = "", ""
    with contextlib.suppress(OSError):
        real = str(folder.resolve())
        for line in Path("/proc/mounts").read_text(errors="replace").splitlines():
            fields = line.split(" ")
            if len(fields) < 3:
                continue
            place = fields[1].replace("\\040", " ")
            inside = real == place or real.startswith(place.rstrip("/") + "/")
            if inside and len(place) >= len(best):
                best, kind = place, fields[2]
    return kind


def _check_space(folder: Path, found: Findings) -> None:
    usage = shutil.disk_usage(folder)
    text = f"{size_text(usage.free)} of {size_text(usage.total)} are free"
    advice = "Make room, or limit streams (--max-bytes) and the server (max_file_store)."
    found.judge(usage.free > _FREE * usage.total, "disk space", text, advice)


def _check_sync(folder: Path, found: Findings) -> None:
    """Measure the time until a small write is durable, for which publishers wait."""
    try:
        with tempfile.TemporaryFile(dir=folder.resolve()) as file:
            times = []
            for _ in range(_SYNCS):
                began = time.perf_counter()
                os.write(file.fileno(), bytes(4096))
                (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(file.fileno())
                times.append(time.perf_counter() - began)
    except OSError as error:
        advice = f"Run this as the user of the server, who can write to {folder}."
        found.skip("disk sync", f"it could not be measured: {file_reason(error)}", advice)
        return
    times.sort()
    middle, worst = times[_SYNCS // 2], times[-1]
    text = f"4 KiB in {middle * 1000:.2f} ms, the slowest of {_SYNCS} in {worst * 1000:.2f} ms"
    advice = "Use a disk with a protected write cache: each publisher that waits for an ack waits for this."
    found.judge(middle < _SLOW_SYNC_S, "disk sync", text, advice)
