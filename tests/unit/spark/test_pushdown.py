"""Filters of Spark: which are used, which go back to it, and what is read then."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from millstream.spark.option_table import Use
from millstream.spark.options import SourceOptions
from millstream.spark.pushdown import PushdownReader
from millstream.spark.schema import default_schema

SEQ, TIME, SUBJECT, STREAM = ("seq",), ("time",), ("subject",), ("stream",)


class TimedCatalog:
    """A stream whose message n was stored n seconds after 1970; the last is 100."""

    def at_time(self, name: str, time_ns: int) -> int | None:
        seq = max(1, -(-time_ns // 10**9))
        return seq if seq <= 100 else None


def reader(**options: str) -> PushdownReader:
    given = {"nats.servers": "a", "subscribe": "S", "pushDownFilters": "true", **options}
    return PushdownReader(SourceOptions.parse(given, Use.BATCH), default_schema())


def bounds(*filters: Filter, low: int = 1, end: int = 101) -> tuple[int, int]:
    used = reader()
    used.pushFilters(list(filters))
    catalog: Any = TimedCatalog()
    return used.bounds(catalog, "S", low, end)


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (GreaterThan(SEQ, 10), (11, 101)),
        (GreaterThanOrEqual(SEQ, 10), (10, 101)),
        (LessThan(SEQ, 10), (1, 10)),
        (LessThanOrEqual(SEQ, 10), (1, 11)),
        (EqualTo(SEQ, 10), (10, 11)),
        (In(SEQ, (30, 10, 20)), (10, 31)),
        (GreaterThan(TIME, at(40)), (40, 101)),
        (LessThan(TIME, at(40)), (1, 41)),
        (EqualTo(TIME, at(40)), (40, 41)),
        (EqualTo(STREAM, "S"), (1, 101)),
        (In(STREAM, ("A", "B")), (1, 1)),
    ],
)
def test_conditions_cut_the_range(one: Filter, expected: tuple[int, int]) -> None:
    assert bounds(one) == expected


def test_conditions_add_up_and_never_turn_a_range_around() -> None:
    assert bounds(GreaterThan(SEQ, 10), LessThan(SEQ, 50), GreaterThan(SEQ, 20)) == (21, 50)
    assert bounds(GreaterThan(SEQ, 50), LessThan(SEQ, 10)) == (51, 51)
    assert bounds(GreaterThan(TIME, at(2000))) == (1, 1)
    assert bounds(GreaterThan(SEQ, 5), low=20, end=30) == (20, 30)


def test_spark_looks_again_at_what_is_not_exact() -> None:
    filters = [
        GreaterThan(SEQ, 1),  # done here
        In(SEQ, (1, 5)),
        GreaterThan(TIME, at(1)),
        IsNotNull(SEQ),  # done here
        IsNotNull(("msg_id",)),
        EqualTo(SUBJECT, "a.b"),  # done here
        StringStartsWith(SUBJECT, "a."),
        StringContains(SUBJECT, "x"),
        Not(EqualTo(SEQ, 5)),
        EqualTo(("headers", "A"), "x"),
        EqualTo(("data",), b"x"),
    ]
    left = list(reader().pushFilters(filters))
    assert left == [filters[index] for index in (1, 2, 4, 6, 7, 8, 9, 10)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(SUBJECT, "a.b")], ("a.b",)),
        ([In(SUBJECT, ("b", "a"))], ("a", "b")),
        ([In(SUBJECT, ("b", "a")), EqualTo(SUBJECT, "a")], ("a",)),
        ([StringStartsWith(SUBJECT, "a.b.c")], ("a.b.>",)),
        ([StringStartsWith(SUBJECT, "a.b.")], ("a.b.>",)),
        ([StringStartsWith(SUBJECT, "ab")], ()),
        ([EqualTo(SUBJECT, "a.*")], ()),  # no message has that subject, but as a filter it would match some
        ([EqualTo(SUBJECT, "")], ()),
    ],
)
def test_subjects_become_filters_of_the_server(filters: list[Filter], expected: tuple[str, ...]) -> None:
    used = reader()
    used.pushFilters(filters)
    assert used.filters() == expected


def test_filters_of_the_options_still_hold() -> None:
    used = reader(filterSubjects="a.*,c")
    used.pushFilters([In(SUBJECT, ("a.b", "b.b", "c"))])
    assert used.filters() == ("a.b", "c")
    none = reader(filterSubjects="a.*")
    none.pushFilters([EqualTo(SUBJECT, "b")])
    catalog: Any = TimedCatalog()
    assert none.bounds(catalog, "S", 1, 101) == (1, 1)
    prefixed = reader(filterSubjects="a.*")
    prefixed.pushFilters([StringStartsWith(SUBJECT, "b.")])
    assert prefixed.filters() == ("a.*",)
