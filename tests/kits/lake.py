"""Archives of streams in Iceberg tables, written without Spark."""

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
