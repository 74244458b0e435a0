"""Remove folders of deleted streams in the background.

A large folder takes long to remove, so a worker does it.  Folders are removed one after the other, so that
they do not fill the queue of the workers.  A folder that cannot be removed is tried again later; what is
left when the server stops is removed at its next start (``account``).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from millstream.base.owned import few
from millstream.jetstream.stream.meta import STREAM_FILES

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, World
    from millstream.store.fs import FileSystem

_log = logging.getLogger("millstream.jetstream")

_RETRY_S: Final = 10.0  # between tries to remove a folder


class FolderRemoval:
    """The folders of an account that are being removed."""

    def __init__(self, fs: FileSystem, world: World, account: str) -> None:
        self._fs = fs
        self._world = world
        self._account = account
        self._waiting: deque[str] = deque()  # the first is being removed
        self._folders: dict[str, Cancel | None] = {}  # all, and the timers of those that are tried again

    def start(self, folder: str) -> None:
        """Remove our files in a folder, and the folder unless it contains files of others."""
        self._folders[folder] = None
        self._waiting.append(folder)
        if len(self._waiting) == 1:
            self._remove_first()

    def stop(self) -> None:
        """Try no folder again."""
        for timer in self._folders.values():
            if timer is not None:
                timer.cancel()
        self._folders.clear()

    def _remove_first(self) -> None:
        folder = self._waiting[0]
        left: Sequence[str] = ()

        def remove() -> None:
            nonlocal left
            left = self._fs.remove_ours(folder, STREAM_FILES)

        def ended(error: Exception | None) -> None:
            self._waiting.popleft()
            if self._waiting:
                self._remove_first()
            if error is not None and folder in self._folders:
                _log.error("account %s: a folder cannot be removed yet: %s", self._account, error)
                self._folders[folder] = self._world.call_later(_RETRY_S, lambda: self.start(folder))
                return
            self._folders.pop(folder, None)
            if left:
                _log.warning(
                    "account %s: %s stays, because it holds what Millstream did not write: %s",
                    self._account,
                    folder,
                    few(left),
                )

        try:
            self._world.run_in_worker(remove, ended)
        except RuntimeError as error:  # no thread can be had
            _log.error("account %s: folders cannot be removed yet: %s", self._account, error)
            self._folders[folder] = self._world.call_later(_RETRY_S, self._remove_first)
