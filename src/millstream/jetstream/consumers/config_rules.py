"""The rules for a completed consumer configuration, by itself and with its stream's.

They are in nats-server's order, because a client sees only the first violation.

Not here: other consumers of the stream and what an update may change (config), the subject of the request
(config_names).
"""

import re
from typing import Final

from millstream.base.decimals import read_integer
from millstream.golang.duration import format_duration
from millstream.golang.quote import quoted
from millstream.jetstream.config.values import invalid, valid_name
from millstream.jetstream.consumers.config_defaults import FLOW_CONTROL_ACK_HEARTBEAT, ConsumerLimits
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, DeliverPolicy, PriorityPolicy, RetentionPolicy
from millstream.jsapi.errors import ApiError, Err
from millstream.jsapi.limits import MAX_DESCRIPTION_BYTES, MAX_METADATA_BYTES
from millstream.jsapi.stream_types import StreamConfig
from millstream.subjects.match import is_subset
from millstream.subjects.overlap import PatternSet
from millstream.subjects.tokens import is_literal, valid_subject

_MOST_STEPS: Final = 50_000  # of comparing filters; what takes more is slow for every message, too
_MILLISECOND: Final = 1_000_000
_SHORTEST_HEARTBEAT: Final = 100 * _MILLISECOND
_INTEGER_END: Final = 2**63
_GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_BAD_SUBJECT: Final = "invalid subject"
# How refusals call the policies that take no start, and how those that take one.
_WITHOUT_START: Final = {
    DeliverPolicy.ALL: "all",
    DeliverPolicy.LAST: "last",
    DeliverPolicy.LAST_PER_SUBJECT: "last per subject",
    DeliverPolicy.NEW: "new",
}


def filters_of(config: ConsumerConfig) -> list[str]:
    """Return the consumer's filter subjects; none means all."""
    return (
        [*config.filter_subjects, config.filter_subject] if config.filter_subject else config.filter_subjects
    )


def valid_group_name(group: str) -> bool:
    return _GROUP_NAME.fullmatch(group) is not None


def check_values(config: ConsumerConfig, stream: StreamConfig, limits: ConsumerLimits) -> None:
    """Raise ApiError if the configuration violates a rule."""
    _check_names(config)
    _check_replicas(config, stream)
    _check_redelivery(config)
    if len(config.description.encode()) > MAX_DESCRIPTION_BYTES:
        raise ApiError(Err.CONSUMER_DESCRIPTION_TOO_LONG, max=MAX_DESCRIPTION_BYTES)
    if config.deliver_subject:
        _check_push(config, stream)
    else:
        _check_pull(config, stream, limits)
    _check_limits(config, stream, limits)
    if config.direct:
        if not config.deliver_subject:
            raise ApiError(Err.CONSUMER_DIRECT_REQUIRES_PUSH)
        if config.durable_name:
            raise ApiError(Err.CONSUMER_DIRECT_REQUIRES_EPHEMERAL)
    _check_filters(config)
    _check_start(config)
    _check_sampling(config.sample_freq)
    if config.flow_control and config.idle_heartbeat == 0:
        raise ApiError(Err.CONSUMER_FLOW_CONTROL_NEEDS_HEARTBEATS)
    if config.durable_name and config.name and config.name != config.durable_name:
        raise ApiError(Err.CONSUMER_DURABLE_AND_NAME_MISMATCH)
    metadata_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in config.metadata.items())
    if metadata_bytes > MAX_METADATA_BYTES:
        raise ApiError(Err.CONSUMER_METADATA_TOO_LARGE, limit=f"{MAX_METADATA_BYTES // 1024}KB")
    _check_priority_groups(config)


def _check_names(config: ConsumerConfig) -> None:
    if config.name and not valid_name(config.name):
        raise invalid("consumer name can not contain '.', '*', '>', '\\', '/'")
    if config.durable_name and not valid_name(config.durable_name):
        raise invalid("consumer durable name can not contain '.', '*', '>', '\\', '/'")


