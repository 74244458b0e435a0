"""Back up streams to folders: one snapshot each, checked while it is written and again from disk."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from millstream.golang.time import Time, format_time
from millstream.transfer.answers import NotBelieved
from millstream.transfer.api import JetStreamApi
from millstream.transfer.archive import ArchiveReading
from millstream.transfer.folder import Backup, BackupWriter
from millstream.transfer.progress import TransferProgress
from millstream.transfer.snapshots import DEFAULT_CHUNK, Snapshot

STEP: Final = "backup"


@dataclass(frozen=True, slots=True)
class BackupOptions:
    """Options of a backup."""

    consumers: bool = True
    check: bool = False  # the server checks every message first
    replace: bool = False  # an existing backup
    verify: bool = True  # read the backup again, from disk
    chunk_size: int = DEFAULT_CHUNK


@dataclass(frozen=True, slots=True)
class BackupDone:
    """The backup that was written."""

    backup: Backup
    seconds: float

    def report(self) -> dict[str, object]:
        """Return the result as JSON fields."""
        backup = self.backup
        return {
            "stream": backup.stream,
            "folder": str(backup.path),
            "messages": backup.state["messages"],
            "bytes": backup.state["bytes"],
            "first_seq": backup.state["first_seq"],
            "last_seq": backup.state["last_seq"],
            "consumers": backup.seal["consumers"],
            "archive_bytes": backup.seal["archive_bytes"],
            "archive_sha256": backup.seal["archive_sha256"],
            "digest": backup.seal["digest"],
            "seconds": round(self.seconds, 3),
        }


async def back_up(
    api: JetStreamApi,
    stream: str,
    folder: Path,
    progress: TransferProgress,
    options: BackupOptions | None = None,
) -> BackupDone:
    """Write a backup of `stream` to `folder`, which is created."""
    options = options or BackupOptions()
    start = time.monotonic()
    with BackupWriter(folder, replace=options.replace) as writer:
        reading = ArchiveReading()

        def take(chunk: bytes) -> None:
            writer.write(chunk)
            reading.feed(chunk)

        async with Snapshot(
            api, stream, consumers=options.consumers, check=options.check, chunk_size=options.chunk_size
        ) as snapshot:
            total = snapshot.state["bytes"]
            progress.begin(stream, STEP, total)
            async for chunk in snapshot:
                await asyncio.to_thread(take, chunk)
                messages = max(snapshot.state["messages"], 1)
                progress.advance(stream, STEP, total * reading.summary.messages // messages)
        summary = reading.finish()
        if not summary.older_form and summary.messages != snapshot.state["messages"]:
            raise NotBelieved(
                f"snapshot of stream {stream}: the server told of {snapshot.state['messages']} messages "
                f"and sent {summary.messages}"
            )
        backup = await asyncio.to_thread(
            writer.commit,
            snapshot.config,
            snapshot.state,
            summary,
            server=api.where,
            taken=format_time(Time(time.time_ns())),
        )
    progress.end(stream, STEP)
    if options.verify:
        await asyncio.to_thread(backup.check)
    return BackupDone(backup, time.monotonic() - start)
