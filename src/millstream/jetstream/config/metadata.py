"""Metadata that the server adds to streams and consumers, and the API level that a stream requires.

`_nats.req.level` is stored, so that an older server knows that it cannot serve the stream or consumer.
`_nats.ver` and `_nats.level` describe the responding server: they are in responses only, and values sent by a
client are dropped.
"""

from typing import Final, TypeVar

import msgspec

from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import PersistMode
from millstream.jsapi.limits import API_LEVEL
from millstream.jsapi.names import METADATA_REQUIRED_LEVEL, METADATA_SERVER_LEVEL, METADATA_SERVER_VERSION
from millstream.jsapi.stream_types import StreamConfig

_OF_ANSWERS: Final = frozenset({METADATA_SERVER_LEVEL, METADATA_SERVER_VERSION})

TTL_LEVEL: Final = 1
COUNTER_LEVEL: Final = 2
FAST_BATCH_LEVEL: Final = 4

Config = TypeVar("Config", StreamConfig, ConsumerConfig)


def required_level(config: StreamConfig) -> int:
    """Return the lowest API level that a server needs to serve this stream."""
    if config.allow_batched:
        return FAST_BATCH_LEVEL
    if (
        config.allow_msg_counter
        or config.allow_atomic
        or config.allow_msg_schedules
        or config.persist_mode is PersistMode.ASYNC
    ):
        return COUNTER_LEVEL
    if config.allow_msg_ttl or config.subject_delete_marker_ttl > 0:
        return TTL_LEVEL
    return 0


def with_required_level(config: StreamConfig) -> StreamConfig:
    """Return the configuration to store: with the level it requires, without metadata of responses."""
    return with_level(config, required_level(config))


def with_level(config: Config, level: int) -> Config:
    """Return the configuration to store if it requires `level`."""
    metadata = {key: value for key, value in config.metadata.items() if key not in _OF_ANSWERS}
    metadata[METADATA_REQUIRED_LEVEL] = str(level)
    return msgspec.structs.replace(config, metadata=metadata)


def without_required_level(config: Config) -> Config:
    """Return the configuration without the server's metadata."""
    managed = _OF_ANSWERS | {METADATA_REQUIRED_LEVEL}
    metadata = {key: value for key, value in config.metadata.items() if key not in managed}
    return msgspec.structs.replace(config, metadata=metadata)


def decorated(config: Config, server_version: str) -> Config:
    """Return the stored configuration as create, update, info and restore show it; lists do not."""
    metadata = config.metadata | {
        METADATA_SERVER_VERSION: server_version,
        METADATA_SERVER_LEVEL: str(API_LEVEL),
    }
    return msgspec.structs.replace(config, metadata=metadata)
