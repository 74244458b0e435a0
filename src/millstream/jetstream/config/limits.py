"""Check a stream's configuration against the limits of its account and of the server.

A stream with `max_bytes` reserves that much; what is left of the account's or server's limit bounds what the
next one may reserve.  Streams without `max_bytes` reserve nothing but need room for one byte.

Not here: the bytes actually stored, which are checked when messages arrive.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from millstream.jetstream.options import AccountJetStreamOptions
from millstream.jsapi.enums import StorageType
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.stream_types import StreamConfig

_NO_LIMIT: Final = 2**63 - 1
_UNLIMITED: Final = AccountJetStreamOptions()


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits for the configuration of a stream.  Sizes are bytes."""

    account: AccountJetStreamOptions = _UNLIMITED
    duplicate_window: int = 0  # nanoseconds; 0: any
    # Of the server; the reservations include every account and the stream in question.
    max_memory: int = _NO_LIMIT
    max_store: int = _NO_LIMIT
    reserved_memory: int = 0
    reserved_store: int = 0


def check_stream_count(
    config: StreamConfig, streams: Mapping[str, StreamConfig], limits: StreamLimits
) -> None:
    """Raise ApiError if the account has no place for another stream."""
    if not limits.account.has_tier:
        raise ApiError(Err.NO_LIMITS)
    others = len(streams) - (config.name in streams)
    if 0 < limits.account.max_streams <= others:
        raise ApiError(Err.MAXIMUM_STREAMS_REACHED)


def check_stream_size(config: StreamConfig, limits: StreamLimits) -> None:
    """Raise ApiError if the stream is larger than the account allows any stream to be."""
    account = limits.account
    if account.max_bytes_required and config.max_bytes <= 0:
        raise ApiError(Err.STREAM_MAX_BYTES_REQUIRED)
    in_memory = config.storage is StorageType.MEMORY
    most = account.memory_max_stream_bytes if in_memory else account.store_max_stream_bytes
    if 0 < most < config.max_bytes:
        raise ApiError(Err.STREAM_MAX_STREAM_BYTES_EXCEEDED)


def check_consumer_count(config: StreamConfig, limits: StreamLimits) -> None:
    """Raise ApiError if the stream would allow more consumers than the account."""
    if 0 < limits.account.max_consumers < config.max_consumers:
        raise ApiError(Err.MAXIMUM_CONSUMERS_REACHED)


def check_room(
    config: StreamConfig,
    streams: Mapping[str, StreamConfig],
    limits: StreamLimits,
    *,
    held: int | None = None,
) -> None:
    """Raise ApiError if the account or the server does not have enough storage left for the stream.

    `held` is what an existing stream has already reserved: only the difference must be free.
    """
    kept = min(max(config.max_bytes, 0), held or 0)
    asked = 1 if config.max_bytes < 0 and held is None else max(config.max_bytes, 0) - kept
    if config.storage is StorageType.MEMORY:
        of_account, of_server = limits.account.max_memory, limits.max_memory - limits.reserved_memory
        refusal = Err.MEMORY_RESOURCES_EXCEEDED
    else:
        of_account, of_server = limits.account.max_store, limits.max_store - limits.reserved_store
        refusal = Err.STORAGE_RESOURCES_EXCEEDED
    if of_account >= 0:
        reserved = _copies(config) * kept + sum(
            _copies(other) * other.max_bytes
            for name, other in streams.items()
            if name != config.name and other.storage is config.storage and other.max_bytes > 0
        )
        if reserved + _copies(config) * asked > of_account:
            raise ApiError(refusal)
    if of_server < 0 or asked > of_server:
        raise ApiError(refusal)


def _copies(config: StreamConfig) -> int:
    return max(config.num_replicas, 1)
