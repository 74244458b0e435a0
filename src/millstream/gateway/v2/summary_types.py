"""Summaries of streams and consumers."""

from __future__ import annotations

from typing import Literal

import msgspec

from millstream.link.listing import ListedConsumer, ListedStream, time_or_none

Kind = Literal["stream", "kv", "object", "mqtt"]


class StreamSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a stream."""

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
    """The summary of a consumer."""

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


def stream_summary(info: ListedStream) -> StreamSummary:
    """Return the summary of a stream."""
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
        last_time=time_or_none(state.last_ts),
        sealed=config.sealed,
        description=config.description,
        mirror=config.mirror.name if config.mirror is not None else None,
        sources=[each.name for each in config.sources] if config.sources else None,
        leader=cluster.leader if cluster is not None and cluster.name else None,
        lost=len(state.lost.msgs or ()) if state.lost is not None else 0,
    )


def kind_of(stream: str) -> Kind:
    """Return the kind of a stream, by the prefix of its name."""
    if stream.startswith("KV_"):
        return "kv"
    if stream.startswith("OBJ_"):
        return "object"
    return "mqtt" if stream.startswith("$MQTT_") else "stream"


def consumer_summary(info: ListedConsumer) -> ConsumerSummary:
    """Return the summary of a consumer."""
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
        paused_until=time_or_none(config.pause_until) if info.paused else None,
        push_bound=info.push_bound,
        last_delivery=time_or_none(info.delivered.last_active),
        leader=cluster.leader if cluster is not None and cluster.name else None,
    )
