"""Write files about this process while it serves: its id, and its ports."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from millstream.base.errors import MillstreamError
from millstream.base.reasons import file_reason

if TYPE_CHECKING:
    from millstream.server.server import Server

_log = logging.getLogger("millstream.server")

_LONGEST_PID: Final = 20  # bytes


@contextlib.contextmanager
def pid_file(path: str) -> Iterator[None]:
    """Write the process id to a file that is new or contains a process id; remove it at the end."""
    file, mine = Path(path), str(os.getpid())
    try:
        if file.exists() and not _is_pid(file):
            raise MillstreamError(
                f"Could not write pidfile: {path}: it holds something else than a process id"
            )
        file.write_text(mine)
    except OSError as error:
        raise MillstreamError(f"Could not write pidfile: {path}: {file_reason(error)}") from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if (
                file.is_file() and file.read_bytes() == mine.encode()
            ):  # not that of a server that came after us
                file.unlink()


def _is_pid(path: Path) -> bool:
    with path.open("rb") as file:
        text = file.read(_LONGEST_PID + 1)
    return len(text) <= _LONGEST_PID and (not text or text.strip().isdigit())


@contextlib.contextmanager
def ports_file(server: Server, folder: str) -> Iterator[None]:
    """Write `<program>_<pid>.ports`, which tells tools the ports that the system picked.

    The name appears when everything is written: tools wait for it.
    """
    name = Path(sys.argv[0]).name if sys.argv[0] else "millstream"
    path = Path(folder) / f"{name}_{os.getpid()}.ports"
    beside = path.with_suffix(".ports.new")
    try:
        beside.write_text(json.dumps(server.ports()))
        beside.replace(path)
    except OSError as error:  # no reason to turn clients away
        _log.error("Error writing ports file (%s): %s", path, file_reason(error))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
