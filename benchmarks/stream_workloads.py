"""The workloads of streams that run on servers which stay up: publishing in several ways.

Each round makes a stream, fills it and removes it again.  nats-server with ``sync_interval: always`` takes
so much longer that it gets fewer messages: rates and medians are compared, not totals.
"""

import itertools
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks import crew
from benchmarks.crew import Job
from benchmarks.stream_batches import BATCH, batching
from benchmarks.stream_copies import copying
from benchmarks.stream_direct import PAGE, getting
from benchmarks.stream_load import WINDOW, PatientPublishers, WindowPublisher
from benchmarks.stream_wire import Messages, create, remove, stored
from benchmarks.wire import WireError
from benchmarks.workloads import MICROSECONDS, RATE, Figure, Outcome, Target, Workload, outcome

_SYNCED_SCALE: Final = 0.05
_names: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class StreamWorkload:
    """One row against nats-server as it is, and perhaps one against nats-server that syncs."""

    workload: Workload
    synced: bool = False
    synced_scale: float = _SYNCED_SCALE


MakeJob = Callable[[Target, Messages], Job]


def publishing(
    make_job: MakeJob,
    *,
    messages: int,
    payload_bytes: int = 128,
    storage: str = "file",
    with_id: bool = False,
) -> Workload:
    """A workload without a name; see the table below."""

    def run(target: Target, scale: float) -> Outcome:
        what = Messages(
            f"S{next(_names):05d}", payload_bytes, max(200, int(messages * scale)), with_id=with_id
        )
        create(target.address, what, storage)
        shares = crew.run([make_job(target, what)], server_pid=target.pid)
        there = stored(target.address, what.stream)
        remove(target.address, what.stream)
        if there < what.count - what.count % 50:  # 50 connections share them evenly
            raise WireError(f"{there} of {what.count} messages were stored")
        seconds = (shares[0].ended_ns - shares[0].started_ns) / 1e9
        figures = {"": Figure(there / seconds, RATE)}
        if shares[0].latencies_ns:
            figures["median"] = Figure(statistics.median(shares[0].latencies_ns) / 1000, MICROSECONDS)
        return outcome(figures, shares, seconds)

    return Workload("", "", run)


def _window(target: Target, what: Messages) -> Job:
    return WindowPublisher(target.address, what)


def _patient(connections: int) -> MakeJob:
    return lambda target, what: PatientPublishers(target.address, what, connections)


def _named(name: str, title: str, workload: Workload, row: str = "") -> Workload:
    return Workload(name, title, workload.run, (row,))


STREAMS: Final = (
    StreamWorkload(
        _named(
            "publish-128",
            f"async publish, file, 128 B, window {WINDOW}",
            publishing(_window, messages=200_000),
        ),
        synced=True,
    ),
    StreamWorkload(
        _named(
            "publish-1024",
            f"async publish, file, 1 KiB, window {WINDOW}",
            publishing(_window, messages=100_000, payload_bytes=1024),
        ),
        synced=True,
    ),
    StreamWorkload(
        _named(
            "publish-id-128",
            "async publish, file, 128 B, Nats-Msg-Id",
            publishing(_window, messages=150_000, with_id=True),
        )
    ),
    StreamWorkload(
        _named(
            "publish-id-1024",
            "async publish, file, 1 KiB, Nats-Msg-Id",
            publishing(_window, messages=100_000, payload_bytes=1024, with_id=True),
        )
    ),
    StreamWorkload(
        _named(
            "publish-memory",
            "async publish, memory, 128 B",
            publishing(_window, messages=250_000, storage="memory"),
        )
    ),
    StreamWorkload(
        _named(
            "one-at-a-time",
            "one at a time, 1 connection",
            publishing(_patient(1), messages=4_000),
            row="median",
        ),
        synced=True,
        synced_scale=0.5,
    ),
    StreamWorkload(
        _named("fifty-at-a-time", "one at a time, 50 connections", publishing(_patient(50), messages=40_000)),
        synced=True,
        synced_scale=0.1,
    ),
    StreamWorkload(
        _named("atomic-batch", f"atomic batches of {BATCH}, file, 128 B", batching(messages=100_000))
    ),
    StreamWorkload(
        _named("mirror-128", "a mirror catches up, file, 128 B", copying("mirror", messages=300_000))
    ),
    StreamWorkload(
        _named("source-128", "a source catches up, file, 128 B", copying("sources", messages=300_000))
    ),
    StreamWorkload(
        _named("direct-get", f"direct get, {PAGE} at a time, 128 B", getting("all", messages=200_000))
    ),
    StreamWorkload(
        _named("direct-get-filter", "the same, one subject of ten", getting("some", messages=300_000))
    ),
    StreamWorkload(
        _named("direct-get-last", "direct get, the last of a subject", getting("last", messages=20_000))
    ),
)
