"""Validate consumer configurations: complete a request, check an update, refuse with the right error.

Pure functions over values: the request, the configuration of the stream, those of its consumers by name, and
the limits.  They behave as nats-server 2.15.1 does on a single node, with refusals in its order, because
clients see only the first.  Arguments are not modified.

    wanted = settle_name(CreateSubject.of(Form.NAMED, place), request)
    stored = check(wanted, stream, consumers, limits, action=request.action, pedantic=request.pedantic)
    shown = decorated(stored, version)

An empty list and no list are the same configuration here; nats-server distinguishes them until it is
restarted.

Not here: what a configuration does to the consumer, and the single rules (the modules beside this one).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from millstream.golang.time import ZERO_TIME, Time
from millstream.jetstream.config.metadata import decorated, with_level, without_required_level
from millstream.jetstream.consumers.config_defaults import (
    ConsumerLimits,
    complete_inactive_threshold,
    complete_values,
)
from millstream.jetstream.consumers.config_names import CreateSubject, Form, settle_name, settle_sourcing
from millstream.jetstream.consumers.config_rules import check_values, filters_of, valid_group_name
from millstream.jetstream.consumers.config_sharing import CheckedConfigs, SharedSubjects
from millstream.jsapi.codec import encode
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import (
    AckPolicy,
    ConsumerAction,
    DeliverPolicy,
    PriorityPolicy,
    RetentionPolicy,
    StorageType,
)
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import MAX_NAME_BYTES
from millstream.jsapi.stream_types import StreamConfig

__all__ = [
    "ConsumerLimits",
    "CreateSubject",
    "Form",
    "check",
    "check_new",
    "check_update",
    "complete",
    "counts",
    "decorated",
    "filters_of",
    "name_of",
    "paused",
    "required_level",
    "same",
    "settle_name",
    "settle_sourcing",
    "valid_group_name",
]

_PRIORITY_LEVEL: Final = 1
_FLOW_CONTROL_ACK_LEVEL: Final = 4

Consumers = Mapping[str, ConsumerConfig]


def name_of(config: ConsumerConfig) -> str:
    """Return the consumer's name; empty if the server chooses one."""
    return config.durable_name or config.name


def required_level(config: ConsumerConfig) -> int:
    """Return the lowest API level that a server needs to serve this consumer."""
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        return _FLOW_CONTROL_ACK_LEVEL
    if (
        config.pause_until not in (None, ZERO_TIME)
        or config.priority_policy is not PriorityPolicy.NONE
        or config.priority_timeout != 0
        or config.priority_groups
    ):
        return _PRIORITY_LEVEL
    return 0


def complete(
    config: ConsumerConfig, stream: StreamConfig, limits: ConsumerLimits, *, pedantic: bool = False
) -> ConsumerConfig:
    """Return the configuration with the server's defaults; raise ApiError if it is invalid."""
    # First, so that what is about to be corrected counts, as in the reference.
    completed = with_level(config, required_level(config))
    complete_values(completed, stream, limits, pedantic=pedantic)
    check_values(completed, stream, limits)
    return completed


def check(
    config: ConsumerConfig,
    stream: StreamConfig,
    consumers: Consumers,
    limits: ConsumerLimits,
    *,
    action: ConsumerAction = ConsumerAction.CREATE_OR_UPDATE,
    pedantic: bool = False,
    bound: bool = False,
    counted: int | None = None,
) -> ConsumerConfig:
    """Return the configuration to store for a request; raise ApiError.

    See `check_new` and `check_update`.
    """
    old = consumers.get(name_of(config))
    if old is not None:
        return check_update(
            old, config, stream, consumers, limits, action=action, pedantic=pedantic, bound=bound
        )
    return check_new(config, stream, consumers, limits, action=action, pedantic=pedantic, counted=counted)


def check_new(
    config: ConsumerConfig,
    stream: StreamConfig,
    consumers: Consumers,
    limits: ConsumerLimits,
    *,
    action: ConsumerAction = ConsumerAction.CREATE_OR_UPDATE,
    pedantic: bool = False,
    counted: int | None = None,
) -> ConsumerConfig:
    """Return the configuration to store for a new consumer; raise ApiError.

    `counted` is the number of `consumers` that count towards limits, if the caller knows it.
    """
    new = complete(config, stream, limits, pedantic=pedantic)
    if action is ConsumerAction.UPDATE:
        raise ApiError(Err.CONSUMER_DOES_NOT_EXIST)
    if counts(new):
        if counted is None:
            counted = sum(1 for other in consumers.values() if counts(other))
        _check_count(counted, stream, limits)
        if stream.retention is RetentionPolicy.WORKQUEUE:
            _check_work_queue(new, consumers, others=counted > 0)
    _check_storable(new, stream)
    complete_inactive_threshold(new, durable=bool(new.durable_name))
    return new


