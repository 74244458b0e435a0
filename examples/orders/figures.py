"""The figures of the view, gathered over the NATS wire by requests that any monitoring tool could make."""

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
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo
from nats.js.errors import NotFoundError

from examples.orders.shop import CONSUMERS, STREAM

_SAMPLES_KEPT: Final = 2000
_CONSUMERS_SHOWN: Final = 4
_LOOK_EVERY_S: Final = 0.5
_COUNT_FILES_EVERY_S: Final = 5.0
_RATE_OVER: Final = 10  # looks


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
    consumer_count: int = 0  # of all, also of those that are not listed
    archive_files: int = 0
    archive_bytes: int = 0
    trouble: str = ""  # why these are the figures of an earlier moment, in one line


class Watcher:
    """Asks the server for its numbers, and hears its samples."""

    def __init__(self, archive: Path) -> None:
        self.figures = Figures()
        self._archive = archive
        self._jetstream: JetStreamContext | None = None
        self._ack_times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_SAMPLES_KEPT))
        self._ends: deque[tuple[float, int]] = deque(maxlen=_RATE_OVER)  # last sequences, and when
        self._files: tuple[float, tuple[int, int]] = (float("-inf"), (0, 0))  # when they were counted

    async def attach(self, connection: Client) -> None:
        """Ask over this connection from now on."""
        await connection.subscribe(f"$JS.EVENT.METRIC.CONSUMER.ACK.{STREAM}.*", cb=self._sampled)
        self._jetstream = connection.jetstream(timeout=10)

    async def _sampled(self, message: Msg) -> None:
        """Remember how long an ack took.  Anybody may publish there, so what is no sample is passed over."""
        try:
            sample = json.loads(message.data)
            consumer, took_ms = sample["consumer"], sample["ack_time"] / 1e6
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if consumer in CONSUMERS:
            self._ack_times[consumer].append(took_ms)

    async def keep_looking(self) -> None:
        """Keep `figures` true, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def look(self) -> Figures:
        """Return the numbers as they are now, or the last ones and why there are no newer ones."""
        try:
            self.figures = await self._look()
        except Exception as error:  # whatever it is, the view goes on
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            self.figures = replace(self.figures, rate=0.0, trouble=f"no new figures: {why}")
        return self.figures

    async def _look(self) -> Figures:
        if self._jetstream is None:
            return self.figures
        info = await self._jetstream.stream_info(STREAM)
        files, size = await self._archived()
        return Figures(
            messages=info.state.messages,
            stored_bytes=info.state.bytes,
            rate=self._rate(info.state.last_seq),
            consumers=await self._consumers(self._jetstream),
            consumer_count=info.state.consumer_count,
            archive_files=files,
            archive_bytes=size,
        )

    def _rate(self, last: int) -> float:
        """Return the messages stored per second over the last few looks."""
        now = time.monotonic()
        if self._ends and last < self._ends[-1][1]:  # another stream of that name
            self._ends.clear()
        self._ends.append((now, last))
        then, before = self._ends[0]
        return (last - before) / (now - then) if now > then else 0.0

    async def _archived(self) -> tuple[int, int]:
        if time.monotonic() - self._files[0] > _COUNT_FILES_EVERY_S:
            self._files = (time.monotonic(), await asyncio.to_thread(archived, self._archive))
        return self._files[1]

    async def _consumers(self, jetstream: JetStreamContext) -> list[ConsumerFigures]:
        """Return those of the example, then the first few that others made."""
        known = []
        for name in CONSUMERS:
            try:
                known.append(await jetstream.consumer_info(STREAM, name))
            except NotFoundError:  # somebody deleted it
                continue
        others = [each for each in await jetstream.consumers_info(STREAM) if each.name not in CONSUMERS]
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


class Jobs:
    """The jobs of the pipeline, as `millstream pipeline run --json` tells of them."""

    def __init__(self) -> None:
        self.told: dict[str, dict[str, Any]] = {}

    def forget(self) -> None:
        """Begin anew with another run of the pipeline."""
        self.told = {}

    def hear(self, line: str) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        if isinstance(said, dict) and isinstance(said.get("job"), str):
            self.told[said["job"]] = said

    def troubles(self) -> list[str]:
        """Return a line for each job that waits to be started again or has failed."""
        return [
            f"job {name}: {said['text']}"
            for name, said in sorted(self.told.items())
            if said.get("state") in ("starting", "failed") and said.get("text")
        ]


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
