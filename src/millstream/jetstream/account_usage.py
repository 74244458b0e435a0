"""The storage that the streams of one account use and reserve, and the account's limits.

The figures are sums over all streams.  A stream corrects them when it commits (``Stream.count_as``), the
account when a configuration changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.jetstream import parts
from millstream.jetstream.resources import Usage
from millstream.jsapi.account_types import AccountInfo, AccountLimits, AccountTier, ApiStats
from millstream.jsapi.enums import StorageType
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import API_LEVEL

if TYPE_CHECKING:
    from millstream.jetstream.account import AccountJetStream
    from millstream.jetstream.config.limits import StreamLimits
    from millstream.jetstream.publish.batch_fast_path import BatchStaging as BatchStaging
    from millstream.jetstream.stream.stream import Stream


class AccountUsage:
    """Usage and limits of an account."""

    def __init__(self, account: AccountJetStream) -> None:
        self._account = account
        self._resources = account.resources
        self.stored = {storage: Usage(whole) for storage, whole in account.resources.usage.items()}
        self.batching: dict[str, BatchStaging] = {}  # by the names of streams that have open batches
        self._reserved = {StorageType.MEMORY: 0, StorageType.FILE: 0}

    def count(self, stream: Stream) -> None:
        """Count a new stream, or one with another configuration."""
        self._count_as(stream, stream.bytes(), max(stream.config.max_bytes, 0))

    def discount(self, stream: Stream) -> None:
        """Count a stream no longer."""
        self._count_as(stream, 0, 0)

    def _count_as(self, stream: Stream, size: int, reserved: int) -> None:
        stream.count_as(size)
        if reserved != stream.reserved:
            self._reserved[stream.config.storage] += reserved - stream.reserved
            stream.reserved = reserved

    def used(self, storage: StorageType) -> int:
        """Return the bytes of all streams; uncommitted ones may be missing."""
        return self.stored[storage].bytes

    def reserved(self, storage: StorageType) -> int:
        """Return the bytes that streams with `max_bytes` reserve."""
        return self._reserved[storage]

    def limit(self, storage: StorageType) -> int:
        """Return how many bytes this account may store; -1: unlimited."""
        options = self._account.options
        return options.max_memory if storage is StorageType.MEMORY else options.max_store

    def check_room(self, stream: Stream, size: int) -> None:
        """Raise ApiError if server or account have no room for `size` more bytes."""
        self.check_server_room(stream)
        if self._exceeds(stream.config.storage, size):
            raise ApiError(Err.ACCOUNT_RESOURCES_EXCEEDED)

    def check_server_room(self, stream: Stream) -> None:
        """Raise ApiError if the server has no room at all."""
        stream.count_as(stream.bytes())
        if self._resources.exhausted(stream.config.storage):
            raise ApiError(Err.INSUFFICIENT_RESOURCES)

    def has_room(self, storage: StorageType, size: int) -> bool:
        """Return True if `size` more bytes of a restored stream fit; called by workers."""
        return not self._exceeds(storage, size) and size <= self._resources.left(storage)

    def _exceeds(self, storage: StorageType, size: int) -> bool:
        """Return True if `size` more bytes exceed the limit of the account."""
        limit = self.limit(storage)
        staged = self._resources.staged.of_account(self._account.name, storage)
        return 0 <= limit < self.stored[storage].bytes + staged + size

    def batched_bytes(self) -> int:
        """Return the bytes of uncommitted atomic batches; 0 if the account has no limit."""
        options = self._account.options
        if options.max_memory < 0 and options.max_store < 0:
            return 0
        return sum(staging.held for staging in self.batching.values())

    def stream_limits(self) -> StreamLimits:
        """Return the limits for the configuration of a stream."""
        resources = self._resources
        return parts.StreamLimits(
            account=self._account.options,
            duplicate_window=round(resources.limits.duplicate_window_s * 1_000_000_000),
            max_memory=resources.max_memory,
            max_store=resources.max_store,
            reserved_memory=resources.reserved(StorageType.MEMORY),
            reserved_store=resources.reserved(StorageType.FILE),
        )

    def info(self) -> AccountInfo:
        """Return usage and limits; those of a tier stand under its name."""
        account, options = self._account, self._account.options
        usage: dict[str, Any] = {
            "memory": self.used(StorageType.MEMORY),
            "storage": self.used(StorageType.FILE),
            "reserved_memory": self.reserved(StorageType.MEMORY),
            "reserved_storage": self.reserved(StorageType.FILE),
            "streams": len(account.streams),
            "consumers": account.consumers,
        }
        limits, tiers = self._shown_limits(), {}
        if options.tier:
            if options.has_tier or account.streams:
                tiers = {options.tier: AccountTier(**usage, limits=limits)}
            limits = AccountLimits()
        return AccountInfo(
            **usage,
            limits=limits,
            domain=account.domain,
            api=ApiStats(level=API_LEVEL, total=account.api_total, errors=account.api_errors),
            tiers=tiers,
        )

    def _shown_limits(self) -> AccountLimits:
        limits = self._account.options
        return AccountLimits(
            max_memory=limits.max_memory,
            max_storage=limits.max_store,
            max_streams=limits.max_streams,
            max_consumers=limits.max_consumers,
            max_ack_pending=limits.max_ack_pending,
            memory_max_stream_bytes=limits.memory_max_stream_bytes,
            storage_max_stream_bytes=limits.store_max_stream_bytes,
            max_bytes_required=limits.max_bytes_required,
        )
