"""The bodies of API requests; each docstring names the request."""

from millstream.golang.time import ZERO_TIME, Time
from millstream.jsapi.consumer_types import ConsumerConfig
from millstream.jsapi.enums import ConsumerAction
from millstream.jsapi.go_types import (
    Duration,
    Int,
    Int64,
    Struct,
    UInt64,
    always,
    always_new,
    embedded,
    no_items,
)
from millstream.jsapi.stream_types import StreamConfig, StreamState


class StreamConfigRequest(Struct):
    """STREAM.CREATE and STREAM.UPDATE."""

    config: StreamConfig = embedded(StreamConfig)
    pedantic: bool = False


class StreamNamesRequest(Struct):
    """STREAM.NAMES."""

    go_name = "JSApiStreamNamesRequest"

    offset: Int = always(0)
    subject: str = ""


class StreamListRequest(Struct):
    """STREAM.LIST."""

    go_name = "JSApiStreamListRequest"

    offset: Int = always(0)
    subject: str = ""


class StreamInfoRequest(Struct):
    """STREAM.INFO."""

    go_name = "JSApiStreamInfoRequest"

    offset: Int = always(0)
    deleted_details: bool = False
    subjects_filter: str = ""


class StreamPurgeRequest(Struct):
    """STREAM.PURGE: removes messages that match `filter`: those below `seq`, or all but the last `keep`."""

    go_name = "JSApiStreamPurgeRequest"

    seq: UInt64 = 0
    filter: str = ""
    keep: UInt64 = 0


class MsgGetRequest(Struct):
    """STREAM.MSG.GET and DIRECT.GET."""

    go_name = "JSApiMsgGetRequest"

    seq: UInt64 = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int = 0
    max_bytes: Int = 0
    start_time: Time | None = None
    multi_last: list[str] = no_items()
    up_to_seq: UInt64 = 0
    up_to_time: Time | None = None
    no_hdr: bool = False


class MsgDeleteRequest(Struct):
    """STREAM.MSG.DELETE."""

    go_name = "JSApiMsgDeleteRequest"

    seq: UInt64 = always(0)
    no_erase: bool = False


class StreamSnapshotRequest(Struct):
    """STREAM.SNAPSHOT."""

    go_name = "JSApiStreamSnapshotRequest"

    deliver_subject: str = always("")
    no_consumers: bool = False
    chunk_size: Int = 0
    window_size: Int = 0
    jsck: bool = False


class StreamRestoreRequest(Struct):
    """STREAM.RESTORE."""

    go_name = "JSApiStreamRestoreRequest"

    config: StreamConfig = always_new(StreamConfig)
    state: StreamState = always_new(StreamState)


class CreateConsumerRequest(Struct):
    """CONSUMER.CREATE and CONSUMER.DURABLE.CREATE."""

    stream_name: str = always("")
    config: ConsumerConfig = always_new(ConsumerConfig)
    action: ConsumerAction = always(ConsumerAction.CREATE_OR_UPDATE)
    pedantic: bool = False


class ConsumersRequest(Struct):
    """CONSUMER.NAMES and CONSUMER.LIST."""

    go_name = "JSApiConsumersRequest"

    offset: Int = always(0)


class ConsumerPauseRequest(Struct):
    """CONSUMER.PAUSE."""

    go_name = "JSApiConsumerPauseRequest"

    pause_until: Time = always(ZERO_TIME)


class ConsumerResetRequest(Struct):
    """CONSUMER.RESET."""

    go_name = "JSApiConsumerResetRequest"

    seq: UInt64 = 0


class ConsumerUnpinRequest(Struct):
    """CONSUMER.UNPIN."""

    go_name = "JSApiConsumerUnpinRequest"

    group: str = always("")


class NextRequest(Struct):
    """CONSUMER.MSG.NEXT, and the text after +NXT in an ack."""

    go_name = ""  # error messages leave it out

    expires: Duration = 0
    batch: Int = 0
    max_bytes: Int = 0
    no_wait: bool = False
    idle_heartbeat: Duration = 0
    group: str = ""
    min_pending: Int64 = 0
    min_ack_pending: Int64 = 0
    id: str = ""
    priority: Int = 0


class NakOptions(Struct):
    """The text after -NAK in an ack."""

    go_name = "ConsumerNakOptions"

    delay: Duration = always(0)
