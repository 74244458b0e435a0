"""Rules for single values of a stream's configuration, and for flags that exclude or imply others.

Each rule accepts the value, replaces it by the default, or refuses it.  A pedantic request is refused where
the server would otherwise change a value.

Not here: subjects (stream_config_subjects), other streams (stream_config_sources), storage limits
(stream_config_limits).
"""

from typing import Final

from millstream.jetstream.config.limits import StreamLimits
from millstream.jsapi.enums import DiscardPolicy, PersistMode, RetentionPolicy, StorageType
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import (
    LARGEST_SEQ,
    MAX_DESCRIPTION_BYTES,
    MAX_METADATA_BYTES,
    MAX_NAME_BYTES,
    MAX_REPLICAS,
)
from millstream.jsapi.stream_types import StreamConfig

_MILLISECOND: Final = 1_000_000
_SECOND: Final = 1000 * _MILLISECOND
_SHORTEST_AGE: Final = 100 * _MILLISECOND
_SHORTEST_WINDOW: Final = 100 * _MILLISECOND
_SHORTEST_MARKER_TTL: Final = _SECOND
DEFAULT_DUPLICATE_WINDOW: Final = 120 * _SECOND

_NOT_IN_NAMES: Final = frozenset((*map(chr, range(0x21)), *".*>\\/"))  # names are tokens of subjects
_COUNTS: Final = ("max_msgs", "max_msgs_per_subject", "max_bytes", "max_msg_size", "max_consumers")


def invalid(text: str) -> ApiError:
    """Return the refusal of a configuration that has no error code of its own."""
    return ApiError(Err.STREAM_CONFIG_INVALID, err=text)


def pedantic_refusal(text: str) -> ApiError:
    """Return the refusal of a pedantic request for a value that the server would change."""
    return ApiError(Err.PEDANTIC, err=text)


def valid_name(name: str) -> bool:
    """Return True if a stream or consumer may have this name; the length is not checked."""
    return bool(name) and _NOT_IN_NAMES.isdisjoint(name)


def complete_values(config: StreamConfig, limits: StreamLimits, *, pedantic: bool) -> None:
    """Apply the rules of this module to `config`, in the order in which clients see refusals."""
    _check_texts(config)
    _complete_counts(config, pedantic=pedantic)
    _check_age(config)
    _complete_duplicate_window(config, limits.duplicate_window, pedantic=pedantic)
    if config.deny_purge and config.allow_rollup_hdrs:
        raise invalid("roll-ups require the purge permission")
    _check_counter(config)
    _check_discard(config)
    _complete_delete_markers(config, pedantic=pedantic)
    _complete_schedules(config, pedantic=pedantic)
    _check_persist_mode(config)


def _check_texts(config: StreamConfig) -> None:
    if not valid_name(config.name):
        raise invalid("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(config.name.encode()) > MAX_NAME_BYTES:
        raise invalid(f"stream name is too long, maximum allowed is {MAX_NAME_BYTES}")
    if len(config.description.encode()) > MAX_DESCRIPTION_BYTES:
        raise invalid(f"stream description is too long, maximum allowed is {MAX_DESCRIPTION_BYTES}")
    metadata_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in config.metadata.items())
    if metadata_bytes > MAX_METADATA_BYTES:
        raise invalid(f"stream metadata exceeds maximum size of {MAX_METADATA_BYTES} bytes")


def _complete_counts(config: StreamConfig, *, pedantic: bool) -> None:
    if config.num_replicas == 0:
        config.num_replicas = 1
    if config.num_replicas > MAX_REPLICAS:
        raise invalid(f"maximum replicas is {MAX_REPLICAS}")
    if config.num_replicas < 0:
        raise ApiError(Err.REPLICAS_NEGATIVE)
    for field in _COUNTS:
        value: int = getattr(config, field)
        if pedantic and value < -1:
            raise pedantic_refusal(f"{field} must be set to -1")
        if value == 0 or value < -1:
            setattr(config, field, -1)
    if config.first_seq > LARGEST_SEQ:
        raise invalid(f"first sequence can not be larger than {LARGEST_SEQ}")


