"""Write rows into the Parquet files of an Iceberg table, in a task: with field ids and statistics.

A task gets the rows of one range in order, so its files are sorted by sequence.  Rows are divided by the
table's partition fields, because a data file of Iceberg's belongs to one partition.  A file that no commit
names is not part of the table: a task may fail, be repeated or run twice.

Not here: the commit (`table`).  A task with local files imports no PyIceberg, which takes seconds.
"""

import contextlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from millstream.lake.places import is_local, local_path, sync_folder

if TYPE_CHECKING:
    import pyarrow as pa

RESULT: Final = "path string, rows long, bytes long"
PREFIX: Final = "millstream-"
GROUP_BYTES: Final = 64 * 1024 * 1024  # a row group, before encoding
COMPRESSION: Final = "zstd"
_MOST_OPEN: Final = 8  # files that a task has open, of as many partitions


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition field: its name, the column that it is made of, and True if it is the column's day."""

    name: str
    column: str
    by_day: bool


@dataclass(frozen=True)
class FileTarget:
    """The place for the files of one batch; pickled to the tasks."""

    location: str  # of the table
    schema: "pa.Schema"  # with Iceberg's field ids
    partition: tuple[PartitionColumn, ...]
    batch: int
    unmeasured: frozenset[str] = frozenset()  # columns without statistics
    io: Mapping[str, str] = field(default_factory=dict)  # properties of PyIceberg's file access


def new_stem(batch: int) -> str:
    """Return a stem for the files of one attempt at a task: a task that is repeated finds its old files."""
    return f"{PREFIX}b{batch:012d}-{uuid.uuid4().hex}"


def write_rows(
    batches: "Iterable[pa.RecordBatch]", target: FileTarget, task: int
) -> "Iterator[pa.RecordBatch]":
    """Write all rows, and yield one row of `RESULT` for each file."""
    import pyarrow as pa

    writer = TaskWriter(target, task)
    try:
        for batch in batches:
            writer.add(batch)
        files = writer.close()
    except BaseException:
        writer.discard()
        raise
    yield pa.RecordBatch.from_pydict(
        {
            "path": pa.array([one.path for one in files], pa.string()),
            "rows": pa.array([one.rows for one in files], pa.int64()),
            "bytes": pa.array([one.size for one in files], pa.int64()),
        }
    )


@dataclass(slots=True)
class WrittenFile:
    """One complete file."""

    path: str
    rows: int
    size: int


class TaskWriter:
    """The files of one task."""

    def __init__(self, target: FileTarget, task: int) -> None:
        self._target = target
        self._stem = f"{new_stem(target.batch)}-{task:05d}"
        self._open: dict[tuple[Any, ...], LakeFile] = {}
        self._done: list[WrittenFile] = []
        self._count = 0

    def add(self, batch: "pa.RecordBatch") -> None:
        rows = conform(batch, self._target.schema)
        for key, part in self._divided(rows):
            self._file(key).add(part)

    def close(self) -> list[WrittenFile]:
        for file in self._open.values():
            self._done.append(file.close())
        self._open.clear()
        return self._done

    def discard(self) -> None:
        """Close the open files of a task that failed, and remove them."""
        for file in self._open.values():
            file.discard()

    def _file(self, key: tuple[Any, ...]) -> "LakeFile":
        found = self._open.pop(key, None)
        if found is None:
            if len(self._open) >= _MOST_OPEN:  # the one that was not used for the longest time
                self._done.append(self._open.pop(next(iter(self._open))).close())
            folder = "".join(
                f"/{_folder_name(one.name)}={_folder_name(_text(value))}"
                for one, value in zip(self._target.partition, key, strict=True)
            )
            name = f"{self._stem}-{self._count:05d}.parquet"
            self._count += 1
            found = LakeFile(self._target, f"{self._target.location}/data{folder}/{name}")
        self._open[key] = found
        return found

    def _divided(self, rows: "pa.RecordBatch") -> "Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]":
        """Yield the rows of each partition."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not rows.num_rows:
            return
        columns = [_key_column(rows, one) for one in self._target.partition]
        if all(_is_constant(column) for column in columns):
            yield tuple(column[0].as_py() for column in columns), rows
            return
        names = [str(number) for number in range(len(columns))]
        keys = pa.table(columns, names=names).group_by(names, use_threads=False).aggregate([]).to_pylist()
        for key in keys:
            mask = None
            for name, column in zip(names, columns, strict=True):
                same = pc.is_null(column) if key[name] is None else pc.equal(column, key[name])
                mask = same if mask is None else pc.and_(mask, same)
            yield tuple(key[name] for name in names), rows.filter(pc.fill_null(mask, False))


class LakeFile:
    """One Parquet file while it is written; row groups have about `GROUP_BYTES`."""

    def __init__(self, target: FileTarget, path: str) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self._schema = target.schema
        self.rows = 0  # added so far
        self._waiting: list[Any] = []
        self._waiting_bytes = 0
        self._output = _create(path, target.io)
        measured = [name for name in target.schema.names if name not in target.unmeasured]
        self._writer = pq.ParquetWriter(
            self._output, target.schema, compression=COMPRESSION, compression_level=1,
            write_statistics=measured, store_schema=False,
        )  # fmt: skip

    def add(self, rows: "pa.RecordBatch") -> None:
        self._waiting.append(rows)
        self.rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        """Finish the file and make it survive a power loss: a purge of the stream may follow the commit."""
        self._flush()
        self._writer.close()
        size = self._output.tell()
        if is_local(self.path):
            self._output.flush()
            os.fsync(self._output.fileno())
        self._output.close()
        if is_local(self.path):
            _sync_folders(local_path(self.path))
        return WrittenFile(self.path, self.rows, size)

    def discard(self) -> None:
        """Close the file without its end, and remove it where that is possible."""
        with contextlib.suppress(Exception):
            self._writer.close()
        with contextlib.suppress(Exception):
            self._output.close()
        if is_local(self.path):
            local_path(self.path).unlink(missing_ok=True)

    def _flush(self) -> None:
        import pyarrow as pa

        if self._waiting:
            rows = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
            self._waiting, self._waiting_bytes = [], 0


def conform(batch: "pa.RecordBatch", schema: "pa.Schema") -> "pa.RecordBatch":
    """Return the batch with the columns and types of the schema; a column that it lacks is null."""
    import pyarrow as pa

    present = set(batch.schema.names)
    columns = [
        batch.column(one.name).cast(one.type) if one.name in present else pa.nulls(batch.num_rows, one.type)
        for one in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _create(path: str, properties: Mapping[str, str]) -> Any:
    if is_local(path):
        place = local_path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place.open("xb")
    from pyiceberg.io import load_file_io

    return load_file_io(dict(properties), path).new_output(path).create()


def _sync_folders(file: Path) -> None:
    """Sync the names of the file and of its folders, up to the table's own."""
    for folder in file.parents:
        sync_folder(folder)
        if folder.name == "data":
            sync_folder(folder.parent)
            return


def _key_column(rows: "pa.RecordBatch", one: PartitionColumn) -> Any:
    import pyarrow as pa

    column = rows.column(one.column)
    return column.cast(pa.timestamp("us")).cast(pa.date32(), safe=False) if one.by_day else column


def _is_constant(column: Any) -> bool:
    import pyarrow.compute as pc

    if column.null_count:
        return bool(column.null_count == len(column))
    ends = pc.min_max(column)
    return bool(ends["min"] == ends["max"])


def _folder_name(text: str) -> str:
    """Return text for a folder; folders are for people, since Iceberg knows partitions by its metadata."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
