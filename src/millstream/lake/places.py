"""Paths of local files, and syncing them.  No PyIceberg: tasks import this."""

import os
from pathlib import Path
from typing import Final

_LOCAL: Final = "file://"


def is_local(path: str) -> bool:
    return path.startswith((_LOCAL, "/"))


def local_path(path: str) -> Path:
    """Return the path of a local file without its scheme."""
    return Path(path.removeprefix(_LOCAL))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
