"""What the view shows, gathered over the NATS wire: the same requests any monitoring tool would make."""

import json
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerInfo

from examples.orders.shop import CONSUMERS, STREAM

_SAMPLES_KEPT: Final = 2000


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


class Watcher:
    """Asks the server for its numbers, hears its samples, and remembers what the pipeline says."""

    def __init__(self, connection: Client, archive: Path) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=60)
        self._archive = archive
        self._ack_times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_SAMPLES_KEPT))
        self._pipeline: dict[str, dict[str, Any]] = {}
        self._before: tuple[float, int] | None = None

    async def start(self) -> None:
        await self._connection.subscribe(f"$JS.EVENT.METRIC.CONSUMER.ACK.{STREAM}.*", cb=self._sampled)

    async def _sampled(self, message: Msg) -> None:
        sample = json.loads(message.data)
        self._ack_times[sample["consumer"]].append(sample["ack_time"] / 1e6)

    def pipeline_said(self, line: str) -> None:
        """A line of `millstream pipeline run --json`."""
        if line.startswith("{"):
            said = json.loads(line)
            if "job" in said:
                self._pipeline.setdefault(said["job"], {}).update(said)

    async def look(self) -> Figures:
        """The numbers as they are now."""
        info = await self._jetstream.stream_info(STREAM)
        now, last = time.monotonic(), info.state.last_seq
        rate = 0.0
        if self._before is not None and now > self._before[0]:
            rate = (last - self._before[1]) / (now - self._before[0])
        self._before = (now, last)
        files = [path for path in self._archive.rglob("*.parquet") if path.is_file()]
        return Figures(
            messages=info.state.messages,
            stored_bytes=info.state.bytes,
            rate=rate,
            consumers=[
                self._consumer(await self._jetstream.consumer_info(STREAM, name)) for name in CONSUMERS
            ],
            pipeline=self._pipeline,
            archive_files=len(files),
            archive_bytes=sum(path.stat().st_size for path in files),
        )

    def _consumer(self, info: ConsumerInfo) -> ConsumerFigures:
        assert info.config is not None
        assert info.ack_floor is not None
        times = sorted(self._ack_times[info.name])
        return ConsumerFigures(
            name=info.name,
            kind="push" if info.config.deliver_subject else "pull",
            pending=info.num_pending or 0,
            waiting_for_ack=info.num_ack_pending or 0,
            acknowledged=info.ack_floor.consumer_seq,
            redelivered=info.num_redelivered or 0,
            median_ms=times[len(times) // 2] if times else None,
            slowest_percent_ms=times[len(times) * 99 // 100] if times else None,
        )
