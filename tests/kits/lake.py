"""Archives of streams in Iceberg tables, written without Spark."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from millstream.lake.catalog import CatalogSettings, open_catalog
from millstream.lake.data_files import PartitionColumn, write_rows
from millstream.lake.progress import Progress, QueryProgress
from millstream.lake.table import LakeTable, TableForm, archived
from millstream.tables.source import Selection
from tests.kits.queries import source_of

COLUMNS: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("subject", pa.string()),
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("headers", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("data", pa.binary()),
    ]
)
NOON: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SIZE: Final = 10  # rows of a batch of `add`
FORM: Final = TableForm(
    kind="archive",
    columns=COLUMNS,
    partition=(PartitionColumn("stream", "stream", False), PartitionColumn("time_day", "time", True)),
    order=("stream", "seq"),
    unmeasured=("data", "headers.key", "headers.value.element"),
)


def archive(
    url: str, stream: str, lake: CatalogSettings, table: str, first: int, last: int, **options: str
) -> LakeTable:
    """Archive a range of a stream as one batch of a job; each call adds the next batch."""
    source = source_of(url, **options)
    facts = source.facts(stream)
    batches = list(source.batches(stream, Selection(tuple(COLUMNS.names), first, last)))
    source.close()
    target = LakeTable.ensure(open_catalog(lake, create=True), table, FORM)
    before = target.progress().get(stream)
    batch = 0 if before is None else before.batch + 1
    [written] = write_rows(iter(batches), target.file_target(batch), 0)

    def advance(progress: Progress) -> QueryProgress:
        return archived("archive", batch, progress.get(stream), {stream: (facts.id, first, last + 1)}, ())

    target.commit_batch(stream, batch, written.column("path").to_pylist(), advance=advance)
    return target


def rows(first: int, count: int = SIZE, stream: str = "S", step_s: int = 1) -> pa.RecordBatch:
    """Return made-up messages."""
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pylist(
        [
            {
                "stream": stream,
                "subject": "s.x",
                "seq": n,
                "time": NOON + timedelta(seconds=step_s * n),
                "headers": [("Number", [str(n)])],
                "data": b"%d" % n,
            }
            for n in numbers
        ],
        schema=COLUMNS,
    )


def files_of(table: LakeTable, batch: int, *batches: pa.RecordBatch) -> list[str]:
    """Write the files of a batch, which are in no snapshot yet."""
    [result] = write_rows(iter(batches), table.file_target(batch), 0)
    paths: list[str] = result.column("path").to_pylist()
    return paths


def after(query: str, batch: int, stream: str = "S") -> Callable[[Progress], QueryProgress]:
    """Return the progress after a batch of `SIZE` rows."""
    start = batch * SIZE + 1

    def advance(before: Progress) -> QueryProgress:
        ranges = {stream: ("made", start, start + SIZE)}
        return archived("archive", batch, before.get(query), ranges, ())

    return advance


def add(table: LakeTable, batch: int, query: str = "q", stream: str = "S") -> None:
    """Add a batch of made-up messages as a query does."""
    paths = files_of(table, batch, rows(batch * SIZE + 1, stream=stream))
    table.commit_batch(query, batch, paths, advance=after(query, batch, stream))


def sequences(table: LakeTable) -> list[int]:
    """Return the sequences of all rows, sorted."""
    return sorted(table.load().scan().to_arrow().column("seq").to_pylist())
