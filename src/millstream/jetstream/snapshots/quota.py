"""The storage that a restore reserves of its account's and the server's limits while it loads.

The archive states the size of the stream, but a kilobyte can decompress to gigabytes.  So the bytes actually
stored are counted, from the first message on, and publishers see them as used.  Restores run in workers,
several at once, so the sums are guarded by a lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.jsapi.enums import StorageType
from millstream.jsapi.errors import ApiError, Err

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream


class Room:
    """The storage of one restore; ``release`` returns it."""

    def __init__(self, account: AccountJetStream, storage: StorageType) -> None:
        self._account = account
        self._storage = storage
        self._held = 0

    def hold(self, size: int) -> bool:
        """Reserve `size` bytes in total; return False if account or server have less left."""
        staged, storage = self._account.resources.staged, self._storage
        with staged.lock:
            if size > self._held and not self._account.usage.has_room(storage, size - self._held):
                return False
            staged.change(self._account.name, storage, size - self._held)
            self._held = size
            return True

    def refusal(self) -> ApiError:
        in_memory = self._storage is StorageType.MEMORY
        return ApiError(Err.MEMORY_RESOURCES_EXCEEDED if in_memory else Err.STORAGE_RESOURCES_EXCEEDED)

    def release(self) -> None:
        self.hold(0)
