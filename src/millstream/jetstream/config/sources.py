"""Rules for mirrors and sources.

The origin need not exist; if it does, it must be compatible.  Streams of other accounts or domains
(`external`) cannot be inspected, so only their prefixes are checked.
"""

from collections.abc import Mapping
from typing import Final

from millstream.golang.quote import quoted
from millstream.jetstream.config.subjects import check_transform, first_doubled, patterns_collide
from millstream.jetstream.config.values import invalid, pedantic_refusal, valid_name
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.names import API_PREFIX
from millstream.jsapi.stream_types import StreamConfig, StreamSource
from millstream.subjects.overlap import PatternSet
from millstream.subjects.tokens import valid_publish_subject, valid_subject

_ALL: Final = ">"
_MOST_STEPS: Final = 100_000  # comparisons between sources and their origins

Streams = Mapping[str, StreamConfig]


def complete_sources(config: StreamConfig, streams: Streams, *, pedantic: bool) -> None:
    """Apply the rules of this module to `config`; `streams` are those of its account, by name."""
    if config.mirror is not None:
        _check_mirror(config, config.mirror)
        if config.mirror.external is None:
            _complete_local_mirror(config, config.mirror, streams, pedantic=pedantic)
    if config.sources and config.allow_msg_schedules:
        raise ApiError(Err.SOURCE_WITH_MESSAGE_SCHEDULES)
    _check_sources(config, streams)
    _check_external_prefixes(config, streams)
    _check_cycles(config, streams)


def check_filters(config: StreamConfig) -> None:
    """Refuse invalid filter subjects; only the creation of a stream checks them."""
    for source, place in [(config.mirror, "the mirror"), *((each, "the source:") for each in config.sources)]:
        if source is None or source.subject_transforms or not source.filter_subject:
            continue
        if not valid_subject(source.filter_subject.encode()):
            raise ApiError(
                Err.STREAM_CREATE_FAILED,
                err=f"subject filter '{source.filter_subject}' for {place} invalid subject",
            )


def _check_mirror(config: StreamConfig, mirror: StreamSource) -> None:
    if config.first_seq > 0:
        raise ApiError(Err.MIRROR_WITH_FIRST_SEQUENCE)
    if config.subjects:
        raise ApiError(Err.MIRROR_WITH_SUBJECTS)
    if config.sources:
        raise ApiError(Err.MIRROR_WITH_SOURCES)
    if config.allow_msg_counter:
        raise ApiError(Err.MIRROR_WITH_COUNTERS)
    if config.allow_atomic:
        raise ApiError(Err.MIRROR_WITH_ATOMIC_PUBLISH)
    if config.allow_batched:
        raise ApiError(Err.MIRROR_WITH_BATCH_PUBLISH)
    if config.allow_msg_schedules:
        raise ApiError(Err.MIRROR_WITH_MESSAGE_SCHEDULES)
    _check_consumer(mirror, Err.MIRROR_CONSUMER_CONFIG_INVALID)
    if mirror.filter_subject and mirror.subject_transforms:
        raise ApiError(Err.MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED)
    if config.subject_delete_marker_ttl > 0:
        # Markers would use sequences that the origin assigns to other messages.
        raise invalid("subject delete markers forbidden on mirrors")
    doubled = first_doubled([transform.src for transform in mirror.subject_transforms])
    for index, transform in enumerate(mirror.subject_transforms):
        check_transform(
            transform, Err.MIRROR_INVALID_SUBJECT_FILTER, Err.MIRROR_INVALID_TRANSFORM_DESTINATION
        )
        if index == doubled:
            raise ApiError(Err.MIRROR_OVERLAPPING_SUBJECT_FILTERS)


def _complete_local_mirror(
    config: StreamConfig, mirror: StreamSource, streams: Streams, *, pedantic: bool
) -> None:
    if not valid_name(mirror.name):
        raise ApiError(Err.MIRROR_INVALID_STREAM_NAME)
    origin = streams.get(mirror.name)
    if origin is None:
        return
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise ApiError(Err.MIRROR_MAX_MESSAGE_SIZE_TOO_BIG)
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise pedantic_refusal("origin stream has direct get set, mirror has it disabled")
    config.mirror_direct = origin.allow_direct


