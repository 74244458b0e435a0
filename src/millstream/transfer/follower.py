"""Keep a copy up to date while its original continues, with the original sequences and times.

No server lets a client publish a message with a given sequence and time, or append an archive to a stream.
But a mirror takes both from its origin, and a restored stream may begin anywhere.  So the copy is restored as
a *mirror* of a stream that does not exist yet, the feed, and each round

    1. reads what the original has beyond the copy, message by message as it is stored,
    2. builds an archive of it, and restores that as the feed, on the target,
    3. waits until the copy has mirrored it, and removes the feed again.

To the copy it looks as if its origin had returned with more messages.  A server takes about ten seconds to
notice a returned origin, which is the cost of a round, whatever the size of the stream.

At the end the copy gets its own configuration and becomes an independent stream.  Only streams with limits
retention can be followed: the others lose messages as consumers acknowledge them, which a mirror does not
notice.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from millstream.golang.time import parse_time
from millstream.link.errors import LinkApiError
from millstream.transfer.answers import Json
from millstream.transfer.api import JetStreamApi
from millstream.transfer.archive import ArchiveWriting
from millstream.transfer.errors import CopyDiffers, ServerLost, TransferError
from millstream.transfer.marks import FEED_PREFIX, FENCE_PREFIX
from millstream.transfer.progress import TransferProgress
from millstream.transfer.upload import send_archive

STEP: Final = "follow"
MOST_AT_ONCE: Final = 100_000  # messages; beyond that, copying again is faster
_ASKED_AT_ONCE: Final = 128
_LOOK_EVERY_S: Final = 0.2
_MIRROR_S: Final = 120.0  # for a mirror to notice its origin and make progress
_MOST_DELETED: Final = 10_000  # messages deleted one by one; beyond that, copying again is faster

# Fields that a mirror may not have, or that would keep it from taking its origin's messages.
_LEFT_OUT: Final = (
    "subjects",
    "sources",
    "republish",
    "subject_transform",
    "discard_new_per_subject",
    "deny_delete",
    "deny_purge",
    "sealed",
    "first_seq",
    "allow_msg_counter",
    "allow_atomic",
    "allow_msg_schedules",
    "allow_batched",
)


class CanNotFollow(TransferError):
    """Raised if this stream must be copied again instead."""


def why_not(config: Json) -> str:
    """Return why a stream cannot be followed; empty if it can."""
    if config.get("retention", "limits") != "limits":
        return f"retention is {config['retention']}"
    if config.get("mirror"):
        return "it is a mirror"
    if config.get("sealed"):
        return "it is sealed"
    if config.get("discard", "old") == "new":
        return "it discards new messages"
    return ""


def following_config(config: Json) -> Json:
    """Return the configuration of the copy while it follows."""
    kept = {key: value for key, value in config.items() if key not in _LEFT_OUT}
    return {**kept, "mirror": {"name": FEED_PREFIX + config["name"]}}


@dataclass(slots=True)
class Lag:
    """Distance of the copy from its origin."""

    source_last: int
    target_last: int

    @property
    def messages(self) -> int:
        return max(self.source_last - self.target_last, 0)


class Follower:
    """Brings one copy up to date in rounds."""

    def __init__(
        self, source: JetStreamApi, target: JetStreamApi, stream: str, progress: TransferProgress
    ) -> None:
        self._source = source
        self._target = target
        self._stream = stream
        self._feed = FEED_PREFIX + stream
        self._progress = progress

    async def lag(self) -> Lag:
        there = (await self._target.stream(self._stream))["state"]["last_seq"]
        return Lag((await self._source.stream(self._stream))["state"]["last_seq"], there)

    async def round(self) -> Lag:
        """Copy what the source has now; raise CanNotFollow if that is too much."""
        lag = await self.lag()
        if lag.messages > MOST_AT_ONCE:
            raise CanNotFollow(f"stream {self._stream}: the copy is {lag.messages} messages behind")
        if lag.messages:
            await self._bring(lag.target_last + 1, lag.source_last)
        return await self.lag()

    async def remove_feed(self) -> None:
        if await self._target.find_stream(self._feed) is not None:
            await self._target.delete_stream(self._feed)

    # -- one round --------------------------------------------------------------------------------

    async def _bring(self, first: int, last: int) -> None:
        await self.remove_feed()
        config = {
            "name": self._feed,
            "subjects": [f"{FENCE_PREFIX}feed.{self._stream}"],
            "retention": "limits",
            "storage": "file",
            "num_replicas": 1,
        }
        with tempfile.TemporaryFile() as spool:
            state, last_is_there, digests = await self._read(first, last, spool)
            size = spool.tell()
            self._progress.begin(self._stream, STEP, size)
            await send_archive(
                self._target,
                config,
                state,
                _pieces(spool),
                lambda sent: self._progress.advance(self._stream, STEP, sent),
            )
        await self._wait_for(last)
        await self.remove_feed()
        await self._compare(digests)
        if not last_is_there:
            await self._remove(last)
        self._progress.end(self._stream, STEP)

    async def _read(
        self, first: int, last: int, spool: BinaryIO
    ) -> tuple[dict[str, Any], bool, dict[int, bytes]]:
        """Write the archive of the feed; return its state, whether its last message exists, and digests.

        If the last sequence was deleted, a message takes its place, so that the copy reaches it.
        """
        state = {"messages": last - first + 1, "bytes": 0, "first_seq": first, "last_seq": last}
        writing = ArchiveWriting(state)
        found: Json | None = None
        digests: dict[int, bytes] = {}
        for at in range(first, last + 1, _ASKED_AT_ONCE):
            sequences = range(at, min(at + _ASKED_AT_ONCE, last + 1))
            for found in await self._get(self._source, sequences):
                if found is not None:
                    digests[found["seq"]] = _digest(found)
                    headers = base64.b64decode(found.get("hdrs") or "")
                    body = base64.b64decode(found.get("data") or "")
                    stored = int(parse_time(found["time"]))
                    writing.add(found["seq"], stored, found["subject"], headers, body)
            await asyncio.to_thread(spool.write, writing.take())
        if found is None:
            writing.add(last, time.time_ns(), f"{FENCE_PREFIX}gap", b"", b"")
        spool.write(writing.finish())
        return state, found is not None, digests

    async def _get(self, api: JetStreamApi, sequences: Sequence[int]) -> list[Json | None]:
        return await asyncio.gather(*(api.get_message(self._stream, seq) for seq in sequences))

    async def _compare(self, digests: dict[int, bytes]) -> None:
        """Read the copied messages again and compare them; limits may have removed some meanwhile."""
        sequences = list(digests)
        first = (await self._target.stream(self._stream))["state"]["first_seq"]
        for at in range(0, len(sequences), _ASKED_AT_ONCE):
            for found in await self._get(self._target, sequences[at : at + _ASKED_AT_ONCE]):
                if found is not None and digests.pop(found["seq"]) != _digest(found):
                    raise CopyDiffers(self._stream, [f"message {found['seq']} has another content"])
        missing = [seq for seq in digests if seq >= first]
        for seq in missing:
            if await self._source.get_message(self._stream, seq) is not None:
                raise CopyDiffers(self._stream, [f"message {seq} is missing"])

    async def _wait_for(self, last: int) -> None:
        seen, waited = -1, 0.0
        while True:
            there = (await self._target.stream(self._stream))["state"]["last_seq"]
            if there >= last:
                return
            waited = 0.0 if there > seen else waited + _LOOK_EVERY_S
            seen = max(seen, there)
            if waited > _MIRROR_S:
                raise ServerLost(f"stream {self._stream}: the target does not take what it is fed")
            await asyncio.sleep(_LOOK_EVERY_S)

    # -- what was removed -------------------------------------------------------------------------

    async def settle_removals(self) -> None:
        """Remove from the copy what the original no longer has; both are frozen and end alike."""
        source = (await self._source.stream(self._stream, deleted=True))["state"]
        target = (await self._target.stream(self._stream, deleted=True))["state"]
        if target["first_seq"] < source["first_seq"]:
            await self._target.purge_below(self._stream, source["first_seq"])
            target = (await self._target.stream(self._stream, deleted=True))["state"]
        gone = set(source.get("deleted") or ()) - set(target.get("deleted") or ())
        gone = {seq for seq in gone if target["first_seq"] <= seq <= target["last_seq"]}
        if len(gone) > _MOST_DELETED:
            raise CanNotFollow(f"stream {self._stream}: {len(gone)} messages were deleted")
        for seq in sorted(gone):
            await self._remove(seq)
        target = (await self._target.stream(self._stream))["state"]
        differences = [
            f"{name} is {target[name]} instead of {source[name]}"
            for name in ("messages", "bytes", "last_seq")
            if target[name] != source[name]
        ]
        if differences:
            raise CanNotFollow(f"stream {self._stream}: {', '.join(differences)}")

    async def _remove(self, seq: int) -> None:
        try:
            await self._target.delete_message(self._stream, seq)
        except LinkApiError:
            if await self._target.get_message(self._stream, seq) is not None:  # limits may have been faster
                raise


def _digest(message: Json) -> bytes:
    """Return a digest of a whole message; all servers describe it in the same fields."""
    parts = [message["seq"], message["time"], message["subject"], message.get("hdrs"), message.get("data")]
    return hashlib.sha256(json.dumps(parts).encode()).digest()


async def _pieces(spool: BinaryIO) -> AsyncIterator[bytes]:
    spool.seek(0)
    while piece := await asyncio.to_thread(spool.read, 512 * 1024):
        yield piece