def _check_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.num_replicas > 0 and config.num_replicas > stream.num_replicas:
        raise ApiError(Err.CONSUMER_REPLICAS_EXCEEDS_STREAM)
    if config.num_replicas < 0:
        raise ApiError(Err.REPLICAS_NEGATIVE)
    if stream.retention is not RetentionPolicy.LIMITS and config.num_replicas not in (0, stream.num_replicas):
        raise ApiError(Err.CONSUMER_REPLICAS_MUST_MATCH_STREAM)


def _check_redelivery(config: ConsumerConfig) -> None:
    if any(wait < 0 for wait in config.backoff):
        raise ApiError(Err.CONSUMER_BACKOFF_NEGATIVE)
    if config.ack_wait < 0:
        raise ApiError(Err.CONSUMER_ACK_WAIT_NEGATIVE)
    if config.ack_policy is AckPolicy.FLOW_CONTROL:
        _check_flow_control_acks(config)
    if config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise ApiError(Err.CONSUMER_MAX_DELIVER_BACKOFF)


def _check_flow_control_acks(config: ConsumerConfig) -> None:
    if not config.deliver_subject:
        raise ApiError(Err.FLOW_CONTROL_ACK_REQUIRES_PUSH)
    if not config.flow_control:
        raise ApiError(Err.FLOW_CONTROL_ACK_REQUIRES_FLOW_CONTROL)
    if config.idle_heartbeat != FLOW_CONTROL_ACK_HEARTBEAT:
        raise invalid("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise ApiError(Err.FLOW_CONTROL_ACK_REQUIRES_MAX_ACK_PENDING)
    if config.ack_wait != 0 or config.backoff:
        raise ApiError(Err.FLOW_CONTROL_ACK_REQUIRES_NO_ACK_WAIT)
    if config.max_deliver > 0:
        raise ApiError(Err.FLOW_CONTROL_ACK_REQUIRES_NO_MAX_DELIVER)


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    subject = config.deliver_subject.encode()
    if not is_literal(subject):
        raise ApiError(Err.CONSUMER_DELIVER_SUBJECT_WILDCARDS)
    if not valid_subject(subject):
        raise ApiError(Err.CONSUMER_INVALID_DELIVER_SUBJECT)
    if any(is_subset(subject, taken.encode()) for taken in stream.subjects):
        raise ApiError(Err.CONSUMER_DELIVER_CYCLE)
    if config.max_waiting != 0:
        raise ApiError(Err.CONSUMER_PUSH_MAX_WAITING)
    if config.max_ack_pending > 0 and config.ack_policy is AckPolicy.NONE:
        raise ApiError(Err.CONSUMER_MAX_ACK_PENDING_REQUIRES_ACK_POLICY)
    if 0 < config.idle_heartbeat < _SHORTEST_HEARTBEAT:
        raise ApiError(Err.CONSUMER_SMALL_HEARTBEAT)


def _check_pull(config: ConsumerConfig, stream: StreamConfig, limits: ConsumerLimits) -> None:
    if config.ack_policy is AckPolicy.NONE and stream.retention is RetentionPolicy.WORKQUEUE:
        raise ApiError(Err.CONSUMER_PULL_REQUIRES_EXPLICIT_ACK)
    if config.rate_limit_bps > 0:
        raise ApiError(Err.CONSUMER_PULL_WITH_RATE_LIMIT)
    if config.idle_heartbeat > 0:
        raise ApiError(Err.CONSUMER_HEARTBEAT_REQUIRES_PUSH)
    if config.flow_control:
        raise ApiError(Err.CONSUMER_FLOW_CONTROL_REQUIRES_PUSH)
    if 0 < config.max_expires < _MILLISECOND:
        raise ApiError(Err.CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL)
    most = limits.server.max_request_batch
    if 0 < most < config.max_batch:
        raise ApiError(Err.CONSUMER_MAX_REQUEST_BATCH_EXCEEDED, limit=most)


def _check_limits(config: ConsumerConfig, stream: StreamConfig, limits: ConsumerLimits) -> None:
    of_stream = stream.consumer_limits
    for most in (limits.server.max_ack_pending, limits.account.max_ack_pending, of_stream.max_ack_pending):
        if 0 < most < config.max_ack_pending:
            raise ApiError(Err.CONSUMER_MAX_ACK_PENDING_EXCESS, limit=most)
    if 0 < of_stream.inactive_threshold < config.inactive_threshold:
        longest = format_duration(of_stream.inactive_threshold)
        raise ApiError(Err.CONSUMER_INACTIVE_THRESHOLD_EXCESS, limit=longest)


def _check_filters(config: ConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise ApiError(Err.CONSUMER_BOTH_FILTER_FORMS)
    if "" in config.filter_subjects:
        raise ApiError(Err.CONSUMER_EMPTY_FILTER)
    filters = [subject.encode() for subject in filters_of(config)]
    patterns = PatternSet(_MOST_STEPS)
    for subject in filters:
        patterns.add(subject)
    for subject in filters:
        if not valid_subject(subject):
            raise invalid(_BAD_SUBJECT)
        if patterns.covers_twice(subject):
            raise ApiError(Err.CONSUMER_OVERLAPPING_SUBJECT_FILTERS)


def _check_start(config: ConsumerConfig) -> None:
    policy, by_sequence, by_time = (
        config.deliver_policy,
        config.opt_start_seq > 0,
        config.opt_start_time is not None,
    )
    if policy is DeliverPolicy.BY_START_SEQUENCE:
        if not by_sequence:
            raise _start_missing("by start sequence", "start sequence")
        if by_time:
            raise _start_in_excess("by start sequence", "time")
    elif policy is DeliverPolicy.BY_START_TIME:
        if not by_time:
            raise _start_missing("by start time", "start time")
        if by_sequence:
            raise _start_in_excess("by start time", "start sequence")
    else:
        if by_sequence:
            raise _start_in_excess(_WITHOUT_START[policy], "sequence")
        if by_time:
            raise _start_in_excess(_WITHOUT_START[policy], "time")
        if policy is DeliverPolicy.LAST_PER_SUBJECT and not filters_of(config):
            raise _start_missing("last per subject", "filter subject")


def _start_missing(policy: str, what: str) -> ApiError:
    text = f"consumer delivery policy is deliver {policy}, but optional {what} is not set"
    return ApiError(Err.CONSUMER_DELIVERY_POLICY_CONFLICT, err=text)


def _start_in_excess(policy: str, what: str) -> ApiError:
    text = f"consumer delivery policy is deliver {policy}, but optional start {what} is also set"
    return ApiError(Err.CONSUMER_DELIVERY_POLICY_CONFLICT, err=text)


def _check_sampling(frequency: str) -> None:
    if not frequency:
        return
    number = frequency.removesuffix("%")
    percent = read_integer(number)
    if percent is None:
        complaint = f"strconv.Atoi: parsing {quoted(number)}: invalid syntax"
    elif not -_INTEGER_END <= percent < _INTEGER_END:
        complaint = f"strconv.Atoi: parsing {quoted(number)}: value out of range"
    elif percent < 0:
        complaint = "<nil>"  # the number could be read, so there is nothing to complain of
    else:
        return
    raise ApiError(Err.CONSUMER_SAMPLING_INVALID, err=complaint)


def _check_priority_groups(config: ConsumerConfig) -> None:
    if config.priority_policy is PriorityPolicy.NONE:
        if config.priority_groups:
            raise ApiError(Err.CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE)
        if config.priority_timeout > 0:
            raise ApiError(Err.CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY)
        return
    if config.deliver_subject:
        raise ApiError(Err.CONSUMER_PUSH_WITH_PRIORITY_GROUP)
    if not config.priority_groups:
        raise ApiError(Err.CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP)
    for group in config.priority_groups:
        if not group:
            raise ApiError(Err.CONSUMER_EMPTY_GROUP_NAME)
        if not valid_group_name(group):
            raise ApiError(Err.CONSUMER_INVALID_GROUP_NAME)
