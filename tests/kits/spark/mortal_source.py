"""The data source with places to die in: for programs that a test runs and kills.

A test arms a fault by writing a file, named as the place, into the folder `MORTAL_FOLDER`; whoever comes
there first, in whatever process, takes the file away and

    driver   kills the group of processes of the driver (its number is in the file `group`), and goes on for
             as long as Spark lets it: workers outlive their driver a little
    worker   ends at once, in the middle of a task
    pause    waits until there is a file `go-on`: time for the test to kill a server

The fault waits until so many batches are in Spark's commit log as the file says.  The places, in the order of
a micro-batch:

    after-commit   the batch before is in Spark's commit log, and nothing has followed
    before-log     the batch is planned, and not in the offset log
    planned        it is in the offset log
    read           some messages of a range have come, and others were asked for
    rows           some rows of a data file of Iceberg's are written, in a task
    write          some rows are written
    before-commit  all are written, and Spark does not know it
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from millstream.lake.data_files import FileTarget, write_rows
from millstream.spark.offsets import OffsetDict
from millstream.spark.option_table import Use
from millstream.spark.options import SourceOptions
from millstream.spark.sink import StreamWriter, TaskReport
from millstream.spark.source import JetStreamDataSource
from millstream.spark.stream import StreamReader
from millstream.tables.readers.pull import PullReader

FOLDER = "MORTAL_FOLDER"
READ = 20  # messages that have come before the place `read`
LIVES = 3  # record batches that are written before the place `write`
_LIMIT_S = 300
_ask = PullReader._ask


def pass_by(place: str) -> None:
    """Meet the fault that is armed here, if one is."""
    folder = Path(os.environ[FOLDER])
    armed = folder / place
    try:
        kind, least = armed.read_text().split()
        if committed(folder / "checkpoint") < int(least):
            return
        armed.rename(folder / f"{place}.fired")
    except FileNotFoundError:
        return
    if kind == "driver":
        os.killpg(int((folder / "group").read_text()), signal.SIGKILL)
    elif kind == "worker":
        os._exit(9)
    else:
        deadline = time.monotonic() + _LIMIT_S
        while not (folder / "go-on").exists() and time.monotonic() < deadline:
            time.sleep(0.01)


def committed(checkpoint: Path) -> int:
    """Return the number of batches in Spark's commit log."""
    try:
        return sum(name.isdecimal() for name in os.listdir(checkpoint / "commits"))
    except FileNotFoundError:
        return 0


class MortalReader(StreamReader):
    def latestOffset(self, start: OffsetDict, limit: ReadLimit) -> OffsetDict:
        with (Path(os.environ[FOLDER]) / "asked").open("a") as questions:
            questions.write(".")
        pass_by("after-commit")
        end = super().latestOffset(start, limit)
        if end != start:
            pass_by("before-log")
        return end

    def partitions(self, start: OffsetDict, end: OffsetDict) -> Any:
        pass_by("planned")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        PullReader._ask = _mortal_ask  # type: ignore[method-assign,assignment]
        return super().read(partition)


def _mortal_ask(reader: PullReader) -> None:
    if reader._received >= READ:
        pass_by("read")
    _ask(reader)


def mortal_rows(batches: Iterable[Any], target: FileTarget, task: int) -> Iterator[Any]:
    """Write a data file of Iceberg's, with a place to die in."""

    def passing() -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == LIVES:
                pass_by("rows")
            yield batch

    return write_rows(passing(), target, task)


class MortalWriter(StreamWriter):
    def write(self, iterator: Iterator[Any]) -> TaskReport:
        return self._task.run(_mortal(iterator))

    def commit(self, messages: Any, batchId: int) -> None:
        super().commit(messages, batchId)
        pass_by("before-commit")


def _mortal(batches: Iterator[Any]) -> Iterator[Any]:
    for number, batch in enumerate(batches):
        if number == LIVES:
            pass_by("write")
        yield batch


class MortalSource(JetStreamDataSource):
    @classmethod
    def name(cls) -> str:
        return "mortal"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return MortalReader(SourceOptions.parse(dict(self.options), Use.STREAM), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        made = super().streamWriter(schema, overwrite)
        return MortalWriter(made._task)  # type: ignore[attr-defined]
