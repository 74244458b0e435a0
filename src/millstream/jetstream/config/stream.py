"""Validate stream configurations: complete a request, check an update, refuse with the right error.

Pure functions over values: the request, the configurations of the account's streams by name, and the limits.
They behave as nats-server 2.15.1 does on a single node, with refusals in its order, because clients see only
the first.  Arguments are not modified.

    stored = check_new(name, request.config, streams, limits, pedantic=request.pedantic)
    stored = check_update(name, request.config, streams, limits, pedantic=request.pedantic)
    shown = decorated(stored, version)

An empty list and no list are the same configuration here; nats-server distinguishes them until it is
restarted.

Not here: what a configuration does to the stream, and the single rules (the modules beside this one).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from millstream.jetstream.config.limits import (
    StreamLimits,
    check_consumer_count,
    check_room,
    check_stream_count,
    check_stream_size,
)
from millstream.jetstream.config.metadata import (
    decorated,
    required_level,
    with_required_level,
    without_required_level,
)
from millstream.jetstream.config.sources import check_filters, complete_sources
from millstream.jetstream.config.subjects import (
    check_overlap,
    check_stream_transform,
    complete_republish,
    complete_subjects,
    complete_updated_republish,
)
from millstream.jetstream.config.values import complete_values, invalid
from millstream.jsapi.codec import encode
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import DiscardPolicy, RetentionPolicy, StorageType
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.stream_types import Placement, StreamConfig

__all__ = [
    "StreamLimits",
    "check_new",
    "check_restorable",
    "check_restored",
    "check_update",
    "complete",
    "decorated",
    "names_storage",
    "required_level",
    "same",
]

_PATH_SEPARATORS: Final = frozenset("\\/")

Streams = Mapping[str, StreamConfig]


def complete(
    config: StreamConfig, streams: Streams, limits: StreamLimits, *, pedantic: bool = False
) -> StreamConfig:
    """Return the configuration with the server's defaults filled in; raise ApiError if it is invalid.

    `streams` are those of the account; one of them may be an older version of `config`.
    """
    completed = msgspec.structs.replace(config)
    complete_values(completed, limits, pedantic=pedantic)
    complete_sources(completed, streams, pedantic=pedantic)
    complete_subjects(completed)
    check_stream_size(completed, limits)
    check_stream_transform(completed)
    complete_republish(completed, pedantic=pedantic)
    if completed.placement == Placement():
        completed.placement = None
    if completed.placement is not None and completed.placement.preferred:
        raise invalid("preferred server not permitted in placement")
    return completed


def names_storage(body: bytes) -> bool:
    """Return True if a request's body seems to name the storage; it may only mention the word."""
    return b'"storage"' in body.lower()


def check_new(
    name: str,
    config: StreamConfig,
    streams: Streams,
    limits: StreamLimits,
    *,
    pedantic: bool = False,
    storage_named: bool = True,
) -> StreamConfig:
    """Return the configuration to store for a request to create stream `name`; raise ApiError.

    If the stream exists with the same configuration, returns the object in `streams`.  With `storage_named`,
    the check for room comes first, even for a stream that exists and has its room; without it, such a request
    returns the existing stream.
    """
    config = with_required_level(config)
    if config.name != name:
        raise ApiError(Err.STREAM_NAME_MISMATCH)
    if not _PATH_SEPARATORS.isdisjoint(name):
        raise ApiError(Err.STREAM_NAME_CONTAINS_PATH_SEPARATORS)
    if config.sealed:
        raise invalid("stream configuration for create can not be sealed")
    if config.mirror_direct and config.mirror is None:
        raise invalid("stream has no mirror but does have mirror direct")
    check_stream_count(config, streams, limits)
    check_consumer_count(config, limits)
    if storage_named:
        check_room(config, streams, limits)
    completed = complete(config, streams, limits, pedantic=pedantic)
    _check_replicas(completed)
    existing = streams.get(name)
    if existing is not None:
        if not same(completed, existing):
            raise ApiError(Err.STREAM_NAME_IN_USE)
        return existing
    check_consumer_count(completed, limits)
    check_room(completed, streams, limits)
    check_filters(completed)
    check_overlap(completed, streams)
    if "\0" in name and completed.storage is StorageType.FILE:  # no folder can have this name
        raise ApiError(Err.STREAM_CREATE_FAILED, err="error creating store for stream")
    return completed


