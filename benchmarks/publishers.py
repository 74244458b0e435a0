"""The rates of publishers into a stream: nats-py, the lean client, and the Spark sink without Spark.

    python -m benchmarks publishers [--server millstream] [--messages 100000] [--rounds 5]

All take turns on one server, a round each, and wait for every acknowledgement; the figure is the median of
the ratios to nats-py's `publish_async` of the same turn.  For the sink, `dedupe` beside `at-least-once`
matters: the bar is 0.75.
"""

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import nats
import pyarrow as pa
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from millstream.link.blocking_link import BlockingLink
from millstream.link.blocking_publisher import BlockingPublisher
from millstream.link.link import Link
from millstream.link.options import LinkOptions, parse_servers
from millstream.link.publish_window import Receipts
from millstream.link.publisher import Publisher
from millstream.spark.options import SinkOptions
from millstream.spark.sink import batch_writer
from millstream.spark.writing.identity import TaskIdentity
from millstream.tables.connections import close_idle_links
from tests.kits.reference import ServerKind, ServerProcess

_BODY: Final = b"x" * 128
_WINDOW: Final = 4000
_NATS_PY_SHARE: Final = 10  # it gets a tenth of the messages, to keep a turn short
_SINGLES_SHARE: Final = 20
_BATCH: Final = 1000
_TASKS: Final = 32
_ROWS: Final = 10_000  # of a record batch, Spark's default

Run = Callable[[str, int], float]  # publishes so many; messages a second


def nats_py(url: str, count: int) -> float:
    async def run() -> float:
        connection = await nats.connect(url)
        js = connection.jetstream(publish_async_max_pending=_WINDOW)
        start = time.perf_counter()
        for _ in range(count // _NATS_PY_SHARE):
            await js.publish_async("bench.a", _BODY)
        await js.publish_async_completed()
        took = time.perf_counter() - start
        await connection.close()
        return count // _NATS_PY_SHARE / took

    return asyncio.run(run())


def blocking(url: str, count: int) -> float:
    with BlockingLink(_options(url)) as link:
        publisher = BlockingPublisher(link, limit=_WINDOW)
        receipts = Receipts()
        start = time.perf_counter()
        for _ in range(count):
            publisher.publish(receipts, b"bench.a", b"", _BODY)
        publisher.settle(receipts)
        took = time.perf_counter() - start
        assert not receipts.errors
        return count / took


def batches(url: str, count: int) -> float:
    async def run(publisher: Publisher) -> None:
        outcomes = []
        for _ in range(count // _BATCH):
            outcomes.append(await publisher.submit([(b"bench.a", b"", _BODY)] * _BATCH))
        for receipts in await asyncio.gather(*outcomes):
            assert not receipts.errors

    return _with_loop(url, count, run)


def singles(url: str, count: int) -> float:
    count //= _SINGLES_SHARE

    async def run(publisher: Publisher) -> None:
        async def one_after_the_other() -> None:
            for _ in range(count // _TASKS):
                await publisher.publish(b"bench.a", _BODY)

        await asyncio.gather(*(one_after_the_other() for _ in range(_TASKS)))

    return _with_loop(url, count, run)


def sink(guarantee: str) -> Run:
    def run(url: str, count: int) -> float:
        fence = "bench.fence" if guarantee == "fenced" else None
        options = SinkOptions(
            LinkOptions(servers=parse_servers(url)), delivery_guarantee=guarantee, fence_subject=fence
        )
        writer = batch_writer(options, StructType().add("subject", "string").add("data", "binary"), False)
        arrays = [pa.array(["bench.a"] * _ROWS), pa.array([_BODY] * _ROWS)]
        batch = pa.RecordBatch.from_arrays(arrays, ["subject", "data"])
        task: Any = writer._task
        start = time.perf_counter()
        report = task.run(iter([batch] * (count // _ROWS)), TaskIdentity(task.write_name, 0, 0))
        took = time.perf_counter() - start
        rows = count // _ROWS * _ROWS
        assert report.rows == rows
        return rows / took

    return run


RUNS: Final[dict[str, Run]] = {
    "nats-py publish_async": nats_py,
    "blocking": blocking,
    "asyncio, batches of 1000": batches,
    "asyncio, single, 32 tasks": singles,
    "sink, at-least-once": sink("at-least-once"),
    "sink, dedupe": sink("dedupe"),
    "sink, fenced": sink("fenced"),
}


def _options(url: str) -> LinkOptions:
    return LinkOptions(servers=parse_servers(url))


def _with_loop(url: str, count: int, work: Callable[[Publisher], Any]) -> float:
    async def run() -> float:
        async with Link(_options(url)) as link:
            publisher = Publisher(link, limit=_WINDOW)
            start = time.perf_counter()
            await work(publisher)
            return count / (time.perf_counter() - start)

    return asyncio.run(run())


def compare(kind: ServerKind, messages: int, rounds: int, console: Console) -> None:
    """Let all of them publish into a server of this kind, in turn."""
    rates: dict[str, list[float]] = {name: [] for name in RUNS}
    with ServerProcess(kind, jetstream=True) as server:
        for turn in range(rounds):
            names = list(RUNS) if turn % 2 == 0 else list(reversed(RUNS))
            for name in names:
                with BlockingLink(_options(server.client_url)) as link:
                    link.api(
                        "STREAM.CREATE.BENCH",
                        {"name": "BENCH", "subjects": ["bench.>"], "allow_atomic": True},
                    )
                    rates[name].append(RUNS[name](server.client_url, messages))
                    close_idle_links()
                    link.api("STREAM.DELETE.BENCH")
    first = rates["nats-py publish_async"]
    plain = rates["sink, at-least-once"]
    table = Table(f"into {kind}", "median/s", "to nats-py", "to plain sink")
    for name, found in rates.items():
        ratio = statistics.median(mine / theirs for mine, theirs in zip(found, first, strict=True))
        beside = statistics.median(mine / theirs for mine, theirs in zip(found, plain, strict=True))
        shown = f"{beside:.2f}" if name.startswith("sink") else ""
        table.add_row(name, f"{statistics.median(found):,.0f}", f"{ratio:.2f}", shown)
    console.print(machine.describe())
    console.print(table)
