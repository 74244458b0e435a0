"""The server's limits for the streams of all accounts, and their usage.

Usage is a sum that each stream corrects when it commits or is asked (``count``), so a message costs an
addition however many streams there are.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from millstream.base.budget import BUDGET
from millstream.jetstream.dedupe.recent import BYTES_OF_ONE
from millstream.jetstream.options import DEFAULT_ERASE_WITHIN_S, JetStreamLimits
from millstream.jsapi.enums import StorageType

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream

_NO_LIMIT: Final = 2**63 - 1
_LEAST_IDS: Final = 4096
_MOST_BATCH_BYTES: Final = 256 * 1024 * 1024


def most_ids_in_memory() -> int:
    """Return how many ids of a stream's duplicate window the memory budget allows."""
    return max(BUDGET.ids.limit // BYTES_OF_ONE, _LEAST_IDS)


class Usage:
    """The bytes of all streams with one type of storage, in the server or in an account."""

    def __init__(self, whole: Usage | None = None) -> None:
        self.bytes = 0
        self.staged = 0  # bytes of streams that are being restored; of the server alone
        self.limit = _NO_LIMIT
        self._whole = whole

    def add(self, change: int) -> None:
        self.bytes += change
        if self._whole is not None:
            self._whole.bytes += change

    def left(self) -> int:
        """Return how many bytes can still be stored; negative if the limit is exceeded."""
        return self.limit - self.bytes - self.staged

    def whole_is_exhausted(self) -> bool:
        """Return True if the server can store nothing more."""
        return self._whole is not None and self._whole.left() < 0


class Staged:
    """Bytes of streams that are being restored; used by workers, with its lock."""

    def __init__(self, of_server: dict[StorageType, Usage]) -> None:
        self.lock = threading.Lock()
        self._of_server = of_server
        self._of_account: dict[tuple[str, StorageType], int] = {}

    def change(self, account: str, storage: StorageType, change: int) -> None:
        self._of_server[storage].staged += change
        self._of_account[account, storage] = self.of_account(account, storage) + change

    def of_account(self, account: str, storage: StorageType) -> int:
        return self._of_account.get((account, storage), 0)

    def of_server(self, storage: StorageType) -> int:
        return self._of_server[storage].staged


class Resources:
    """The resources of one server."""

    def __init__(
        self,
        *,
        max_memory: int = _NO_LIMIT,
        max_store: int = _NO_LIMIT,
        limits: JetStreamLimits | None = None,
        max_buffered_messages: int = 100_000,
        max_buffered_size: int = 128 * 1024 * 1024,
        max_unwritten: int = 16 * 1024 * 1024,
        max_pending: int = 64 * 1024 * 1024,
        erase_within_s: float = DEFAULT_ERASE_WITHIN_S,
        ids_in_memory: int = 0,
    ) -> None:
        self.usage = {StorageType.MEMORY: Usage(), StorageType.FILE: Usage()}
        self.max_memory = max_memory
        self.max_store = max_store
        self.limits = limits or JetStreamLimits()
        # Of one stream, appended but not durable yet.
        self.max_buffered_messages = max_buffered_messages
        self.max_buffered_size = max_buffered_size
        self.max_unwritten = max_unwritten  # bytes of all streams; with more, publishers are not read from
        self.unwritten = 0  # as far as they were counted
        self.resting = False  # a timer will give back memory that commits used
        self.max_pending = max_pending  # bytes that a connection may have to read; more is not sent at once
        self.erase_within_s = erase_within_s  # how long removed messages may stay on disk
        # Of a stream's duplicate window; more are written to a file, and so few are not worth one.
        self.ids_in_memory = ids_in_memory or most_ids_in_memory()
        self.least_ids = min(self.ids_in_memory, _LEAST_IDS)
        self.accounts: list[AccountJetStream] = []
        self.staged = Staged(self.usage)
        self.batches = 0  # atomic ones in flight
        self.batch_bytes = 0  # that they may have in memory
        self.max_batch_bytes = _MOST_BATCH_BYTES
        self.fast_batches = 0

    @property
    def max_memory(self) -> int:
        return self.usage[StorageType.MEMORY].limit

    @max_memory.setter
    def max_memory(self, limit: int) -> None:
        self.usage[StorageType.MEMORY].limit = limit

    @property
    def max_store(self) -> int:
        return self.usage[StorageType.FILE].limit

    @max_store.setter
    def max_store(self, limit: int) -> None:
        self.usage[StorageType.FILE].limit = limit

    def used(self, storage: StorageType) -> int:
        return self.usage[storage].bytes

    def reserved(self, storage: StorageType) -> int:
        return sum(account.usage.reserved(storage) for account in self.accounts)

    @property
    def flooded(self) -> bool:
        """Return True if more is published than the disk accepts."""
        return self.unwritten > self.max_unwritten

    def exhausted(self, storage: StorageType) -> bool:
        """Return True if nothing more can be stored."""
        return self.left(storage) < 0

    def left(self, storage: StorageType) -> int:
        """Return the bytes that can still be stored; negative if the limit is exceeded."""
        return self.usage[storage].left()
