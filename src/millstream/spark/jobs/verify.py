"""Verify: compare a stream with its table and report missing, different and duplicate messages.

Both sides are summarised in buckets of sequences: number of rows, number of distinct sequences, and a
checksum that does not depend on the order.  Only buckets that differ are compared row by row.  Messages that
the stream has removed since (retention, purge) are no fault unless `strict` is set.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from millstream.spark.jobs.admin import StreamAdmin
from millstream.spark.jobs.context import JobContext
from millstream.spark.jobs.errors import JobError, TableError
from millstream.spark.jobs.files import LocalFiles, is_local
from millstream.spark.jobs.inputs import read_range
from millstream.spark.jobs.payloads import good_rows, parse_payload
from millstream.spark.jobs.settings import Verify
from millstream.spark.jobs.stored import Ranges, StoredTable, open_stored

_SHOWN: Final = 20  # ranges of each kind in the output
_COMPARED: Final = ("stream", "subject", "seq", "time", "headers", "data")


@dataclass
class VerifiedStream:
    """The result of a comparison; ranges of sequences include both ends."""

    stream: str
    first: int
    last: int
    stream_rows: int = 0
    table_rows: int = 0
    missing_in_table: Ranges = field(default_factory=list)
    different: Ranges = field(default_factory=list)
    doubled: Ranges = field(default_factory=list)
    only_in_table: Ranges = field(default_factory=list)
    gaps_between_batches: Ranges = field(default_factory=list)

    def is_good(self, *, strict: bool) -> bool:
        wrong = self.missing_in_table or self.different or self.doubled or self.gaps_between_batches
        return not wrong and not (strict and self.only_in_table)

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        head = f"{self.stream}: sequences {self.first} to {self.last}"
        lines = [f"{head}: {self.stream_rows} in the stream, {self.table_rows} in the table"]
        for what in ("missing_in_table", "different", "doubled", "only_in_table", "gaps_between_batches"):
            ranges: Ranges = getattr(self, what)
            if ranges:
                shown = ", ".join(
                    f"{low}-{high}" if high > low else str(low) for low, high in ranges[:_SHOWN]
                )
                more = f" and {len(ranges) - _SHOWN} more" if len(ranges) > _SHOWN else ""
                lines.append(f"{self.stream}: {what.replace('_', ' ')}: {shown}{more}")
        return lines


class NotEqual(JobError):
    """Stream and table differ."""


def bucket_sums(rows: DataFrame, size: int) -> DataFrame:
    """Return rows, distinct sequences and checksum for each bucket of `size` sequences."""
    return (
        rows.select(F.floor(F.col("seq") / size).alias("bucket"), "seq", _fingerprint().alias("print"))
        .groupBy("bucket")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_distinct("seq").alias("sequences"),
            F.bit_xor("print").alias("checksum"),
        )
    )


def compare(stream_rows: DataFrame, table_rows: DataFrame, size: int, result: VerifiedStream) -> None:
    """Compare messages with rows of the same range and add the differences to `result`."""
    ours = bucket_sums(table_rows, size).alias("t")
    theirs = bucket_sums(stream_rows, size).alias("s")
    joined = theirs.join(ours, "bucket", "full").select(
        "bucket",
        *(F.coalesce(F.col(f"{side}.{name}"), F.lit(0)).alias(f"{side}_{name}")
          for side in "st" for name in ("rows", "sequences", "checksum")),
    ).collect()  # fmt: skip
    result.stream_rows = sum(row.s_rows for row in joined)
    result.table_rows = sum(row.t_rows for row in joined)
    suspects = [
        row.bucket
        for row in joined
        if (row.s_rows, row.s_checksum) != (row.t_rows, row.t_checksum) or row.t_rows != row.t_sequences
    ]
    if suspects:
        _compare_rows(stream_rows, table_rows, size, suspects, result)


def as_ranges(sequences: list[int]) -> Ranges:
    """Convert sorted sequences to ranges that include both ends."""
    ranges: Ranges = []
    for sequence in sequences:
        if ranges and sequence == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], sequence)
        elif not ranges or sequence != ranges[-1][1]:
            ranges.append((sequence, sequence))
    return ranges


def run(context: JobContext, settings: Verify) -> str:
    """Compare every stream; raise NotEqual if there is a relevant difference."""
    table = open_stored(context, settings.table, settings.format)
    results = [
        _verify_stream(context, settings, table, stream) for stream in _chosen_streams(table, settings)
    ]
    good = all(result.is_good(strict=settings.strict) for result in results)
    if settings.report:
        _write_report(settings.report, {"equal": good, "streams": [asdict(result) for result in results]})
    lines = [line for result in results for line in result.lines()]
    context.say(sum(result.table_rows for result in results), "\n".join(lines))
    if not good:
        raise NotEqual(f"table {settings.table} differs:\n" + "\n".join(lines))
    return "equal; " + "; ".join(lines)


def _fingerprint() -> Column:
    return F.xxhash64("seq", "stream", "subject", "time", F.map_entries("headers"), "data")


def _compare_rows(
    stream_rows: DataFrame, table_rows: DataFrame, size: int, suspects: list[int], result: VerifiedStream
) -> None:
    def prints(rows: DataFrame) -> DataFrame:
        return (
            rows.where(F.floor(F.col("seq") / size).isin(suspects))
            .select("seq", _fingerprint().alias("print"))
            .groupBy("seq")
            .agg(F.count(F.lit(1)).alias("rows"), F.min("print").alias("print"))
        )

    theirs, ours = prints(stream_rows).alias("s"), prints(table_rows).alias("t")
    joined = theirs.join(ours, "seq", "full").select(
        "seq",
        F.col("s.rows").alias("in_stream"),
        F.col("t.rows").alias("in_table"),
        (F.col("s.print") == F.col("t.print")).alias("same"),
    )
    rows = joined.orderBy("seq").collect()
    result.missing_in_table = as_ranges([row.seq for row in rows if row.in_table is None])
    result.only_in_table = as_ranges([row.seq for row in rows if row.in_stream is None])
    result.doubled = as_ranges([row.seq for row in rows if (row.in_table or 0) > 1])
    result.different = as_ranges([row.seq for row in rows if row.same is False])


def _chosen_streams(table: StoredTable, settings: Verify) -> list[str]:
    """Return the streams to compare; raise TableError for one that the table does not have."""
    wanted = settings.streams or sorted(table.streams)
    missing = [stream for stream in wanted if stream not in table.streams]
    if missing or not wanted:
        raise TableError(f"table {table.name} has nothing of stream {', '.join(missing) or 'any kind'}")
    return wanted


def _verify_stream(context: JobContext, settings: Verify, table: StoredTable, stream: str) -> VerifiedStream:
    with StreamAdmin(context.nats, context.name) as admin:
        facts = admin.facts(stream)
    stored = table.streams[stream]
    if stored.id is not None and stored.id != facts.id:
        raise NotEqual(
            f"table {table.name} is of another stream {stream}: "
            f"that was created at {stored.id}, this at {facts.id}"
        )
    first = max(facts.first, stored.first)
    result = VerifiedStream(stream, first, stored.next - 1, gaps_between_batches=list(stored.gaps))
    here = (F.col("stream") == stream) & (F.col("seq") >= first) & (F.col("seq") < stored.next)
    messages = read_range(
        context.spark, context.nats, stream, first=first, following=stored.next, filter=stored.filter
    )
    if table.payload:
        messages = good_rows(parse_payload(messages, table.payload), fail=False)
    compare(messages.select(*_COMPARED), table.rows.where(here).select(*_COMPARED), settings.bucket, result)
    return result


def _write_report(path: str, report: object) -> None:
    if not is_local(path):
        raise JobError(f'key "report": {path} is no local file')
    folder, _, name = path.rpartition("/")
    LocalFiles(folder or ".").write(name, json.dumps(report, indent=2))
