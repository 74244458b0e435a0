"""Folders for new streams, made ahead while streams are created in quick succession.

A creation waits for its folder to be made, and then for the disk.  The file system takes long to find free
inodes after many files were removed, so a worker makes the next folder while the one before is synced, and
while its requester sends the next request.

They lie in ``staging``, where a start removes what was left.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Final

from millstream.base.ids import nuid
from millstream.jetstream.stream import meta
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.jetstream.ports import Cancel, World
    from millstream.store.fs import FileSystem

_QUICK_NS: Final = 250_000_000  # between two creations
_MANY: Final = 4  # of them
_MOST: Final = 2  # folders that wait for a stream, or are being made
_IDLE_S: Final = 5.0  # after which they are removed


class ReadyFolders:
    """Ids for the new streams of an account, some of which have a folder in `staged`."""

    def __init__(self, world: World, fs: FileSystem, staged: str, remove: Callable[[str], None]) -> None:
        self._world = world
        self._fs = fs
        self._staged = staged
        self._remove = remove
        self._ready: deque[str] = deque()
        self._making = 0
        self._quick = 0  # creations in quick succession
        self._last_ns = 0
        self._timer: Cancel | None = None
        self._stopped = False

    def take(self) -> str:
        """Return the id of a new stream, whose folder may be there, and make folders for others."""
        now_ns = self._world.steady_ns()
        self._quick = self._quick + 1 if now_ns - self._last_ns < _QUICK_NS else 0
        self._last_ns = now_ns
        taken = self._ready.popleft() if self._ready else nuid()
        while self._quick >= _MANY and len(self._ready) + self._making < _MOST and not self._stopped:
            self._make()
        return taken

    def _make(self) -> None:
        number = nuid()

        def made(error: Exception | None) -> None:
            self._making -= 1
            if error is None:  # otherwise creations tell what is wrong
                self._ready.append(number)
                if self._stopped:
                    self.stop()
                elif self._timer is None:
                    self._timer = self._world.call_later(_IDLE_S, self._look)

        self._making += 1
        try:
            self._world.run_in_worker(lambda: meta.make_folder(self._fs, f"{self._staged}/{number}"), made)
        except Exception:  # no thread can be had
            self._making -= 1
            self._quick = 0

    def _look(self) -> None:
        """Remove the folders if no stream was created for a while."""
        self._timer = None
        if self._world.steady_ns() - self._last_ns < _IDLE_S * 1_000_000_000:
            self._timer = self._world.call_later(_IDLE_S, self._look)
            return
        while self._ready:
            self._remove(f"{self._staged}/{self._ready.popleft()}")

    def stop(self) -> None:
        """Remove the folders, those that are being made when they are there."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._ready:
            with contextlib.suppress(StoreError):  # the next start tries again
                self._fs.remove_ours(f"{self._staged}/{self._ready.popleft()}", meta.STREAM_FILES)
