"""Merge the small batch folders of a table into larger ones.

For each partition (one day of a stream) a new folder is prepared in a hidden place: each run of small batch
folders becomes one folder with one file, large folders become hard links.  Then the new and the old folder
are exchanged in one step of the file system.  A reader that lists the table sees the partition before or
after the exchange, never a row twice or missing; a kill at any moment leaves one of the two and rubbish that
the next run removes.  A reader that listed the old files and opens them later gets an error that names the
file.

Only batches with a manifest are merged.  Row counts are compared before the exchange.  Needs a local folder
on Linux; use Delta or Iceberg, which compact themselves, for tables elsewhere.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from millstream.spark.jobs.errors import TableError
from millstream.spark.jobs.files import LocalFiles
from millstream.spark.jobs.table import BATCH, HIDDEN, ParquetTable, batch_name, batch_numbers

WORK: Final = f"{HIDDEN}/compaction"
_GROUP_BYTES: Final = 64 * 1024 * 1024  # a row group, before encoding


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a run."""

    partitions: int = 0
    folders_before: int = 0
    folders_after: int = 0
    rows: int = 0


def compact(
    table: ParquetTable,
    *,
    least_folders: int,
    large_bytes: int,
    at: Callable[[str], None] = lambda step: None,
) -> Merged:
    """Merge every partition with at least `least_folders` folders smaller than `large_bytes`.

    The caller excludes other writers (`ParquetTable.writing`).  `at` is called when a partition's new folder
    is ``prepared`` and when it is ``exchanged``.
    """
    files = table.files
    if not isinstance(files, LocalFiles):
        raise TableError(f"{table.root}: only tables in local folders can be compacted; use delta or iceberg")
    if not table.partition:
        raise TableError(f"{table.root}: a table without partition columns cannot be compacted")
    files.remove(WORK)
    last = table.last_batch()
    partitions: dict[str, list[str]] = {}
    for leaf in table.leaves():
        partition, _, folder = leaf.rpartition("/")
        if batch_numbers(folder)[1] <= last:
            partitions.setdefault(partition, []).append(folder)
    done = Merged()
    for partition, folders in partitions.items():
        runs = list(_runs(files, partition, folders, large_bytes))
        if sum(len(run) for run in runs if len(run) > 1) < least_folders:
            continue
        rows = _prepare(files, partition, runs)
        at("prepared")
        files.exchange(f"{WORK}/{partition}", partition)
        at("exchanged")
        files.remove(WORK)
        done = Merged(
            done.partitions + 1,
            done.folders_before + len(folders),
            done.folders_after + len(runs),
            done.rows + rows,
        )
    table.merge_manifests()
    return done


def _runs(files: LocalFiles, partition: str, folders: list[str], large_bytes: int) -> Iterator[list[str]]:
    """Yield lists of neighbouring folders to merge; a large folder is in a list of its own."""
    run: list[str] = []
    size = 0
    for folder in sorted(folders, key=batch_numbers):
        bytes_here = sum(
            entry.stat().st_size for entry in files.path(f"{partition}/{folder}").glob("*.parquet")
        )
        if run and size + bytes_here > large_bytes:
            yield run
            run, size = [], 0
        run.append(folder)
        size += bytes_here
    if run:
        yield run


def _prepare(files: LocalFiles, partition: str, runs: list[list[str]]) -> int:
    """Build the new folder of a partition; return the number of rows merged."""
    rows = 0
    for run in runs:
        sources = [
            file for folder in run for file in sorted(files.path(f"{partition}/{folder}").glob("*.parquet"))
        ]
        if len(run) == 1:
            place = files.path(f"{WORK}/{partition}/{run[0]}")
            place.mkdir(parents=True)
            for file in sources:
                os.link(file, place / file.name)
            continue
        name = batch_name(batch_numbers(run[0])[0], batch_numbers(run[-1])[1])
        place = files.path(f"{WORK}/{partition}/{BATCH}={name}")
        place.mkdir(parents=True)
        rows += _merge(sources, place / f"part-{name}.parquet")
        files.sync(place)
    return rows


def _merge(sources: list[Path], target: Path) -> int:
    """Copy the rows of several files into one, in order, with bounded memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    expected = sum(pq.read_metadata(source).num_rows for source in sources)
    with pq.ParquetFile(sources[0], coerce_int96_timestamp_unit="us") as first:
        schema = first.schema_arrow
    waiting: list[Any] = []
    waiting_bytes = rows = 0
    with target.open("wb") as output:
        with pq.ParquetWriter(output, schema, compression="snappy") as writer:
            for source in sources:
                with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
                    for batch in file.iter_batches():
                        waiting.append(batch)
                        waiting_bytes += batch.nbytes
                        rows += batch.num_rows
                        if waiting_bytes >= _GROUP_BYTES:
                            writer.write_table(pa.Table.from_batches(waiting, schema))
                            waiting, waiting_bytes = [], 0
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting, schema))
        output.flush()
        os.fsync(output.fileno())
    if rows != expected:
        raise TableError(f"merging {sources[0].parent.parent} gave {rows} rows instead of {expected}")
    return rows
