"""Compact: merge the small folders or files of a table, as a job (see `compaction` and `lake.upkeep`)."""

from millstream.lake.upkeep import expire, merge_files, remove_orphans
from millstream.spark import option_values
from millstream.spark.jobs.compaction import compact
from millstream.spark.jobs.context import JobContext
from millstream.spark.jobs.files import open_files
from millstream.spark.jobs.iceberg import open_table
from millstream.spark.jobs.settings import Compact
from millstream.spark.jobs.table import ParquetTable


def run(context: JobContext, settings: Compact) -> str:
    """Merge once; raise TableError if another process writes the Parquet table."""
    size = option_values.size("size", settings.size)
    if settings.format == "iceberg":
        return _run_iceberg(context, settings, size)
    table = ParquetTable.open(open_files(settings.table, context.spark))
    with table.writing():
        merged = compact(table, least_folders=settings.folders, large_bytes=size)
    context.say(merged.rows)
    return f"{merged.folders_before} folders became {merged.folders_after} in {merged.partitions} partitions"


def _run_iceberg(context: JobContext, settings: Compact, size: int) -> str:
    table = open_table(context, settings.table)
    merged = merge_files(table, least=settings.folders, large_bytes=size)
    context.say(merged.rows)
    age_s = option_values.duration("snapshot_age", settings.snapshot_age)
    expired = expire(table, keep=settings.snapshots, older_than_s=age_s)
    orphan_age_s = option_values.duration("orphan_age", settings.orphan_age)
    orphans = remove_orphans(table, older_than_s=orphan_age_s)
    return (
        f"{merged.before} files became {merged.after} in {merged.partitions} partitions, "
        f"{expired} snapshots expired, {len(orphans)} orphans removed"
    )
