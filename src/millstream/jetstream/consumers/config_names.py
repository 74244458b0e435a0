"""The subject of a request to create a consumer, which its body must not contradict.

There are three forms, the first two older than names of ephemerals::

    CONSUMER.CREATE.<stream>                        an ephemeral
    CONSUMER.DURABLE.CREATE.<stream>.<durable>      a durable
    CONSUMER.CREATE.<stream>.<name>[.<filter>]      either
"""

from enum import Enum
from typing import Final, Self

import msgspec

from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, RetentionPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.requests import CreateConsumerRequest
from millstream.jsapi.stream_types import StreamConfig

_PATH_SEPARATORS: Final = frozenset("\\/")


class Form(Enum):
    EPHEMERAL = "ephemeral"
    DURABLE = "durable"
    NAMED = "named"


class CreateSubject(msgspec.Struct, frozen=True):
    """The content of a request's subject."""

    form: Form
    stream: str
    name: str = ""
    filter: str = ""

    @classmethod
    def of(cls, form: Form, place: str) -> Self:
        """Parse the subject after the verb: stream, name and filter, as far as the form has them."""
        stream, _, rest = place.partition(".")
        name, _, subject_filter = rest.partition(".")
        return cls(form, stream, name, subject_filter)


def settle_name(subject: CreateSubject, request: CreateConsumerRequest) -> ConsumerConfig:
    """Return the requested configuration with the name from the subject; raise ApiError."""
    config = msgspec.structs.replace(request.config)
    if subject.stream != request.stream_name:
        raise ApiError(Err.STREAM_NAME_MISMATCH)
    name = config.name if subject.form is Form.EPHEMERAL else subject.name
    if not _PATH_SEPARATORS.isdisjoint(name):
        raise ApiError(Err.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS)
    if subject.form is Form.EPHEMERAL:
        if config.durable_name:
            raise ApiError(Err.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME)
    else:
        if subject.form is Form.DURABLE and not config.durable_name:
            raise ApiError(Err.CONSUMER_DURABLE_NAME_NOT_SET)
        if config.durable_name and config.durable_name != name:
            raise ApiError(Err.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT)
        config.name = name
    if subject.filter:
        if config.filter_subjects:
            raise ApiError(Err.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED)
        if config.filter_subject != subject.filter:
            raise ApiError(Err.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH)
    if config.num_replicas > 1:
        raise ApiError(Err.REPLICAS_NOT_SUPPORTED)
    return config


def settle_sourcing(config: ConsumerConfig, stream: StreamConfig, suffix: str) -> ConsumerConfig:
    """Return the configuration of a consumer that a mirror or source of `stream` requested.

    It requests the same name every time.  Where its acks matter the consumer must be durable; elsewhere each
    attempt gets its own consumer, distinguished by `suffix`.
    """
    if not (config.direct and config.sourcing and config.name):
        return config
    if stream.retention is RetentionPolicy.LIMITS:
        return msgspec.structs.replace(config, name=f"{config.name}-{suffix}")
    return msgspec.structs.replace(
        config,
        direct=False,
        durable_name=config.name,
        ack_policy=AckPolicy.FLOW_CONTROL,
        ack_wait=0,
        max_deliver=0,
        inactive_threshold=0,
    )
