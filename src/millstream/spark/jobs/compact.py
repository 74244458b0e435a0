"""Compact: merge the small folders of a table, as a job (see `compaction`)."""

from millstream.spark import option_values
from millstream.spark.jobs.compaction import compact
from millstream.spark.jobs.context import JobContext
from millstream.spark.jobs.files import open_files
from millstream.spark.jobs.settings import Compact
from millstream.spark.jobs.table import ParquetTable


def run(context: JobContext, settings: Compact) -> str:
    """Merge once; raise TableError if another process writes the table."""
    table = ParquetTable.open(open_files(settings.table, context.spark))
    with table.writing():
        merged = compact(
            table,
            least_folders=settings.folders,
            large_bytes=option_values.size("size", settings.size),
        )
    context.say(merged.rows)
    return f"{merged.folders_before} folders became {merged.folders_after} in {merged.partitions} partitions"
