"""A file that only takes room, so that a full disk can still be told to forget something.

To remove messages something must be written first: that they are removed.  On a full disk the reserve goes
then, and comes back when there is room again.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

SIZE: Final = 1024 * 1024


class Reserve:
    """One file.  Any thread may use it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def fill(self) -> bool:
        """Take the room, unless it is taken; False if the disk has none, or does not take writes."""
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
        """Give the room back to the disk; False if there was none."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
            return True
        return False
