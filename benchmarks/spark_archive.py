"""A long stream into a table by `millstream pipeline run`, and whether its memory stays flat.

The command runs as a user runs it, in processes of its own; every half second the memory in RAM of each
kind is noted: the driver's Python, the JVM, all Python workers together, and the server.  Flat means that
the last quarter of the rows takes no more than the second: in the first, Spark and Java get going.  Java
takes what heap it is given, so that is small here.
"""

import dataclasses
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks import machine
from benchmarks.machine import Machine
from benchmarks.spark_session import process_memory, process_times
from benchmarks.spark_streams import PLAIN, fill, site
from benchmarks.stream_store import resident_mib
from benchmarks.wire import WireError
from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.places import local_path
from millstream.lake.table import LakeTable
from tests.kits.reference import ServerKind

_LOOK_S: Final = 0.5
_PARTS: Final = 8  # lines of the report
ICEBERG_TABLE: Final = "bench.archived"
SETTINGS: Final = {"spark.driver.memory": "1g"}


@dataclass(frozen=True, slots=True)
class Look:
    """Memory at one moment, in MiB."""

    second: float
    rows: int  # in the table
    driver: float
    jvm: float
    workers: float
    server: float
    processes: int  # Python workers

    @property
    def spark(self) -> float:
        return self.driver + self.jvm + self.workers


@dataclass(frozen=True, slots=True)
class Outcome:
    messages: int
    batch: int
    seconds: float
    processor: float  # seconds of the processor, of all Spark's processes
    format: str
    machine: Machine
    finished: str
    looks: tuple[Look, ...]

    def quarter(self, number: int) -> tuple[Look, ...]:
        """The looks while a quarter of the rows, 0 to 3, was on its way."""
        low, high = (self.messages * part // 4 for part in (number, number + 1))
        return tuple(look for look in self.looks if low <= look.rows < high)

    @property
    def growth(self) -> float | None:
        """Return the highest memory of Spark in the last quarter, divided by that in the second, or None."""
        late, early = (max((look.spark for look in self.quarter(number)), default=0.0) for number in (3, 1))
        return late / early if late and early else None


def measure(messages: int, batch: int, format: str, progress: Callable[[str], None]) -> Outcome:
    """Fill a stream, archive it, and count what is in the table."""
    described = machine.describe()
    with (
        tempfile.TemporaryDirectory(prefix="millstream-bench-") as name,
        site(ServerKind.MILLSTREAM) as server,
    ):
        progress(f"{messages:,} messages")
        fill(server, PLAIN, messages)
        folder = Path(name)
        file = _file(folder, server.url, batch, format)
        looks, seconds, processor = _run(file, folder / "log", server.pid, progress)
        rows = _count(folder, format)
        if rows != messages:
            raise WireError(f"{rows} rows of {messages} messages are in the table")
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    return Outcome(messages, batch, seconds, processor, format, described, finished, tuple(looks))


def _count(folder: Path, format: str) -> int:
    """Return how many different sequences the table has; raise WireError if one is in it twice."""
    if format == "iceberg":
        catalog = open_catalog(CatalogSettings(warehouse=str(folder / "lake")))
        table = LakeTable.open(catalog, ICEBERG_TABLE).load()
        files = ds.dataset([local_path(task.file.file_path) for task in table.scan().plan_files()])
    else:
        files = ds.dataset(folder / "table", format="parquet", exclude_invalid_files=True)
    sequences = files.to_table(columns=["seq"])["seq"]
    different = int(pc.count_distinct(sequences).as_py())
    if different != len(sequences):
        raise WireError(f"{len(sequences)} rows in the table have {different} sequences")
    return different


def _file(folder: Path, url: str, batch: int, format: str) -> Path:
    file = folder / "archive.toml"
    settings = "\n".join(f'"{name}" = "{value}"' for name, value in SETTINGS.items())
    table = f"{folder}/table" if format == "parquet" else ICEBERG_TABLE
    file.write_text(
        f'checkpoint = "{folder}/checkpoint"\n[nats]\nservers = ["{url}"]\n'
        f'[spark]\nmaster = "local[2]"\n[spark.conf]\n{settings}\n'
        f'[catalog]\nwarehouse = "{folder}/lake"\n'
        f'[[job]]\nkind = "archive"\nname = "archive"\nstreams = ["{PLAIN}"]\ntable = "{table}"\n'
        f'format = "{format}"\ntrigger = "once"\nmax_rows = {batch}\n'
    )
    return file


def _run(
    file: Path, log: Path, server: int, progress: Callable[[str], None]
) -> tuple[list[Look], float, float]:
    command = [sys.executable, "-m", "millstream", "pipeline", "run", str(file), "--once", "--json"]
    looks: list[Look] = []
    used: dict[int, float] = {}  # processor time of each process, as it was last seen
    began = time.perf_counter()
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            while process.poll() is None:
                looks.append(_look(process.pid, server, time.perf_counter() - began, _rows(log)))
                used.update(process_times(process.pid))
                progress(f"archiving: {looks[-1].rows:,} rows, {looks[-1].spark:.0f} MiB")
                time.sleep(_LOOK_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    seconds = time.perf_counter() - began
    if process.returncode:
        raise WireError(f"the pipeline failed: {log.read_text()[-2000:]}")
    return looks, seconds, sum(used.values())


def _rows(log: Path) -> int:
    """Return the number of rows in the last line of progress."""
    found = re.findall(r'"rows": ?(\d+)', log.read_text())
    return int(found[-1]) if found else 0


def _look(driver: int, server: int, second: float, rows: int) -> Look:
    memory = process_memory(driver)
    own = memory.pop(driver, 0.0)
    jvm = {pid: size for pid, size in memory.items() if _is_java(pid)}
    workers = sum(memory.values()) - sum(jvm.values())
    return Look(second, rows, own, sum(jvm.values()), workers, resident_mib(server), len(memory) - len(jvm))


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except (FileNotFoundError, ProcessLookupError):
        return False


def markdown(outcome: Outcome) -> str:
    """A table over the time of the run."""
    looks = outcome.looks
    size = max(1, len(looks) // _PARTS)
    described = outcome.machine
    out = [
        f"{outcome.messages:,} messages of 128 B archived to {outcome.format} in {outcome.seconds:.0f} s "
        f"({outcome.messages / outcome.seconds:,.0f} rows/s with Spark's start; {outcome.processor:.0f} s of "
        f"processor time), batches of "
        f"{outcome.batch:,}, {'; '.join(f'{name}={value}' for name, value in SETTINGS.items())}; "
        f"{outcome.finished}, {described.processor}, {described.cores} cores, load average "
        f"{described.load_before} before",
        "Memory of Spark's processes, last quarter of the rows to the second: "
        + ("too short a run" if outcome.growth is None else f"{outcome.growth:.2f}"),
        "",
        "| from second | rows | driver, MiB | JVM | workers | together | server | workers, number |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for start in range(0, len(looks), size):
        part = looks[start : start + size]
        cells = (
            max(getattr(look, name) for look in part)
            for name in ("driver", "jvm", "workers", "spark", "server", "processes")
        )
        out.append(
            f"| {part[0].second:.0f} | {part[0].rows:,} | {' | '.join(f'{cell:.0f}' for cell in cells)} |"
        )
    middle = statistics.median(look.spark for look in looks)
    return "\n".join(
        [*out, "", f"Most in each part of the run; together, the median is {middle:.0f} MiB.", ""]
    )


def write_json(path: Path, outcome: Outcome) -> None:
    path.write_text(json.dumps({**dataclasses.asdict(outcome), "growth": outcome.growth}, indent=2) + "\n")
