"""A file that reserves space, so that messages can still be removed from a full disk.

A removal must first be written.  On a full disk the reserve is released for that, and taken again when there
is space.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

SIZE: Final = 1024 * 1024


class Reserve:
    """The reserve file.  Any thread may use it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def fill(self) -> bool:
        """Reserve the space unless that is done; return False if the disk has none or is not writable."""
        try:
            if os.stat(self._path).st_blocks * 512 >= SIZE:
                return True
        except OSError:
            pass
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
            try:
                os.posix_fallocate(descriptor, 0, SIZE)
            finally:
                os.close(descriptor)
        except OSError:
            self.spend()  # half of it helps nobody
            return False
        return True

    def spend(self) -> bool:
        """Release the space; return False if there was none."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
            return True
        return False
