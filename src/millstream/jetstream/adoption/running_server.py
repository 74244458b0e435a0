"""Find a process that uses a folder: nats-server locks nothing, so its processes are looked at.

A server has its newest blocks open, but closes them when nothing happens for half a minute.  So a process
that is a nats-server and names the folder on its command line, or in its configuration file, counts as well.
A server in another container or of another user cannot be seen; then only a change of the files tells.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

_PROCESSES: Final = "/proc"
_LARGEST_CONFIG: Final = 4 * 1024 * 1024


def user_of(folder: str) -> str:
    """Return a description of a process that uses the folder, or an empty string."""
    wanted = os.path.realpath(folder)
    for number in _numbers():
        if number == os.getpid():
            continue
        with contextlib.suppress(OSError):
            command = _command(number)
            if _has_open(number, wanted) or _names(number, command, wanted):
                return f"{os.path.basename(command[0]) if command else 'a process'} (process {number})"
    return ""


def _numbers() -> Iterator[int]:
    try:
        names = os.listdir(_PROCESSES)
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit())


def _command(number: int) -> list[str]:
    with open(f"{_PROCESSES}/{number}/cmdline", "rb") as file:
        return [os.fsdecode(each) for each in file.read().split(b"\0")[:-1]]


def _has_open(number: int, folder: str) -> bool:
    """Return True if the process has a file of the folder open."""
    try:
        handles = os.listdir(f"{_PROCESSES}/{number}/fd")
    except OSError:  # of another user
        return False
    for handle in handles:
        with contextlib.suppress(OSError):
            if os.readlink(f"{_PROCESSES}/{number}/fd/{handle}").startswith(f"{folder}/"):
                return True
    return False


def _names(number: int, command: list[str], folder: str) -> bool:
    """Return True if a nats-server was started with this folder."""
    if not command or not os.path.basename(command[0]).startswith("nats-server"):
        return False
    base = os.readlink(f"{_PROCESSES}/{number}/cwd")
    above = os.path.dirname(folder)
    for argument in command[1:]:
        path = os.path.realpath(os.path.join(base, argument.rpartition("=")[2]))
        if path in (folder, above):
            return True
        if os.path.isfile(path) and _mentions(path, above):
            return True
    return False


def _mentions(path: str, folder: str) -> bool:
    """Return True if a configuration file contains the path of the folder."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return os.fsencode(folder) in file.read(_LARGEST_CONFIG)
    return False
