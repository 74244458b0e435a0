"""Restore streams from folders: checked before anything is sent, and compared afterwards."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final

from millstream.base.errors import MillstreamError
from millstream.jsapi.errors import Err
from millstream.link.errors import LinkApiError
from millstream.transfer.answers import Json
from millstream.transfer.api import JetStreamApi
from millstream.transfer.archive import ArchiveSummary
from millstream.transfer.comparison import compare_consumers, compare_messages
from millstream.transfer.errors import (
    CopyDiffers,
    TransferError,
)
from millstream.transfer.folder import Backup
from millstream.transfer.progress import TransferProgress
from millstream.transfer.upload import from_chunks, send_archive

STEP: Final = "restore"
_READ_AT_ONCE: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    """Changes to the stream, and how much is verified afterwards."""

    name: str = ""  # a new name for the stream
    subjects: tuple[str, ...] = ()
    replicas: int = 0
    cluster: str = ""
    tags: tuple[str, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)  # further fields of the configuration
    verify: bool = True  # read the stream back and compare every message


@dataclass(frozen=True, slots=True)
class RestoreDone:
    """The restored stream."""

    stream: str
    info: Json
    summary: ArchiveSummary
    verified: bool
    seconds: float

    def report(self) -> dict[str, object]:
        """Return the result as JSON fields."""
        state = self.info["state"]
        return {
            "stream": self.stream,
            "messages": state["messages"],
            "bytes": state["bytes"],
            "first_seq": state["first_seq"],
            "last_seq": state["last_seq"],
            "consumers": sorted(self.summary.consumers),
            "digest": self.summary.digest,
            "verified": self.verified,
            "seconds": round(self.seconds, 3),
        }


def changed_config(config: dict[str, Any], options: RestoreOptions) -> dict[str, Any]:
    """Return the configuration of the restored stream."""
    changed = {**config, **options.changes}
    if options.name:
        changed["name"] = options.name
    if options.subjects:
        changed["subjects"] = list(options.subjects)
    if options.replicas:
        changed["num_replicas"] = options.replicas
    if options.cluster or options.tags:
        changed["placement"] = {"cluster": options.cluster, "tags": list(options.tags)}
    return changed


async def restore(
    api: JetStreamApi,
    backup: Backup,
    progress: TransferProgress,
    options: RestoreOptions | None = None,
) -> RestoreDone:
    """Restore the stream of `backup` on the server, which must not have it."""
    options = options or RestoreOptions()
    config = changed_config(backup.config, options)
    name = config["name"]
    start = time.monotonic()
    await refuse_if_there(api, name)
    progress.begin(name, STEP, backup.archive.stat().st_size)
    summary = await asyncio.to_thread(backup.check)
    answer = await put(api, backup, config, progress)
    progress.end(name, STEP)
    if options.verify and not summary.older_form:
        differences = await compare_messages(api, name, summary)
        differences += await compare_consumers(api, name, summary.consumers)
        if differences:
            raise CopyDiffers(name, differences)
    return RestoreDone(
        name, answer, summary, options.verify and not summary.older_form, time.monotonic() - start
    )


async def put(api: JetStreamApi, backup: Backup, config: dict[str, Any], progress: TransferProgress) -> Json:
    """Send a checked backup; if the server fails, the error says what it may have left."""
    name = config["name"]
    chunks = from_chunks(backup.chunks(_READ_AT_ONCE))
    try:
        return await send_archive(
            api, config, backup.state, chunks, lambda sent: progress.advance(name, STEP, sent)
        )
    except LinkApiError as error:
        if error.err in (Err.STREAM_NAME_IN_USE, Err.STREAM_NAME_IN_USE_RESTORE):
            raise
        said = f"stream {name}: {error.description}{await _left_behind(api, name)}"
        raise LinkApiError(error.code, error.err_code, said) from error


async def refuse_if_there(api: JetStreamApi, name: str) -> None:
    if await api.find_stream(name) is not None:
        raise TransferError(f"stream {name} exists on {api.where}; nothing was changed")


async def _left_behind(api: JetStreamApi, name: str) -> str:
    """Return a note if the server kept an unfinished stream, as nats-server does after a failed restore."""
    try:
        info = await api.stream(name)
    except MillstreamError:
        return ""
    messages = info["state"]["messages"]
    return f"; the server kept an unfinished stream of {messages} messages, which is to be deleted"
