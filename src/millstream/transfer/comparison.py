"""Compare a stream on a server with an archive."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from millstream.link.errors import LinkApiError
from millstream.transfer.api import JetStreamApi
from millstream.transfer.archive import ArchiveSummary
from millstream.transfer.snapshots import digest

_PATIENCE_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.2
_PLACES: Final = ("delivered", "ack_floor")


async def compare_messages(
    api: JetStreamApi, stream: str, expected: ArchiveSummary, *, upto: int | None = None
) -> list[str]:
    """Read the stream and return how its messages differ; messages after `upto` are not counted."""
    found = await digest(api, stream, upto=upto or expected.state.get("last_seq") or None)
    differences = []
    if found.messages != expected.messages:
        differences.append(f"{found.messages} messages instead of {expected.messages}")
    for name in ("first_seq", "last_seq"):
        there, wanted = getattr(found, name), getattr(expected, name)
        if there != wanted:
            differences.append(f"{name} is {there} instead of {wanted}")
    if not differences and found.digest != expected.digest:
        differences.append("messages have another content (their digests differ)")
    return differences


async def compare_consumers(api: JetStreamApi, stream: str, expected: dict[str, Any]) -> list[str]:
    """Return which consumers differ in what was delivered, acknowledged or is pending.

    Uses consumer information, not a snapshot, because a cluster's snapshots do not contain pending messages.
    Retries for a while, because a cluster takes time to agree on what was restored.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        differences = await _consumers_now(api, stream, expected)
        if not differences or time.monotonic() >= deadline:
            return differences
        await asyncio.sleep(_LOOK_EVERY_S)


async def _consumers_now(api: JetStreamApi, stream: str, expected: dict[str, Any]) -> list[str]:
    first_seq = int((await api.stream(stream))["state"]["first_seq"])
    differences: list[str] = []
    for name, one in expected.items():
        try:
            info = await api.consumer(stream, name)
        except LinkApiError as error:
            if one["config"].get("durable_name"):  # others end by themselves when nobody uses them
                differences.append(f"consumer {name}: {error}")
            continue
        differences += [f"consumer {name}: {each}" for each in consumer_differences(info, one, first_seq)]
    return differences


def consumer_differences(info: dict[str, Any], expected: dict[str, Any], first_seq: int) -> list[str]:
    """Return how a consumer on the server differs from the entry of an archive.

    Servers raise a consumer's position to the first sequence of its stream, `first_seq`.
    """
    state = expected.get("state") or {}
    differences = []
    for place in _PLACES:
        wanted = max(int((state.get(place) or {}).get("stream_seq", 0)), first_seq - 1)
        there = max(int(info[place]["stream_seq"]), first_seq - 1)
        if there != wanted:
            differences.append(f"{place} is {there} instead of {wanted}")
    pending = len(state.get("pending") or {})
    if info.get("num_ack_pending", 0) != pending:
        differences.append(f"{info.get('num_ack_pending', 0)} messages are pending instead of {pending}")
    return differences
