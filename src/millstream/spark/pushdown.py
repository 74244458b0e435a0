"""The reader of `spark.read` that takes filters from Spark, so that less is read.

It is a separate class because Spark refuses every query of a reader with `pushFilters` unless its own setting
`spark.sql.python.filterPushdown.enabled` is on.

    seq      bounds, = and the extremes of IN cut the range
    time     bounds become sequences
    subject  = and IN become filters of the server; LIKE 'a.b.%' becomes a.b.>
    stream   = and IN exclude streams

A filter that is not fully applied here is returned to Spark, which checks each row again.  Time is one of
them: messages are ordered by sequence, and by time only as far as the servers' clocks are.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from millstream.spark.batch import BatchReader
from millstream.spark.catalog import Catalog
from millstream.spark.options import SourceOptions
from millstream.subjects.match import matches

_NEVER_NULL: Final = frozenset(
    {"stream", "subject", "seq", "time", "headers", "data", "time_ns", "size", "tokens", "headers_raw"}
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PushdownReader(BatchReader):
    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._low = 1
        self._end: int | None = None  # exclusive
        self._from_ns: int | None = None
        self._until_ns: int | None = None  # exclusive
        self._streams: frozenset[str] | None = None
        self._subjects: frozenset[str] | None = None
        self._prefix: str | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return [one for one in filters if not self._take(one)]

    def _take(self, one: Filter) -> bool:
        """Apply a filter; return True if Spark need not apply it again."""
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) != 1:
            return False
        column = path[0]
        if isinstance(one, IsNotNull):
            return column in _NEVER_NULL
        values = _wanted_values(one)
        match column:
            case "seq":
                return self._take_seq(one, values)
            case "time":
                self._take_time(one, values)
            case "subject":
                return self._take_subject(one, values)
            case "stream" if values is not None:
                found = frozenset(values)
                self._streams = found if self._streams is None else self._streams & found
                return True
        return False

    def _take_seq(self, one: Filter, values: list[Any] | None) -> bool:
        match one:
            case GreaterThan():
                self._cut(low=one.value + 1)
            case GreaterThanOrEqual():
                self._cut(low=one.value)
            case LessThan():
                self._cut(end=one.value)
            case LessThanOrEqual():
                self._cut(end=one.value + 1)
            case _ if values:
                self._cut(low=min(values), end=max(values) + 1)
                return len(values) == 1
            case _:
                return False
        return True

    def _cut(self, *, low: int | None = None, end: int | None = None) -> None:
        if low is not None:
            self._low = max(self._low, low)
        if end is not None:
            self._end = end if self._end is None else min(self._end, end)

    def _take_time(self, one: Filter, values: list[Any] | None) -> None:
        match one:
            case GreaterThan() | GreaterThanOrEqual():
                self._cut_time(start=one.value)
            case LessThan() | LessThanOrEqual():
                self._cut_time(end=one.value)
            case _ if values:
                self._cut_time(start=min(values), end=max(values))

    def _cut_time(self, *, start: datetime | None = None, end: datetime | None = None) -> None:
        if start is not None:
            nanoseconds = _nanoseconds(start)
            self._from_ns = nanoseconds if self._from_ns is None else max(self._from_ns, nanoseconds)
        if end is not None:
            nanoseconds = _nanoseconds(end) + 1000  # all nanoseconds of that microsecond
            self._until_ns = nanoseconds if self._until_ns is None else min(self._until_ns, nanoseconds)

    def _take_subject(self, one: Filter, values: list[Any] | None) -> bool:
        if isinstance(one, StringStartsWith):
            prefix, dot, _ = one.value.rpartition(".")
            if dot and not self._options.filters and _is_literal(prefix):
                self._prefix = prefix
            return False
        if values is None or not all(_is_literal(value) for value in values):
            return False
        found = frozenset(values)
        self._subjects = found if self._subjects is None else self._subjects & found
        return True

    # -- what the plan asks -------------------------------------------------------------------------

    def filters(self) -> tuple[str, ...]:
        if self._subjects is not None:
            return tuple(sorted(subject for subject in self._subjects if self._passes(subject)))
        if self._prefix is not None:
            return (f"{self._prefix}.>",)
        return super().filters()

    def _passes(self, subject: str) -> bool:
        wanted = self._options.filters
        return not wanted or any(matches(subject.encode(), pattern.encode()) for pattern in wanted)

    def bounds(self, catalog: Catalog, name: str, low: int, end: int) -> tuple[int, int]:
        nothing = (low, low)
        if self._streams is not None and name not in self._streams:
            return nothing
        if self._subjects is not None and not self.filters():
            return nothing
        low = max(low, self._low)
        if self._end is not None:
            end = min(end, self._end)
        if self._from_ns is not None:
            first = catalog.at_time(name, self._from_ns)
            if first is None:
                return nothing
            low = max(low, first)
        if self._until_ns is not None:
            after = catalog.at_time(name, self._until_ns)
            if after is not None:
                end = min(end, after)
        return low, max(low, end)


def _wanted_values(one: Filter) -> list[Any] | None:
    """Return the values of = and IN; None for other filters and for null."""
    if isinstance(one, EqualTo | EqualNullSafe):
        return None if one.value is None else [one.value]
    if isinstance(one, In):
        values = list(one.value)
        return values if values and None not in values else None
    return None


def _is_literal(subject: str) -> bool:
    """Return True if this can be the subject of a message, hence a filter for exactly that subject."""
    tokens = subject.split(".")
    return all(token and token not in ("*", ">") and not set(token) & set(" \t\r\n") for token in tokens)


def _nanoseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
