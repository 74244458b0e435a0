"""Streams and consumers in a line each, and the part of JetStream's answers that is read for them."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

_ZERO_TIME: Final = "0001-01-01T00:00:00Z"

Kind = Literal["stream", "kv", "object", "mqtt"]


class StreamSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A stream in a line."""

    name: str
    subjects: list[str]
    kind: Kind
    retention: str
    storage: str
    replicas: int
    messages: int
    bytes: int
    consumers: int
    first_seq: int
    last_seq: int
    last_time: str | None  # when the last message was stored
    sealed: bool
    description: str = ""
    mirror: str | None = None
    sources: list[str] | None = None
    leader: str | None = None  # in a cluster; empty if there is none
    lost: int = 0  # messages that a damaged store has lost


class ConsumerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer in a line."""

    name: str
    stream: str
    kind: Literal["push", "pull"]
    ack_policy: str
    filter_subjects: list[str]
    pending: int
    ack_pending: int
    max_ack_pending: int
    redelivered: int
    waiting: int
    delivered: int
    ack_floor: int
    paused: bool
    paused_until: str | None
    push_bound: bool
    last_delivery: str | None
    leader: str | None = None


# -- what is read of JetStream's answers --------------------------------------------------------------


class _Named(msgspec.Struct):
    name: str = ""


class _Lost(msgspec.Struct):
    msgs: list[int] | None = None


class _Cluster(msgspec.Struct):
    name: str = ""
    leader: str = ""


class _StreamConfig(msgspec.Struct):
    name: str = ""
    description: str = ""
    subjects: list[str] | None = None
    retention: str = ""
    storage: str = ""
    num_replicas: int = 1
    sealed: bool = False
    mirror: _Named | None = None
    sources: list[_Named] | None = None


class _StreamState(msgspec.Struct):
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    last_ts: str = ""
    consumer_count: int = 0
    lost: _Lost | None = None


class _Stream(msgspec.Struct):
    config: _StreamConfig
    state: _StreamState
    cluster: _Cluster | None = None


class _Position(msgspec.Struct):
    stream_seq: int = 0
    last_active: str | None = None


class _ConsumerConfig(msgspec.Struct):
    deliver_subject: str = ""
    ack_policy: str = ""
    filter_subject: str = ""
    filter_subjects: list[str] | None = None
    max_ack_pending: int = 0
    pause_until: str | None = None


class _Consumer(msgspec.Struct):
    name: str
    stream_name: str
    config: _ConsumerConfig
    delivered: _Position
    ack_floor: _Position
    num_ack_pending: int = 0
    num_redelivered: int = 0
    num_waiting: int = 0
    num_pending: int = 0
    push_bound: bool = False
    paused: bool = False
    cluster: _Cluster | None = None


class StreamsAnswer(msgspec.Struct):
    """A page of STREAM.LIST."""

    streams: list[_Stream] | None = None
    total: int = 0
    error: Any = None

    def summaries(self) -> list[StreamSummary]:
        return [stream_summary(each) for each in self.streams or ()]


class ConsumersAnswer(msgspec.Struct):
    """A page of CONSUMER.LIST."""

    consumers: list[_Consumer] | None = None
    total: int = 0
    error: Any = None

    def summaries(self) -> list[ConsumerSummary]:
        return [consumer_summary(each) for each in self.consumers or ()]


def stream_summary(info: _Stream) -> StreamSummary:
    """Return a stream in a line."""
    config, state, cluster = info.config, info.state, info.cluster
    return StreamSummary(
        name=config.name,
        subjects=config.subjects or [],
        kind=kind_of(config.name),
        retention=config.retention,
        storage=config.storage,
        replicas=config.num_replicas,
        messages=state.messages,
        bytes=state.bytes,
        consumers=state.consumer_count,
        first_seq=state.first_seq,
        last_seq=state.last_seq,
        last_time=_time(state.last_ts),
        sealed=config.sealed,
        description=config.description,
        mirror=config.mirror.name if config.mirror is not None else None,
        sources=[each.name for each in config.sources] if config.sources else None,
        leader=cluster.leader if cluster is not None and cluster.name else None,
        lost=len(state.lost.msgs or ()) if state.lost is not None else 0,
    )


def kind_of(stream: str) -> Kind:
    """Return what a stream is for, by its name."""
    if stream.startswith("KV_"):
        return "kv"
    if stream.startswith("OBJ_"):
        return "object"
    return "mqtt" if stream.startswith("$MQTT_") else "stream"


def consumer_summary(info: _Consumer) -> ConsumerSummary:
    """Return a consumer in a line."""
    config, cluster = info.config, info.cluster
    filters = config.filter_subjects or ([config.filter_subject] if config.filter_subject else [])
    return ConsumerSummary(
        name=info.name,
        stream=info.stream_name,
        kind="push" if config.deliver_subject else "pull",
        ack_policy=config.ack_policy,
        filter_subjects=filters,
        pending=info.num_pending,
        ack_pending=info.num_ack_pending,
        max_ack_pending=config.max_ack_pending,
        redelivered=info.num_redelivered,
        waiting=info.num_waiting,
        delivered=info.delivered.stream_seq,
        ack_floor=info.ack_floor.stream_seq,
        paused=info.paused,
        paused_until=_time(config.pause_until or "") if info.paused else None,
        push_bound=info.push_bound,
        last_delivery=_time(info.delivered.last_active or ""),
        leader=cluster.leader if cluster is not None and cluster.name else None,
    )


def _time(text: str) -> str | None:
    return text if text and text != _ZERO_TIME else None
