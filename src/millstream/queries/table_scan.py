"""The rows of an Iceberg table for a query: its conditions become PyIceberg's, which skip files and groups.

Conditions here may keep more rows than the query wants, never fewer: the query's own filter follows.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from millstream.lake.library import planned_files, read_rows, readable, table_name
from millstream.queries.statistics import ICEBERG, ScanStatistics
from millstream.queries.substrait import Span, Spans
from millstream.tables.errors import OptionError
from millstream.tables.source import Selection

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

_MOST_VALUES: Final = 200  # of a list in a condition; a longer one is a range
_WILD: Final = frozenset("*>")


class TableScanner:
    """Reads tables and adds the statistics of each reading."""

    def __init__(self, noted: Callable[[ScanStatistics], None]) -> None:
        self._noted = noted

    def rows(self, table: "Table", spans: Spans, columns: Sequence[str], stream: str = "") -> Iterator[Any]:
        """Yield the rows within the spans, and perhaps others of the same files."""
        names = [one.name for one in table.schema().fields]
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise OptionError(f"table {table_name(table)} has no column {unknown[0]}")
        with readable(table):
            condition = condition_of(table, spans)
        files = planned_files(table, condition)
        seen = ScanStatistics(
            stream,
            list(columns),
            0,
            0,
            [],
            ICEBERG,
            table=table_name(table),
            files=len(files),
            file_bytes=sum(one.file.file_size_in_bytes for one in files),
            gaps=[],
        )
        self._noted(seen)
        for batch in read_rows(table, files, condition, columns):
            seen.messages += batch.num_rows
            seen.bytes += batch.nbytes
            yield batch


def of_stream(stream: str, selection: Selection) -> Spans:
    """Return a part of a stream as spans of the columns of its archive."""
    spans = {
        "stream": Span(values=frozenset({stream})),
        "seq": Span(selection.low, selection.high),
        "time": Span(
            None if selection.from_ns is None else selection.from_ns // 1000,
            None if selection.until_ns is None else (selection.until_ns - 1) // 1000,
        ),
    }
    if selection.subjects is not None and not any(_WILD & set(one) for one in selection.subjects):
        spans["subject"] = Span(values=frozenset(selection.subjects))
    return spans


def condition_of(table: "Table", spans: Spans) -> "BooleanExpression":
    """Return spans as a condition of PyIceberg's; columns of other types limit nothing."""
    from pyiceberg import expressions
    from pyiceberg.types import IntegerType, LongType, StringType, TimestampType, TimestamptzType

    parts: Any = expressions  # its constructors have other types than they take
    kinds: dict[str, Any] = {one.name: one.field_type for one in table.schema().fields}
    found: list[BooleanExpression] = []
    for name, span in spans.items():
        sample = next((one for one in (span.low, span.high, *(span.values or ())) if one is not None), None)
        numbers = (IntegerType, LongType, TimestampType, TimestamptzType)
        fits = isinstance(kinds.get(name), StringType if isinstance(sample, str) else numbers)
        if sample is None or not fits:
            continue
        if span.values is not None and len(span.values) <= _MOST_VALUES:
            found.append(parts.In(name, sorted(span.values)))
            continue
        if span.low is not None:
            found.append(parts.GreaterThanOrEqual(name, span.low))
        if span.high is not None:
            found.append(parts.LessThanOrEqual(name, span.high))
    everything: BooleanExpression = expressions.AlwaysTrue()
    return reduce(expressions.And, found, everything)
