"""Fill in the defaults of a consumer's configuration, and correct invalid values.

A pedantic request is refused where the server would change a value.  Limits supply defaults here;
config_rules checks that nothing exceeds them.
"""

from typing import Final

import msgspec

from millstream.jetstream.config.values import pedantic_refusal
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamLimits
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import AckPolicy, PriorityPolicy
from millstream.jsapi.stream_types import StreamConfig

_SECOND: Final = 1_000_000_000
DEFAULT_ACK_WAIT: Final = 30 * _SECOND
DEFAULT_INACTIVE_THRESHOLD: Final = 5 * _SECOND  # of ephemerals
DEFAULT_MAX_ACK_PENDING: Final = 1000
DEFAULT_MAX_WAITING: Final = 512
DEFAULT_PRIORITY_TIMEOUT: Final = 120 * _SECOND
# Of consumers that acknowledge by flow control: one who gets no heartbeat for longer takes them for dead.
FLOW_CONTROL_ACK_HEARTBEAT: Final = _SECOND

_UNLIMITED: Final = AccountJetStreamOptions()
_NO_LIMITS: Final = JetStreamLimits()


class ConsumerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits for the configuration of a consumer, besides its stream's."""

    account: AccountJetStreamOptions = _UNLIMITED
    server: JetStreamLimits = _NO_LIMITS


# What may not be less than nothing, in the order in which clients hear of it.
_NOT_NEGATIVE: Final = (
    "max_batch",
    "max_expires",
    "max_bytes",
    "idle_heartbeat",
    "inactive_threshold",
    "priority_timeout",
)


def complete_values(
    config: ConsumerConfig, stream: StreamConfig, limits: ConsumerLimits, *, pedantic: bool
) -> None:
    """Fill the defaults into `config`; raise ApiError."""
    _mend_numbers(config, pedantic=pedantic)
    pull = not config.deliver_subject
    if pull and config.max_waiting == 0:
        config.max_waiting = DEFAULT_MAX_WAITING
    if config.ack_wait == 0 and config.ack_policy in (AckPolicy.EXPLICIT, AckPolicy.ALL):
        config.ack_wait = DEFAULT_ACK_WAIT
    if config.backoff:
        if pedantic and config.ack_wait != config.backoff[0]:
            raise pedantic_refusal("first backoff value has to equal batch AckWait")
        config.ack_wait = config.backoff[0]
    _take_from_stream(config, stream, pedantic=pedantic)
    if config.max_ack_pending == 0 and config.ack_policy is not AckPolicy.NONE:
        bounds = (limits.server.max_ack_pending, limits.account.max_ack_pending)
        config.max_ack_pending = min([DEFAULT_MAX_ACK_PENDING, *(each for each in bounds if each > 0)])
    if pull and config.max_batch == 0 and limits.server.max_request_batch > 0:
        if pedantic:
            raise pedantic_refusal("max_request_batch must be set if it's JetStream limits are set")
        config.max_batch = limits.server.max_request_batch
    if config.priority_policy is PriorityPolicy.PINNED_CLIENT and config.priority_timeout == 0:
        config.priority_timeout = DEFAULT_PRIORITY_TIMEOUT
    if config.ack_policy is AckPolicy.FLOW_CONTROL and not pedantic:
        config.flow_control = True
        config.idle_heartbeat = FLOW_CONTROL_ACK_HEARTBEAT


def _mend_numbers(config: ConsumerConfig, *, pedantic: bool) -> None:
    if config.max_deliver == 0 or config.max_deliver < -1:
        if pedantic and config.max_deliver < -1:
            raise pedantic_refusal("max_deliver must be set to -1")
        config.max_deliver = -1
    if config.max_waiting < 0:
        if pedantic:
            raise pedantic_refusal("max_waiting must not be negative")
        config.max_waiting = 0
    if config.max_ack_pending < -1:
        if pedantic:
            raise pedantic_refusal("max_ack_pending must be set to -1")
        config.max_ack_pending = -1
    for field in _NOT_NEGATIVE:
        if getattr(config, field) < 0:
            if pedantic:
                raise pedantic_refusal(f"{field} must not be negative")
            setattr(config, field, 0)


def _take_from_stream(config: ConsumerConfig, stream: StreamConfig, *, pedantic: bool) -> None:
    for field in ("max_ack_pending", "inactive_threshold"):
        limit: int = getattr(stream.consumer_limits, field)
        if getattr(config, field) == 0:
            if pedantic and limit > 0:
                raise pedantic_refusal(f"{field} must be set if it's configured in stream limits")
            setattr(config, field, limit)


def complete_inactive_threshold(config: ConsumerConfig, *, durable: bool) -> None:
    """Give an ephemeral a threshold; `durable` is what the consumer was, not what it will be."""
    if not durable and config.inactive_threshold <= 0:
        config.inactive_threshold = DEFAULT_INACTIVE_THRESHOLD
