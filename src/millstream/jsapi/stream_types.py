"""The configuration and state of streams and the information reported about them.

The default of a field is the zero value of its type: what an absent field of a request means before the
server applies its own defaults.  Durations are nanoseconds.
"""

from typing import Annotated

from millstream.golang.time import ZERO_TIME, Time
from millstream.jsapi.enums import DiscardPolicy, PersistMode, RetentionPolicy, StorageType, StoreCompression
from millstream.jsapi.errors import ErrorBody
from millstream.jsapi.go_types import (
    Duration,
    GoName,
    Int,
    Int32,
    Int64,
    Struct,
    UInt64,
    always,
    always_new,
    no_items,
    no_members,
)


class Placement(Struct):
    """The servers of a cluster on which a stream is placed."""

    cluster: str = ""
    tags: list[str] = no_items()
    preferred: str = ""


class SubjectTransformConfig(Struct):
    src: str = always("")
    dest: str = always("")


class ExternalStream(Struct):
    """The API prefix and delivery subject for a stream of another account or domain."""

    api: str = always("")
    deliver: str = always("")


class StreamConsumerSource(Struct):
    """The durable consumer through which a mirror or source reads."""

    name: str = ""
    deliver_subject: str = ""


class StreamSource(Struct):
    """The origin of a mirror, or one of the origins of a stream with sources."""

    name: str = always("")
    opt_start_seq: UInt64 = 0
    opt_start_time: Time | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransformConfig] = no_items()
    external: ExternalStream | None = None
    consumer: StreamConsumerSource | None = None


class RePublish(Struct):
    src: str = ""
    dest: str = always("")
    headers_only: bool = False


class StreamConsumerLimits(Struct):
    """Defaults and upper limits for the consumers of a stream."""

    inactive_threshold: Duration = 0
    max_ack_pending: Int = 0


class StreamConfig(Struct):
    name: str = always("")
    description: str = ""
    subjects: list[str] = no_items()
    retention: RetentionPolicy = always(RetentionPolicy.LIMITS)
    max_consumers: Int = always(0)
    max_msgs: Int64 = always(0)
    max_bytes: Int64 = always(0)
    max_age: Duration = always(0)
    max_msgs_per_subject: Int64 = always(0)
    max_msg_size: Int32 = 0
    discard: DiscardPolicy = always(DiscardPolicy.OLD)
    storage: StorageType = always(StorageType.FILE)
    num_replicas: Int = always(0)
    no_ack: bool = False
    duplicate_window: Duration = 0
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: Annotated[list[StreamSource], GoName("[]*server.StreamSource")] = no_items()
    compression: StoreCompression = always(StoreCompression.NONE)
    first_seq: UInt64 = 0
    subject_transform: SubjectTransformConfig | None = None
    republish: RePublish | None = None
    allow_direct: bool = always(False)
    mirror_direct: bool = always(False)
    discard_new_per_subject: bool = False
    sealed: bool = always(False)
    deny_delete: bool = always(False)
    deny_purge: bool = always(False)
    allow_rollup_hdrs: bool = always(False)
    consumer_limits: StreamConsumerLimits = always_new(StreamConsumerLimits)
    allow_msg_ttl: bool = always(False)
    subject_delete_marker_ttl: Duration = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: PersistMode = PersistMode.DEFAULT
    allow_batched: bool = False
    metadata: dict[str, str] = no_members()


class LostStreamData(Struct):
    """Messages that a damaged store has lost."""

    msgs: list[UInt64] | None = always(None)
    bytes: UInt64 = always(0)


class StreamState(Struct):
    messages: UInt64 = always(0)
    bytes: UInt64 = always(0)
    first_seq: UInt64 = always(0)
    first_ts: Time = always(ZERO_TIME)
    last_seq: UInt64 = always(0)
    last_ts: Time = always(ZERO_TIME)
    num_subjects: Int = 0
    subjects: dict[str, UInt64] = no_members()
    num_deleted: Int = 0
    deleted: list[UInt64] = no_items()
    lost: LostStreamData | None = None
    consumer_count: Int = always(0)


class StreamSourceInfo(Struct):
    """The progress of a mirror or source."""

    name: str = always("")
    external: ExternalStream | None = None
    lag: UInt64 = always(0)
    seq: UInt64 = 0  # the last sequence copied; not reported for mirrors
    active: Duration = always(0)  # since the origin was last heard from; -1: never
    error: ErrorBody | None = None
    filter_subject: str = ""
    subject_transforms: list[SubjectTransformConfig] = no_items()


class PeerInfo(Struct):
    """A server of a cluster that stores a stream or consumer."""

    name: str = always("")
    current: bool = always(False)
    offline: bool = False
    active: Duration = always(0)
    lag: UInt64 = 0
    peer: str = always("")
    pending: bool = False


class ClusterInfo(Struct):
    """The servers that store a stream or consumer; a single server names only itself."""

    name: str = ""
    raft_group: str = ""
    leader: str = ""
    leader_since: Time | None = None
    system_account: bool = False
    traffic_account: str = ""
    replicas: Annotated[list[PeerInfo], GoName("[]*server.PeerInfo")] = no_items()


class StreamAlternate(Struct):
    """A stream with the same messages in a nearer cluster."""

    name: str = always("")
    domain: str = ""
    cluster: str = always("")


class StreamInfo(Struct):
    config: StreamConfig = always_new(StreamConfig)
    created: Time = always(ZERO_TIME)
    state: StreamState = always_new(StreamState)
    domain: str = ""
    cluster: ClusterInfo | None = None
    mirror: StreamSourceInfo | None = None
    sources: Annotated[list[StreamSourceInfo], GoName("[]*server.StreamSourceInfo")] = no_items()
    alternates: list[StreamAlternate] = no_items()
    ts: Time = always(ZERO_TIME)


class StoredMessage(Struct):
    """A message in a STREAM.MSG.GET response."""

    go_name = "StoredMsg"

    subject: str = always("")
    seq: UInt64 = always(0)
    hdrs: bytes = b""
    data: bytes = b""
    time: Time = always(ZERO_TIME)
