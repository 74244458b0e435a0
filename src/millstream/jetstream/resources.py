"""The server's limits for the streams of all accounts, and their usage.

Usage is a sum that each stream corrects when it commits or is asked (``count``), so a message costs an
addition however many streams there are.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from millstream.jetstream.options import DEFAULT_ERASE_WITHIN_S, JetStreamLimits
from millstream.jsapi.enums import StorageType

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream

_NO_LIMIT: Final = 2**63 - 1
_MOST_BATCH_BYTES: Final = 256 * 1024 * 1024


class Staged:
    """Bytes of streams that are being restored; used by workers, with its lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._of_server = {StorageType.MEMORY: 0, StorageType.FILE: 0}
        self._of_account: dict[tuple[str, StorageType], int] = {}

    def change(self, account: str, storage: StorageType, change: int) -> None:
        self._of_server[storage] += change
        self._of_account[account, storage] = self.of_account(account, storage) + change

    def of_account(self, account: str, storage: StorageType) -> int:
        return self._of_account.get((account, storage), 0)

    def of_server(self, storage: StorageType) -> int:
        return self._of_server[storage]


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
    ) -> None:
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
        self.accounts: list[AccountJetStream] = []
        self.staged = Staged()
        self.batches = 0  # atomic ones in flight
        self.batch_bytes = 0  # that they may have in memory
        self.max_batch_bytes = _MOST_BATCH_BYTES
        self.fast_batches = 0
        self._used = {StorageType.MEMORY: 0, StorageType.FILE: 0}

    def count(self, storage: StorageType, change: int) -> None:
        self._used[storage] += change

    def used(self, storage: StorageType) -> int:
        return self._used[storage]

    def reserved(self, storage: StorageType) -> int:
        return sum(account.reserved(storage) for account in self.accounts)

    @property
    def flooded(self) -> bool:
        """Return True if more is published than the disk accepts."""
        return self.unwritten > self.max_unwritten

    def exhausted(self, storage: StorageType) -> bool:
        """Return True if nothing more can be stored."""
        return self.left(storage) < 0

    def left(self, storage: StorageType) -> int:
        """Return the bytes that can still be stored; negative if the limit is exceeded."""
        most = self.max_memory if storage is StorageType.MEMORY else self.max_store
        return most - self._used[storage] - self.staged.of_server(storage)
