"""Plan what a promotion does with each stream, before it does anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from millstream.jsapi.names import METADATA_DEAD_LETTER, METADATA_KEY_TOKEN, METADATA_PER_KEY
from millstream.link.errors import LinkApiError
from millstream.transfer.answers import Json
from millstream.transfer.api import JetStreamApi
from millstream.transfer.errors import TransferError
from millstream.transfer.follower import why_not
from millstream.transfer.marks import freeze_note, is_unfinished_copy, origin_of, own_config

# Metadata of consumers that another server stores and does not read.
OUR_KEYS = (METADATA_DEAD_LETTER, METADATA_PER_KEY, METADATA_KEY_TOKEN)

_HOUR_NS = 3600 * 10**9
_LONG_WINDOW_NS = 24 * _HOUR_NS
_GROUP_KINDS = ("elastic", "static")
_NOT_FOUND = 404


class Method(StrEnum):
    """Ways for the copy to get messages that come after it was taken."""

    COPY = "copy"  # copied again while everything is frozen
    FOLLOW = "follow"  # only missing messages are copied


class Found(StrEnum):
    """The streams and consumers that exist at the target."""

    NOTHING = "nothing"
    UNFINISHED = "unfinished copy"
    STREAM = "a stream"


@dataclass(frozen=True, slots=True)
class PromoteOptions:
    """Changes at the target, and how the promotion is done."""

    live: bool = False
    cut_over: bool = False
    method: Method | None = None  # None: the one that freezes the source for less time
    replicas: int = 0
    cluster: str = ""
    tags: tuple[str, ...] = ()
    replace: bool = False  # an existing stream at the target
    verify: bool = True
    grace_s: float = 10.0  # time for clients to acknowledge messages that they hold
    small_bytes: int = 64 * 1024 * 1024  # smaller streams are copied faster than followed


@dataclass(slots=True)
class StreamPlan:
    """The plan for one stream."""

    name: str
    origin: str
    config: Json  # of the source, without changes of a promotion
    target_config: Json
    state: Json
    consumers: list[str]
    found: Found
    method: Method
    frozen: bool  # by a run that did not end, or that has already switched
    remark: str = ""
    problems: list[str] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        return {
            "stream": self.name,
            "messages": self.state["messages"],
            "bytes": self.state["bytes"],
            "last_seq": self.state["last_seq"],
            "consumers": self.consumers,
            "replicas": self.target_config.get("num_replicas", 1),
            "at_target": str(self.found),
            "method": str(self.method),
            "remark": self.remark,
            "problems": self.problems,
        }


async def plan_stream(
    source: JetStreamApi, target: JetStreamApi, name: str, options: PromoteOptions, names: list[str]
) -> StreamPlan:
    """Return the plan for a stream, which is one of `names` that are promoted."""
    info = await source.stream(name)
    config = own_config(info["config"])
    changed = dict(config)
    if options.replicas:
        changed["num_replicas"] = options.replicas
    if options.cluster or options.tags:
        changed["placement"] = {"cluster": options.cluster, "tags": list(options.tags)}
    origin = origin_of(info)
    found_consumers = await source.consumers(name)
    consumers = [each["name"] for each in found_consumers]
    note = freeze_note(info["config"])
    found, problems = Found.NOTHING, []
    there = await target.find_stream(name)
    if there is not None:
        if origin_of(there) == origin and there["config"] == info["config"]:
            raise TransferError(f"{name}: source and target are the same stream")
        found = Found.UNFINISHED if is_unfinished_copy(there, origin) else Found.STREAM
    if found is Found.STREAM and note is None and not options.replace and (options.live or options.cut_over):
        problems.append("the target has a stream of that name; --replace deletes it there first")
    method, remark = _method(info, config, options)
    remarks = (
        remark,
        *only_ours(found_consumers),
        *long_window(config),
        *await groups_left(source, name, names),
    )
    remark = "; ".join(each for each in remarks if each)
    return StreamPlan(
        name,
        origin,
        config,
        changed,
        info["state"],
        consumers,
        found,
        method,
        note is not None,
        remark,
        problems,
    )


def only_ours(consumers: list[Json]) -> list[str]:
    """Return remarks about what consumers ask for in their metadata and only Millstream does."""
    found = []
    for each in consumers:
        metadata = each["config"].get("metadata") or {}
        found += [
            f"consumer {each['name']}: only Millstream honours {key}" for key in OUR_KEYS if key in metadata
        ]
    return found


def long_window(config: Json) -> list[str]:
    """Return a remark about a duplicate window that costs other servers much memory."""
    window_ns = config.get("duplicate_window") or 0
    if window_ns < _LONG_WINDOW_NS:
        return []
    hours = window_ns // _HOUR_NS
    return [f"only Millstream keeps the ids of a duplicate window of {hours} hours outside of memory"]


async def groups_left(source: JetStreamApi, name: str, names: list[str]) -> list[str]:
    """Return remarks about the partitioned consumer groups of a stream that are not promoted with it."""
    found = []
    for kind in _GROUP_KINDS:
        bucket = f"{kind}-consumer-groups"
        stream, start = f"KV_{bucket}", f"$KV.{bucket}.{name}."
        try:
            info = await source.look(f"STREAM.INFO.{stream}", {"subjects_filter": f"{start}*"})
        except LinkApiError as error:
            if error.code != _NOT_FOUND:
                raise
            continue
        for subject in sorted(info["state"].get("subjects") or ()):
            group = subject.removeprefix(start)
            parts = [stream, f"{name}-{group}"] if kind == "elastic" else [stream]
            if missing := [each for each in parts if each not in names]:
                found.append(f"{kind} group {group} needs {' and '.join(missing)} at the target, too")
    return found


def _method(info: Json, config: Json, options: PromoteOptions) -> tuple[Method, str]:
    if not options.live:
        return Method.COPY, ""
    reason = why_not(config)
    if reason:
        return Method.COPY, f"can not be followed: {reason}"
    if options.method is not None:
        return options.method, ""
    if info["state"]["bytes"] <= options.small_bytes:
        return Method.COPY, "small enough to be copied again"
    return Method.FOLLOW, ""


async def plan(
    source: JetStreamApi, target: JetStreamApi, names: list[str], options: PromoteOptions
) -> list[StreamPlan]:
    """Return a plan for each stream."""
    return [await plan_stream(source, target, name, options, names) for name in names]
