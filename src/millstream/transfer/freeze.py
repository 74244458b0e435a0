"""Freeze the source for the cut-over, in a way that can be undone.

*Publishers.*  The stream gets another subject in place of its own, so a publish finds no stream and fails at
once; no message is acknowledged that is not stored.  Messages, sequences and consumers are not changed.

*Consumers.*  Each is paused: it delivers nothing but accepts acks.  Clients get some time to acknowledge
messages that they hold (``drained``); later acks are forwarded (``late_acks``).

The changes are recorded in the stream itself (``marks``), so that `millstream promote --release` can undo
them after a run that was killed.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from millstream.golang.time import Time, format_time
from millstream.link.errors import LinkApiError
from millstream.transfer.api import JetStreamApi
from millstream.transfer.errors import TransferError
from millstream.transfer.marks import freeze_note, frozen, own_config

_PAUSE_NS: Final = 24 * 3600 * 10**9
_LOOK_EVERY_S: Final = 0.1


async def freeze(api: JetStreamApi, stream: str) -> None:
    """Stop publishers and consumers of `stream`; repeating it is harmless."""
    config = (await api.stream(stream))["config"]
    note = freeze_note(config)
    infos = await api.consumers(stream)
    if note is None:
        paused = [info["name"] for info in infos if not info.get("paused")]
        if config.get("sealed"):
            return  # it accepts no messages and cannot be updated
        await api.update_stream(frozen(config, paused))
    else:
        paused = note["paused"]
    until = format_time(Time(time.time_ns() + _PAUSE_NS))
    for info in infos:
        if info["name"] in paused:
            await _unless_gone(api.pause_consumer(stream, info["name"], until))


async def release(api: JetStreamApi, stream: str) -> bool:
    """Undo ``freeze``; return False if the stream is not frozen."""
    config = (await api.stream(stream))["config"]
    note = freeze_note(config)
    if note is None:
        return False
    for name in note["paused"]:
        await _unless_gone(api.pause_consumer(stream, name, ""))
    await api.update_stream(own_config(config))
    return True


async def drained(api: JetStreamApi, streams: list[str], grace_s: float) -> int:
    """Wait, at most `grace_s`, until no acks are pending; return how many still are."""
    deadline = time.monotonic() + grace_s
    while True:
        left = 0
        for stream in streams:
            left += sum(info.get("num_ack_pending", 0) for info in await api.consumers(stream))
        if not left or time.monotonic() >= deadline:
            return left
        await asyncio.sleep(_LOOK_EVERY_S)


async def _unless_gone(request: object) -> None:
    try:
        await request  # type: ignore[misc]
    except LinkApiError as error:
        if error.code != 404:
            raise TransferError(f"a consumer can not be paused: {error}") from error