def _check_age(config: StreamConfig) -> None:
    if config.max_age < 0:
        raise invalid("max age can not be negative")
    if 0 < config.max_age < _SHORTEST_AGE:
        raise invalid("max age needs to be >= 100ms")


def _complete_duplicate_window(config: StreamConfig, limit: int, *, pedantic: bool) -> None:
    if config.duplicate_window == 0 and config.mirror is None and not config.sources:
        window = DEFAULT_DUPLICATE_WINDOW
        if 0 < limit < window:
            if pedantic:
                raise pedantic_refusal("duplicate window limits are higher than current limits")
            window = limit
        if 0 < config.max_age < window:
            if pedantic:
                raise pedantic_refusal("duplicate window cannot be bigger than max age")
            window = config.max_age
        config.duplicate_window = window
    window = config.duplicate_window
    if window < 0:
        raise invalid("duplicates window can not be negative")
    if 0 < config.max_age < window:
        raise invalid("duplicates window can not be larger then max age")
    if 0 < limit < window:
        raise invalid(f"duplicates window can not be larger then server limit of {_duration(limit)}")
    if 0 < window < _SHORTEST_WINDOW:
        raise invalid("duplicates window needs to be >= 100ms")


def _check_counter(config: StreamConfig) -> None:
    if not config.allow_msg_counter:
        return
    if config.discard is DiscardPolicy.NEW:
        raise invalid("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise invalid("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise invalid("counter stream cannot use message schedules")
    if config.retention is not RetentionPolicy.LIMITS:
        raise invalid("counter stream can only use limits retention")


def _check_discard(config: StreamConfig) -> None:
    if not config.discard_new_per_subject:
        return
    if config.discard is not DiscardPolicy.NEW:
        raise invalid("discard new per subject requires discard new policy to be set")
    if config.max_msgs_per_subject <= 0:
        raise invalid("discard new per subject requires max msgs per subject > 0")


def _complete_delete_markers(config: StreamConfig, *, pedantic: bool) -> None:
    if config.subject_delete_marker_ttl < 0:
        raise invalid("subject delete marker TTL must not be negative")
    if config.subject_delete_marker_ttl == 0:
        return
    if config.subject_delete_marker_ttl < _SHORTEST_MARKER_TTL:
        raise invalid("subject delete marker TTL must be at least 1 second")
    if not config.allow_msg_ttl:
        if pedantic:
            raise invalid("subject delete marker cannot be set if message TTLs are disabled")
        config.allow_msg_ttl = True
    if not config.allow_rollup_hdrs:
        if pedantic:
            raise invalid("subject delete marker cannot be set if roll-ups are disabled")
        _allow_rollups(config)


def _complete_schedules(config: StreamConfig, *, pedantic: bool) -> None:
    if not config.allow_msg_schedules:
        return
    if config.discard is DiscardPolicy.NEW:
        raise invalid("message scheduling cannot use discard new")
    if not config.allow_rollup_hdrs:
        if pedantic:
            raise invalid("message scheduling cannot be set if roll-ups are disabled")
        _allow_rollups(config)


def _allow_rollups(config: StreamConfig) -> None:
    config.allow_rollup_hdrs = True
    config.deny_purge = False  # a rollup is a purge


def _check_persist_mode(config: StreamConfig) -> None:
    if config.persist_mode is not PersistMode.ASYNC:
        return
    if config.storage is not StorageType.FILE:
        raise invalid("async persist mode is only supported on file storage")
    if config.num_replicas > 1:
        raise invalid("async persist mode is not supported on replicated streams")
    if config.allow_atomic:
        raise invalid("async persist mode is not supported with atomic batch publish")


def _duration(nanoseconds: int) -> str:
    """Format a duration as Go does; limits come from configuration files and are whole milliseconds."""
    if nanoseconds < _SECOND:
        return f"{nanoseconds / _MILLISECOND:g}ms"
    minutes, rest = divmod(nanoseconds, 60 * _SECOND)
    text = f"{rest / _SECOND:.10g}s"
    if not minutes:
        return text
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"
