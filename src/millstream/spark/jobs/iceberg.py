"""Iceberg tables in jobs: tasks write the data files, the driver commits them, and rows are read back.

No jar is needed: tasks get their rows as Arrow batches and write Parquet themselves (`lake.data_files`), and
a table is read as the list of its Parquet files.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from millstream.lake.data_files import RESULT, FileTarget, PartitionColumn, write_rows
from millstream.lake.errors import LakeError
from millstream.lake.progress import Progress, QueryProgress
from millstream.lake.table import LakeTable, TableForm
from millstream.lake.upkeep import current_files
from millstream.spark.jobs.context import JobContext
from millstream.spark.jobs.errors import JobError
from millstream.spark.schema import arrow_schema, default_schema

if TYPE_CHECKING:
    from pyarrow import RecordBatch

ARCHIVE: Final = "archive"
TRANSFORM: Final = "transform"
_UNMEASURED: Final = ("data", "headers.key", "headers.value.element")


def archive_form(payload: str = "") -> TableForm:
    """Return the form of an archive: by stream and day, sorted by sequence; `payload` is DDL."""
    fields = list(default_schema().fields)
    if payload:
        own = {field.name for field in fields}
        for field in cast(StructType, StructType.fromDDL(payload)).fields:
            if field.name in own:
                raise JobError(f'key "schema": the column {field.name} is one of the message itself')
            fields.append(field)
    return TableForm(
        kind=ARCHIVE,
        columns=arrow_schema(StructType(fields)),
        payload=payload,
        partition=(PartitionColumn("stream", "stream", False), PartitionColumn("time_day", "time", True)),
        order=("stream", "seq"),
        unmeasured=_UNMEASURED,
    )


def transform_form(schema: StructType, partition_by: Sequence[str]) -> TableForm:
    """Return the form of a table for the result of a transform."""
    return TableForm(
        kind=TRANSFORM,
        columns=arrow_schema(schema),
        partition=tuple(PartitionColumn(name, name, False) for name in partition_by),
    )


def ensure_table(context: JobContext, name: str, form: TableForm) -> LakeTable:
    """Open a table to write it; create catalog, namespace and table if they do not exist."""
    return LakeTable.ensure(context.catalog(create=True), name, form)


def open_table(context: JobContext, name: str) -> LakeTable:
    """Open an existing table; raise LakeError if there is none of ours."""
    return LakeTable.open(context.catalog(), name)


def write_batch(
    table: LakeTable,
    rows: DataFrame,
    query: str,
    batch: int,
    advance: Callable[[Progress], QueryProgress],
    before_commit: Callable[[], None] = lambda: None,
) -> int:
    """Write and commit a batch, unless it is in the table; return its rows, 0 if it was there already."""
    before = table.progress()
    if query in before and before[query].batch >= batch:
        return 0
    advance(before)  # an error costs no files
    target = table.file_target(batch)
    files = rows.mapInArrow(_writer(target), RESULT).collect()
    paths = [str(row.path) for row in files]
    before_commit()
    table.commit_batch(query, batch, paths, advance=advance)
    return sum(int(row.rows) for row in files)


def _writer(target: FileTarget) -> "Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]":
    def write(batches: "Iterable[RecordBatch]") -> "Iterator[RecordBatch]":
        context = TaskContext.get()
        return write_rows(batches, target, context.partitionId() if context is not None else 0)

    return write


def read_table(spark: SparkSession, table: LakeTable) -> DataFrame:
    """Return the rows of the current snapshot."""
    loaded = table.load()
    try:
        paths = [task.file.file_path for task in current_files(loaded)]
    except LakeError:
        raise
    except Exception as error:  # metadata that cannot be read
        raise LakeError(f"table {table.name} cannot be read: {str(error).splitlines()[0]}") from error
    schema = _spark_schema(table)
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*paths)


def _spark_schema(table: LakeTable) -> StructType:
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema_to_pyarrow(table.load().schema()))
