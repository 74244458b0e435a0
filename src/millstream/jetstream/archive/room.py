"""What one restore takes of the bytes that its account and the server may store, counted while it loads.

An archive says how large the stream is, but that is only what it says: a kilobyte can unpack to gigabytes.
So what is really stored counts, from the first message on, and publishers see it as used.  A restore runs in
a worker, several at once, so the sums are guarded by a lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.jsapi.enums import StorageType
from millstream.jsapi.errors import ApiError, Err

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream


class Room:
    """Of one restore; ``release`` gives it back."""

    def __init__(self, account: AccountJetStream, storage: StorageType) -> None:
        self._account = account
        self._storage = storage
        self._held = 0

    def hold(self, size: int) -> bool:
        """Have `size` bytes in all; False if account or server have not so many left."""
        staged, storage = self._account.resources.staged, self._storage
        with staged.lock:
            if size > self._held and not self._account.has_room(storage, size - self._held):
                return False
            staged.change(self._account.name, storage, size - self._held)
            self._held = size
            return True

    def refusal(self) -> ApiError:
        in_memory = self._storage is StorageType.MEMORY
        return ApiError(Err.MEMORY_RESOURCES_EXCEEDED if in_memory else Err.STORAGE_RESOURCES_EXCEEDED)

    def release(self) -> None:
        self.hold(0)