def check_restored(name: str, config: StreamConfig, streams: Streams, limits: StreamLimits) -> StreamConfig:
    """Return the configuration of a stream to be restored as `name`; raise ApiError.

    Does not check whether it exists or whether other streams have its subjects.
    """
    if config.name != name:
        raise ApiError(Err.STREAM_NAME_MISMATCH)
    if not _PATH_SEPARATORS.isdisjoint(name):
        raise ApiError(Err.STREAM_NAME_CONTAINS_PATH_SEPARATORS)
    completed = complete(config, streams, limits)
    check_stream_count(completed, streams, limits)
    check_consumer_count(completed, limits)
    check_room(completed, {other: each for other, each in streams.items() if other != name}, limits)
    return completed


def check_restorable(config: StreamConfig, streams: Streams) -> None:
    """Raise ApiError if a stream read from an archive cannot be added to the others."""
    _check_replicas(config)
    check_filters(config)
    check_overlap(config, streams)
    if "\0" in config.name and config.storage is StorageType.FILE:
        raise ApiError(Err.STREAM_CREATE_FAILED, err="error creating store for stream")


def check_update(
    name: str,
    config: StreamConfig,
    streams: Streams,
    limits: StreamLimits,
    *,
    pedantic: bool = False,
    consumers: Mapping[str, ConsumerConfig] | None = None,
) -> StreamConfig:
    """Return the configuration to store for a request to update stream `name`; raise ApiError.

    `consumers` are those of the stream: they must not violate new limits for consumers.
    """
    completed = complete(config, streams, limits, pedantic=pedantic)
    if completed.name != name:
        raise ApiError(Err.STREAM_NAME_MISMATCH)
    old = streams.get(name)
    if old is None:
        raise ApiError(Err.STREAM_NOT_FOUND)
    new = with_required_level(completed)
    complete_values(new, limits, pedantic=pedantic)  # again, because the metadata may have become too large
    _check_replicas(new)
    _check_changes(old, new)
    if new.sealed:
        new.max_age = 0
        new.discard = DiscardPolicy.NEW
        new.deny_delete = new.deny_purge = True
        new.allow_rollup_hdrs = False
    check_consumer_count(new, limits)
    check_room(new, streams, limits, held=max(old.max_bytes, 0))
    _check_consumers(old, new, consumers or {})
    check_overlap(new, streams)
    complete_updated_republish(new)
    return new


def same(one: StreamConfig, other: StreamConfig) -> bool:
    """Return True if two completed configurations are equal, whatever server completed them."""
    # Compare JSON, because equal times may be written in different zones.
    return encode(without_required_level(one)) == encode(without_required_level(other))


def _check_replicas(config: StreamConfig) -> None:
    if config.num_replicas > 1:
        raise ApiError(Err.REPLICAS_NOT_SUPPORTED)


def _check_changes(old: StreamConfig, new: StreamConfig) -> None:
    if new.storage is not old.storage:
        raise invalid("stream configuration update can not change storage type")
    if new.retention is not old.retention and RetentionPolicy.WORKQUEUE in (new.retention, old.retention):
        raise invalid("stream configuration update can not change retention policy to/from workqueue")
    if old.sealed and not new.sealed:
        raise invalid("stream configuration update can not unseal a sealed stream")
    if old.deny_delete and not new.deny_delete:
        raise invalid("stream configuration update can not cancel deny message deletes")
    if old.deny_purge and not new.deny_purge:
        raise invalid("stream configuration update can not cancel deny purge")
    # A stream may lose its mirror and become an independent stream, but never become a mirror.
    if new.mirror is not None and (old.mirror is None or encode(new.mirror) != encode(old.mirror)):
        raise ApiError(Err.STREAM_MIRROR_NOT_UPDATABLE)
    if old.allow_msg_ttl and not new.allow_msg_ttl:
        raise invalid("message TTL status can not be disabled")
    if new.allow_msg_counter != old.allow_msg_counter:
        raise invalid("stream configuration update can not change message counter setting")
    if old.allow_msg_schedules and not new.allow_msg_schedules:
        raise invalid("message schedules can not be disabled")
    if new.persist_mode is not old.persist_mode:
        raise invalid("stream configuration update can not change persist mode")


def _check_consumers(old: StreamConfig, new: StreamConfig, consumers: Mapping[str, ConsumerConfig]) -> None:
    threshold = new.consumer_limits.inactive_threshold
    pending = new.consumer_limits.max_ack_pending
    if (threshold <= 0 or threshold == old.consumer_limits.inactive_threshold) and (
        pending <= 0 or pending == old.consumer_limits.max_ack_pending
    ):
        return
    beyond = [
        name
        for name, consumer in consumers.items()
        if 0 < threshold < consumer.inactive_threshold or 0 < pending < consumer.max_ack_pending
    ]
    if beyond:
        text = f"change to limits violates consumers: {', '.join(beyond)}"
        raise ApiError(Err.STREAM_UPDATE_FAILED, err=text)
