"""The configuration of consumers and the information reported about them.

The default of a field is the zero value of its type: what an absent field of a request means before the
server applies its own defaults.  Durations are nanoseconds.
"""

import msgspec

from millstream.golang.time import ZERO_TIME, Time
from millstream.jsapi.enums import AckPolicy, DeliverPolicy, PriorityPolicy, ReplayPolicy
from millstream.jsapi.go_types import (
    Duration,
    Int,
    Struct,
    UInt64,
    always,
    always_new,
    no_items,
    no_members,
)
from millstream.jsapi.stream_types import ClusterInfo


class ConsumerConfig(Struct):
    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = always(DeliverPolicy.ALL)
    opt_start_seq: UInt64 = 0
    opt_start_time: Time | None = None
    ack_policy: AckPolicy = always(AckPolicy.NONE)
    ack_wait: Duration = 0
    max_deliver: Int = 0
    backoff: list[Duration] = no_items()
    filter_subject: str = ""
    filter_subjects: list[str] = no_items()
    replay_policy: ReplayPolicy = always(ReplayPolicy.INSTANT)
    rate_limit_bps: UInt64 = 0  # bits per second
    sample_freq: str = ""
    max_waiting: Int = 0
    max_ack_pending: Int = 0
    flow_control: bool = False
    headers_only: bool = False
    # Limits of a pull request.
    max_batch: Int = 0
    max_expires: Duration = 0
    max_bytes: Int = 0
    # Where a push consumer delivers.
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: Duration = 0
    inactive_threshold: Duration = 0
    num_replicas: Int = always(0)
    mem_storage: bool = False
    # Consumers of mirrors and sources, hidden from clients.
    direct: bool = False
    sourcing: bool = False
    metadata: dict[str, str] = no_members()
    pause_until: Time | None = None
    priority_groups: list[str] = no_items()
    priority_policy: PriorityPolicy = PriorityPolicy.NONE
    priority_timeout: Duration = 0


class SequenceInfo(Struct):
    """A position in the stream and in the deliveries of a consumer."""

    consumer_seq: UInt64 = always(0)
    stream_seq: UInt64 = always(0)
    last_active: Time | None = None


class PriorityGroupState(Struct):
    group: str = always("")
    pinned_client_id: str = ""
    pinned_ts: Time = always(ZERO_TIME)


class DeadLetterState(Struct):
    """The dead letters of a consumer since the server started."""

    subject: str = always("")
    stored: UInt64 = always(0)
    waiting: Int = always(0)  # messages that stay pending because their letters cannot be stored
    error: str = ""  # why they cannot


class ConsumerInfo(Struct):
    stream_name: str = always("")
    name: str = always("")
    created: Time = always(ZERO_TIME)
    config: ConsumerConfig | None = None
    delivered: SequenceInfo = always_new(SequenceInfo)
    ack_floor: SequenceInfo = always_new(SequenceInfo)
    num_ack_pending: Int = always(0)
    num_redelivered: Int = always(0)
    num_waiting: Int = always(0)
    num_pending: UInt64 = always(0)
    cluster: ClusterInfo | None = None
    push_bound: bool = False
    paused: bool = False
    pause_remaining: Duration = 0
    ts: Time = always(ZERO_TIME)
    priority_groups: list[PriorityGroupState] = no_items()
    dead_letters: DeadLetterState | None = None  # nats-server has none


class ConsumerState(msgspec.Struct):
    """The position of a consumer, as servers store it.

    `sseq` is a sequence of the stream, `dseq` counts deliveries of the consumer, `at` is ns since 1970.
    """

    delivered_dseq: int = 0
    delivered_sseq: int = 0
    floor_dseq: int = 0
    floor_sseq: int = 0  # everything up to it is settled
    pending: dict[int, tuple[int, int]] = {}  # sseq: (dseq, at)
    redelivered: dict[int, int] = {}  # sseq: deliveries after the first

    def go_on(self, reserved: int, *, torn: bool) -> None:
        """Prepare the state for further deliveries: after `reserved`, with the right floor."""
        if reserved <= self.delivered_dseq and not torn:
            return
        self.delivered_dseq = max(self.delivered_dseq, reserved)
        if not self.pending:
            self.floor_dseq, self.floor_sseq = self.delivered_dseq, self.delivered_sseq
        elif torn:
            lowest = min(self.pending)
            self.floor_dseq = max(self.floor_dseq, self.pending[lowest][0] - 1)
            self.floor_sseq = max(self.floor_sseq, lowest - 1)
