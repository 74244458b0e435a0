"""Advisories and metrics of JetStream; all begin with the same three fields."""

from typing import Any

from millstream.golang.time import ZERO_TIME, Time
from millstream.jsapi.enums import AdvisoryAction, BatchAbandonReason
from millstream.jsapi.go_types import Duration, Int64, Struct, UInt64, always, always_new, no_items
from millstream.jsapi.names import advisory_type, metric_type
from millstream.jsapi.stream_types import StreamState


def _typed(name: str) -> Any:
    return always(advisory_type(name))


class ClientInfo(Struct):
    """The client that made a request; a part of the server itself has no host."""

    start: Time | None = None
    host: str = ""
    id: UInt64 = 0
    acc: str = ""
    svc: str = ""
    user: str = ""
    name: str = ""
    lang: str = ""
    ver: str = ""
    rtt: Duration = 0
    server: str = ""
    cluster: str = ""
    alts: list[str] = no_items()
    stop: Time | None = None
    jwt: str = ""
    issuer_key: str = ""
    name_tag: str = ""
    tags: list[str] = no_items()
    kind: str = ""
    client_type: str = ""
    client_id: str = ""
    nonce: str = ""
    reply: str = ""


class Event(Struct):
    """The fields that every advisory and metric begins with."""

    type: str = always("")
    id: str = always("")
    timestamp: Time = always(ZERO_TIME)


class ApiAudit(Event):
    """A request and its response, as JSON inside JSON."""

    type: str = _typed("api_audit")
    server: str = always("")
    client: ClientInfo | None = always(None)
    subject: str = always("")
    request: str = ""
    response: str = always("")
    domain: str = ""


class ApiLimitReached(Event):
    """Requests were dropped because too many were waiting; sent to the system account."""

    type: str = _typed("api_limit_reached")
    server: str = always("")
    domain: str = ""
    dropped: Int64 = always(0)


class ServerOutOfStorage(Event):
    """The server ran out of storage; sent to the system account."""

    type: str = _typed("server_out_of_space")
    server: str = always("")
    server_id: str = always("")
    stream: str = ""
    cluster: str = always("")
    domain: str = ""


# -- streams ----------------------------------------------------------------------------------------


class StreamActionAdvisory(Event):
    type: str = _typed("stream_action")
    stream: str = always("")
    action: AdvisoryAction = always(AdvisoryAction.CREATE)
    domain: str = ""


class SnapshotCreate(Event):
    type: str = _typed("snapshot_create")
    stream: str = always("")
    state: StreamState = always_new(StreamState)
    client: ClientInfo | None = always(None)
    domain: str = ""


class SnapshotComplete(Event):
    type: str = _typed("snapshot_complete")
    stream: str = always("")
    start: Time = always(ZERO_TIME)
    end: Time = always(ZERO_TIME)
    client: ClientInfo | None = always(None)
    domain: str = ""
    error: str = ""


class RestoreCreate(Event):
    type: str = _typed("restore_create")
    stream: str = always("")
    client: ClientInfo | None = always(None)
    domain: str = ""


class RestoreComplete(Event):
    type: str = _typed("restore_complete")
    stream: str = always("")
    start: Time = always(ZERO_TIME)
    end: Time = always(ZERO_TIME)
    bytes: Int64 = always(0)  # received
    client: ClientInfo | None = always(None)
    domain: str = ""


class BatchAbandoned(Event):
    type: str = _typed("stream_batch_abandoned")
    account: str = ""
    stream: str = always("")
    domain: str = ""
    batch: str = always("")
    reason: BatchAbandonReason = always(BatchAbandonReason.TIMEOUT)


# -- consumers --------------------------------------------------------------------------------------


class ConsumerActionAdvisory(Event):
    type: str = _typed("consumer_action")
    stream: str = always("")
    consumer: str = always("")
    action: AdvisoryAction = always(AdvisoryAction.CREATE)
    domain: str = ""


class ConsumerPause(Event):
    type: str = _typed("consumer_pause")
    stream: str = always("")
    consumer: str = always("")
    paused: bool = always(False)
    pause_until: Time = always(ZERO_TIME)
    domain: str = ""


class MaxDeliveries(Event):
    """A message reached `max_deliver` deliveries without an ack."""

    type: str = _typed("max_deliver")
    stream: str = always("")
    consumer: str = always("")
    stream_seq: UInt64 = always(0)
    deliveries: UInt64 = always(0)
    domain: str = ""
    dead_letter: str = ""  # the subject of its letter, if the consumer has dead letters of its own


class MessageNaked(Event):
    type: str = _typed("nak")
    stream: str = always("")
    consumer: str = always("")
    consumer_seq: UInt64 = always(0)
    stream_seq: UInt64 = always(0)
    deliveries: UInt64 = always(0)
    domain: str = ""


class MessageTerminated(Event):
    type: str = _typed("terminated")
    stream: str = always("")
    consumer: str = always("")
    consumer_seq: UInt64 = always(0)
    stream_seq: UInt64 = always(0)
    deliveries: UInt64 = always(0)
    reason: str = ""
    domain: str = ""
    dead_letter: str = ""  # as of MaxDeliveries


class GroupPinned(Event):
    type: str = _typed("consumer_group_pinned")
    account: str = ""
    stream: str = always("")
    consumer: str = always("")
    domain: str = ""
    group: str = always("")
    pinned_id: str = always("")


class GroupUnpinned(Event):
    type: str = _typed("consumer_group_unpinned")
    account: str = ""
    stream: str = always("")
    consumer: str = always("")
    domain: str = ""
    group: str = always("")
    reason: str = always("")  # admin or timeout


class ConsumerAckMetric(Event):
    """The time that the ack of a sampled message took."""

    type: str = always(metric_type("consumer_ack"))
    stream: str = always("")
    consumer: str = always("")
    consumer_seq: UInt64 = always(0)
    stream_seq: UInt64 = always(0)
    ack_time: Int64 = always(0)  # nanoseconds
    deliveries: UInt64 = always(0)
    domain: str = ""
