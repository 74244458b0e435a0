"""What the view shows, gathered over the NATS wire: the same requests any monitoring tool would make."""

import asyncio
import json
import os
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerInfo

from examples.orders.shop import CONSUMERS, STREAM

_SAMPLES_KEPT: Final = 2000
_CONSUMERS_SHOWN: Final = 4


@dataclass(slots=True)
class ConsumerFigures:
    """One line of the table of consumers."""

    name: str
    kind: str
    pending: int
    waiting_for_ack: int
    acknowledged: int
    redelivered: int
    median_ms: float | None = None
    slowest_percent_ms: float | None = None


@dataclass(slots=True)
class Figures:
    """One moment of the whole example."""

    messages: int = 0
    stored_bytes: int = 0
    rate: float = 0.0
    consumers: list[ConsumerFigures] = field(default_factory=list)
    pipeline: dict[str, dict[str, Any]] = field(default_factory=dict)
    archive_files: int = 0
    archive_bytes: int = 0
    trouble: str = ""  # why these are the figures of an earlier moment, in one line


class Watcher:
    """Asks the server for its numbers, hears its samples, and remembers what the pipeline says."""

    def __init__(self, connection: Client, archive: Path) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=10)
        self._archive = archive
        self._ack_times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_SAMPLES_KEPT))
        self._pipeline: dict[str, dict[str, Any]] = {}
        self._before: tuple[float, int] | None = None
        self._last = Figures()

    async def start(self) -> None:
        await self._connection.subscribe(f"$JS.EVENT.METRIC.CONSUMER.ACK.{STREAM}.*", cb=self._sampled)

    async def _sampled(self, message: Msg) -> None:
        """Remember how long an ack took.  Anybody may publish there, so what is no sample is passed over."""
        try:
            sample = json.loads(message.data)
            consumer, took_ms = sample["consumer"], sample["ack_time"] / 1e6
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if consumer in CONSUMERS:
            self._ack_times[consumer].append(took_ms)

    def pipeline_said(self, line: str) -> None:
        """Take a line of `millstream pipeline run --json`."""
        try:
            said = json.loads(line)
        except ValueError:
            return
        if isinstance(said, dict) and "job" in said:
            self._pipeline.setdefault(said["job"], {}).update(said)

    async def look(self) -> Figures:
        """Return the numbers as they are now, or the last ones and why there are no newer ones."""
        try:
            self._last = await self._look()
        except Exception as error:  # whatever it is, the view goes on
            self._last = replace(self._last, trouble=f"no new figures: {type(error).__name__}: {error}")
        return self._last

    async def _look(self) -> Figures:
        info = await self._jetstream.stream_info(STREAM)
        now, last = time.monotonic(), info.state.last_seq
        rate = 0.0
        if self._before is not None and now > self._before[0]:
            rate = max(0.0, (last - self._before[1]) / (now - self._before[0]))
        self._before = (now, last)
        files, size = await asyncio.to_thread(archived, self._archive)
        return Figures(
            messages=info.state.messages,
            stored_bytes=info.state.bytes,
            rate=rate,
            consumers=await self._consumers(),
            pipeline=self._pipeline,
            archive_files=files,
            archive_bytes=size,
        )

    async def _consumers(self) -> list[ConsumerFigures]:
        """Return those of the example, then the first few that others made."""
        known = [await self._jetstream.consumer_info(STREAM, name) for name in CONSUMERS]
        others = [each for each in await self._jetstream.consumers_info(STREAM) if each.name not in CONSUMERS]
        return [self._consumer(each) for each in [*known, *others][:_CONSUMERS_SHOWN]]

    def _consumer(self, info: ConsumerInfo) -> ConsumerFigures:
        times = sorted(self._ack_times.get(info.name, ()))
        return ConsumerFigures(
            name=info.name,
            kind="push" if info.config and info.config.deliver_subject else "pull",
            pending=info.num_pending or 0,
            waiting_for_ack=info.num_ack_pending or 0,
            acknowledged=info.ack_floor.consumer_seq if info.ack_floor else 0,
            redelivered=info.num_redelivered or 0,
            median_ms=times[len(times) // 2] if times else None,
            slowest_percent_ms=times[len(times) * 99 // 100] if times else None,
        )


def archived(folder: Path) -> tuple[int, int]:
    """Count the Parquet files below a folder that readers see, and their bytes.

    Names that begin with `_` or `.` are of batches that are still being written.  Files come, move and go
    while they are counted: one that is gone is not counted.
    """
    files = size = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "_."]
        for name in names:
            if name.endswith(".parquet") and name[0] not in "_.":
                try:
                    size += os.stat(os.path.join(parent, name)).st_size
                except FileNotFoundError:
                    continue
                files += 1
    return files, size
