"""Holding the source still for the moment of a cut-over, in a way that can be undone.

*Publishers.*  The stream gets another subject in place of its own, so a publish finds no stream and fails
at once; nobody is told that a message is stored which is not.  Messages, sequences and consumers are not
touched.

*Consumers.*  Each is paused: it delivers nothing, and takes acknowledgements.  Messages that clients have in
hand get some time to be acknowledged (``drained``); what comes later is carried over (``late_acks``).

What was changed is noted in the stream itself (``marks``), so a run that was killed leaves what
`millstream promote --release` needs to undo it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from millstream.jsapi.go_time import Time, format_time
from millstream.link.errors import ApiError
from millstream.transfer.api import JetStreamApi
from millstream.transfer.errors import TransferError
from millstream.transfer.marks import freeze_note, frozen, own_config

_PAUSE_NS: Final = 24 * 3600 * 10**9
_LOOK_EVERY_S: Final = 0.1


async def freeze(api: JetStreamApi, stream: str) -> None:
    """Stop publishers and consumers of `stream`; once more does no harm."""
    config = (await api.stream(stream))["config"]
    note = freeze_note(config)
    infos = await api.consumers(stream)
    if note is None:
        paused = [info["name"] for info in infos if not info.get("paused")]
        if config.get("sealed"):
            return  # it takes nothing anyway, and can not be updated
        await api.update_stream(frozen(config, paused))
    else:
        paused = note["paused"]
    until = format_time(Time(time.time_ns() + _PAUSE_NS))
    for info in infos:
        if info["name"] in paused:
            await _unless_gone(api.pause_consumer(stream, info["name"], until))


async def release(api: JetStreamApi, stream: str) -> bool:
    """Undo ``freeze``; False if the stream is not frozen."""
    config = (await api.stream(stream))["config"]
    note = freeze_note(config)
    if note is None:
        return False
    for name in note["paused"]:
        await _unless_gone(api.pause_consumer(stream, name, ""))
    await api.update_stream(own_config(config))
    return True


async def drained(api: JetStreamApi, streams: list[str], grace_s: float) -> int:
    """Wait until no message is in hand, at most `grace_s`; how many still are."""
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
    except ApiError as error:
        if error.code != 404:
            raise TransferError(f"a consumer can not be paused: {error}") from error
