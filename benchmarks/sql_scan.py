"""SQL over a stream, beside DuckDB on the same messages as Parquet, which is the limit.

    python -m benchmarks.sql_scan [--messages 10000000] [--rounds 3] [--server nats-server]

The same queries over the same rows: SQL reads the stream of a running server, through the process
of the query; DuckDB reads one file of Parquet in this process.  Rounds take turns; figures are medians.  The
processor time is that of whoever asks: reader and query for SQL, DuckDB for Parquet.  `memory` is the highest
resident size of reader and query together, and must not grow with the number of messages.
"""

import argparse
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.spark_streams import PLAIN, fill, site
from millstream.queries.limits import SqlLimits
from millstream.queries.process import RunningQuery
from millstream.queries.relations import StreamRelation
from millstream.tables.source import Selection, TableSource
from millstream.tables.table import connection_to
from tests.kits.reference import ServerKind

COLUMNS: Final = ("stream", "subject", "seq", "time", "headers", "data", "size")
_MIB: Final = 1024 * 1024


def queries(count: int) -> dict[str, str]:
    """Return the queries by what they show; `{}` is the relation."""
    return {
        "count": "select count(*), max(seq) from {}",
        "by subject": "select subject, count(*), max(size) from {} group by 1",
        "payloads": "select sum(strlen(data)) from {}",
        "1 %, checked by DuckDB": "select seq, data from {} where seq % 100 = 0",
        "1 %, pushed down": f"select seq, data from {{}} where seq > {count - count // 100}",
    }


@contextmanager
def _peak(pids: Callable[[], list[int]]) -> Iterator[list[float]]:
    """Yield a list that gets the highest resident size of some processes, in MiB."""
    found: list[float] = [0.0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            found[0] = max(found[0], sum(_resident(pid) for pid in pids()) / _MIB)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, LookupError):
        return 0


def _cpu_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def over_stream(url: str, query: str) -> tuple[float, float, float]:
    """Return seconds, processor time and memory of a query over a stream."""
    cpu, began = _cpu_s(), time.perf_counter()
    source = TableSource(connection_to(url), name="benchmark")
    with RunningQuery(query, source, SqlLimits(time_s=0)) as running:
        with _peak(lambda: [os.getpid(), running.pid]) as memory:
            for _ in running.batches():
                pass
        took = time.perf_counter() - began
    return took, _cpu_s() - cpu, memory[0]


def over_parquet(query: str) -> tuple[float, float, float]:
    """Return the same of DuckDB on a file."""
    connection = duckdb.connect(config={"threads": 2})
    cpu, began = _cpu_s(), time.perf_counter()
    with _peak(lambda: [os.getpid()]) as memory:
        for _ in connection.sql(query).to_arrow_reader():
            pass
    return time.perf_counter() - began, _cpu_s() - cpu, memory[0]


def save(url: str, file: Path) -> None:
    """Write the stream to a file of Parquet, as the text that SQL sees."""
    source = TableSource(connection_to(url), name="benchmark")
    relation = StreamRelation(PLAIN)
    writer: Any = None
    for batch in source.batches(PLAIN, Selection(columns=COLUMNS)):
        batch = relation.shaped(batch, COLUMNS)
        writer = writer or pq.ParquetWriter(file, batch.schema, compression="snappy")
        writer.write_batch(batch)
    writer.close()
    source.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server", choices=list(ServerKind), default=ServerKind.MILLSTREAM)
    given = parser.parse_args()
    console = Console(width=130)
    console.print(machine.describe())
    with site(ServerKind(given.server)) as where, tempfile.TemporaryDirectory() as folder:
        fill(where, PLAIN, given.messages)
        file = Path(folder) / "stream.parquet"
        save(where.url, file)
        table = Table(title=f"SQL over {given.messages:,} messages on {given.server}, beside Parquet")
        for name in ("query", "stream M rows/s", "cpu s", "MiB", "Parquet M rows/s", "cpu s", "MiB", "ratio"):
            table.add_column(name, justify="left" if name == "query" else "right")
        for name, query in queries(given.messages).items():
            found: tuple[list[Any], list[Any]] = ([], [])
            for _ in range(given.rounds):
                found[0].append(over_stream(where.url, query.format(PLAIN)))
                found[1].append(over_parquet(query.format(f"'{file}'")))
            ours, theirs = ([statistics.median(each) for each in zip(*side, strict=True)] for side in found)
            rates = [given.messages / side[0] / 1e6 for side in (ours, theirs)]
            table.add_row(
                name,
                f"{rates[0]:.2f}", f"{ours[1]:.1f}", f"{ours[2]:.0f}",
                f"{rates[1]:.2f}", f"{theirs[1]:.1f}", f"{theirs[2]:.0f}",
                f"{rates[0] / rates[1]:.2f}",
            )  # fmt: skip
        console.print(table)


if __name__ == "__main__":
    main()