def check_update(
    old: ConsumerConfig,
    config: ConsumerConfig,
    stream: StreamConfig,
    consumers: Consumers,
    limits: ConsumerLimits,
    *,
    action: ConsumerAction = ConsumerAction.CREATE_OR_UPDATE,
    pedantic: bool = False,
    bound: bool = False,
) -> ConsumerConfig:
    """Return the configuration to store in place of `old`; raise ApiError.

    `bound`: the deliver subject has a subscriber and therefore cannot change.
    """
    config = msgspec.structs.replace(config, pause_until=old.pause_until)  # there is a request of its own
    if config.sourcing and config.durable_name:  # who asks does not know how far the consumer is
        config.deliver_policy = old.deliver_policy
        config.opt_start_seq = old.opt_start_seq
        config.opt_start_time = old.opt_start_time
    new = complete(config, stream, limits, pedantic=pedantic)
    if action is ConsumerAction.CREATE and not same(new, old):
        raise ApiError(Err.CONSUMER_ALREADY_EXISTS)
    if stream.retention is RetentionPolicy.WORKQUEUE and not _unique(
        name_of(new), filters_of(new), consumers
    ):
        raise ApiError(Err.WORKQUEUE_CONSUMER_NOT_UNIQUE)
    _check_changes(old, new, bound=bound)
    if new.inactive_threshold != old.inactive_threshold:
        complete_inactive_threshold(new, durable=bool(old.durable_name))
    if new.pause_until is not None:
        new.pause_until = Time(new.pause_until)
    return new


def paused(config: ConsumerConfig, until: Time | None) -> ConsumerConfig:
    """Return the configuration with another end of its pause, or without a pause."""
    changed = msgspec.structs.replace(config, pause_until=Time(until) if until is not None else None)
    return with_level(changed, required_level(changed))


def same(one: ConsumerConfig, other: ConsumerConfig) -> bool:
    """Return True if two completed configurations are equal, whatever server completed them."""
    # Compared as JSON, since times that are equal may be written in different zones.
    return encode(without_required_level(one)) == encode(without_required_level(other))


def counts(config: ConsumerConfig) -> bool:
    """Return True if it is a client's consumer, not one of a mirror or source."""
    return not (config.direct or config.sourcing)


def _check_count(counted: int, stream: StreamConfig, limits: ConsumerLimits) -> None:
    most, of_account = stream.max_consumers, limits.account.max_consumers
    if most <= 0 or 0 < of_account < most:
        most = of_account
    if most <= 0:
        most = limits.server.default_max_consumers
    if 0 < most <= counted:
        raise ApiError(Err.MAXIMUM_CONSUMERS_REACHED)


def _check_work_queue(config: ConsumerConfig, consumers: Consumers, *, others: bool) -> None:
    if config.ack_policy not in (AckPolicy.EXPLICIT, AckPolicy.FLOW_CONTROL):
        raise ApiError(Err.WORKQUEUE_REQUIRES_EXPLICIT_ACK)
    if config.deliver_policy is not DeliverPolicy.ALL:
        raise ApiError(Err.WORKQUEUE_CONSUMER_NOT_DELIVER_ALL)
    if others:
        filters = filters_of(config)
        if not filters:
            raise ApiError(Err.WORKQUEUE_MULTIPLE_UNFILTERED)
        if not _unique(name_of(config), filters, consumers):
            raise ApiError(Err.WORKQUEUE_CONSUMER_NOT_UNIQUE)


def _unique(name: str, filters: list[str], consumers: Consumers) -> bool:
    """Return True if no other consumer shares a subject with `filters`; no filters is not checked here."""
    if not isinstance(consumers, SharedSubjects):
        consumers = CheckedConfigs(consumers)
    others = {other for each in filters for other in consumers.sharing(each.encode())}
    return not any(other != name and counts(consumers[other]) for other in others)


def _check_storable(config: ConsumerConfig, stream: StreamConfig) -> None:
    if len(config.durable_name.encode()) > MAX_NAME_BYTES:
        raise ApiError(Err.CONSUMER_NAME_TOO_LONG, max=MAX_NAME_BYTES)
    in_memory = config.mem_storage or config.direct or stream.storage is StorageType.MEMORY
    if not in_memory and ("\0" in config.name or len(config.name.encode()) > MAX_NAME_BYTES):
        # Nats-server keeps a consumer in a folder that is called as it is.
        raise ApiError(Err.CONSUMER_CREATE_FAILED, err="error creating store for consumer")


# What never changes, in the order in which clients hear of it.
_CONSTANT: Final = {
    "deliver_policy": "deliver policy",
    "mem_storage": "storage type",
    "direct": "direct",
    "sourcing": "sourcing",
    "opt_start_seq": "start sequence",
    "opt_start_time": "start time",  # equal if it is the same moment in another zone
    "ack_policy": "ack policy",
    "replay_policy": "replay policy",
    "idle_heartbeat": "heart beats",
    "flow_control": "flow control",
}


def _check_changes(old: ConsumerConfig, new: ConsumerConfig, *, bound: bool) -> None:
    for field, words in _CONSTANT.items():
        if getattr(old, field) != getattr(new, field):
            raise _unchangeable(f"{words} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise _unchangeable("can not update pull consumer to push based")
        if not new.deliver_subject:
            raise _unchangeable("can not update push consumer to pull based")
        if bound:
            raise ApiError(Err.CONSUMER_NAME_IN_USE)
    if old.max_waiting != new.max_waiting:
        raise _unchangeable("max waiting can not be updated")


def _unchangeable(text: str) -> ApiError:
    return ApiError(Err.CONSUMER_CREATE_FAILED, err=text)