def _check_sources(config: StreamConfig, streams: Streams) -> None:
    seen: set[tuple[object, ...]] = set()
    consumers: set[tuple[object, ...]] = set()
    for source in config.sources:
        if not valid_name(source.name):
            raise ApiError(Err.SOURCE_INVALID_STREAM_NAME)
        _add_new(seen, source_identity(source), Err.SOURCE_DUPLICATE)
        if source.filter_subject and source.subject_transforms:
            raise ApiError(Err.SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED)
        for transform in source.subject_transforms:
            check_transform(
                transform, Err.SOURCE_INVALID_SUBJECT_FILTER, Err.SOURCE_INVALID_TRANSFORM_DESTINATION
            )
        filters = [transform.src.encode() for transform in source.subject_transforms]
        patterns = PatternSet()
        for each in filters:
            patterns.add(each)
        if any(patterns.covers_twice(each) for each in filters):
            raise ApiError(Err.SOURCE_OVERLAPPING_SUBJECT_FILTERS)
        if source.consumer is not None:
            _check_consumer(source, Err.SOURCE_CONSUMER_CONFIG_INVALID)
            reader = (source.name, _api_of(source), source.consumer.name)
            _add_new(consumers, reader, Err.SOURCE_CONSUMER_DUPLICATE)
        origin = streams.get(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise ApiError(Err.SOURCE_MAX_MESSAGE_SIZE_TOO_BIG)


def source_identity(source: StreamSource) -> tuple[object, ...]:
    """Return a key that is equal for two entries of the same source."""
    if source.subject_transforms:
        mappings = tuple((each.src or _ALL, each.dest or _ALL) for each in source.subject_transforms)
    else:
        mappings = ((source.filter_subject or _ALL, _ALL),)
    consumer = None if source.consumer is None else source.consumer.name
    return source.name, _api_of(source), consumer, mappings


def _api_of(source: StreamSource) -> str | None:
    return None if source.external is None else source.external.api


def _add_new(seen: set[tuple[object, ...]], identity: tuple[object, ...], refusal: Err) -> None:
    if identity in seen:
        raise ApiError(refusal)
    seen.add(identity)


def _check_consumer(source: StreamSource, refusal: Err) -> None:
    """Refuse start and filter of a source with a durable consumer, which has its own."""
    consumer = source.consumer
    if consumer is not None and (
        not valid_name(consumer.name)
        or not valid_publish_subject(consumer.deliver_subject.encode())
        or source.opt_start_seq != 0
        or source.opt_start_time is not None
        or source.filter_subject
    ):
        raise ApiError(refusal)


def _check_external_prefixes(config: StreamConfig, streams: Streams) -> None:
    origins = [config.mirror] if config.mirror is not None else []
    origins += config.sources
    externals = [source.external for source in origins if source.external is not None]
    local = [streams[source.name] for source in origins if source.external is None and source.name in streams]
    effort = _Effort()
    for prefix in [external.deliver for external in externals if external.deliver]:
        if not valid_publish_subject(prefix.encode()):
            raise ApiError(Err.STREAM_EXTERNAL_DELIVERY_PREFIX_WILDCARDS, prefix=prefix)
        for subject in [subject for stream in local for subject in stream.subjects]:
            effort.spend()
            if patterns_collide(subject, f"{prefix}.{subject}"):
                raise ApiError(Err.STREAM_EXTERNAL_DELIVERY_PREFIX_OVERLAPS, prefix=prefix, subject=subject)
    for prefix in [external.api for external in externals if external.api]:
        if not valid_publish_subject(prefix.encode()):
            raise invalid(
                f"stream external api prefix {quoted(prefix)} must be a valid subject without wildcards"
            )
        if patterns_collide(prefix, API_PREFIX):
            raise ApiError(Err.STREAM_EXTERNAL_API_OVERLAPS, prefix=prefix, subject=API_PREFIX)


def _check_cycles(config: StreamConfig, streams: Streams) -> None:
    """Refuse cycles: follow sources and mirrors breadth first, and check whether messages come back."""
    to_visit = [config]
    visited: set[str] = set()
    effort = _Effort()
    for stream in to_visit:  # grows during the iteration
        visited.add(stream.name)
        taken = PatternSet()
        for subject in stream.subjects if stream.sources else ():
            taken.add(subject.encode())
        for source in stream.sources:
            effort.spend()
            if source.external is not None:
                continue
            if source.name not in visited:
                if to_visit[-1].name != source.name:  # several filters of one origin are one path to it
                    to_visit += _existing(streams, source.name)
            elif not source.filter_subject or taken.collides(source.filter_subject.encode()):
                raise invalid("detected cycle")
        if stream.mirror is not None and stream.mirror.external is None:
            if stream.mirror.name in visited:
                raise invalid("detected cycle")
            to_visit += _existing(streams, stream.mirror.name)


def _existing(streams: Streams, name: str) -> list[StreamConfig]:
    return [streams[name]] if name in streams else []


class _Effort:
    """Limits work that grows with the product of two lists, so that no request blocks the others."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise invalid("sources, and the streams that they lead to, are too many to compare")
