"""Lag out of Spark's progress reports."""

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from millstream.spark.lag import LagGauges, LagListener, QueryLag, behind, lag_of
from millstream.spark.offsets import Offset, Position


def text(**following: int) -> str:
    return Offset({name: Position("x", at, at, 0) for name, at in following.items()}).to_text()


def progress(*sources: tuple[str | None, str | None], name: str | None = "q") -> Any:
    return SimpleNamespace(
        sources=[SimpleNamespace(endOffset=end, latestOffset=latest) for end, latest in sources],
        name=name,
        id="some-id",
        batchId=7,
        numInputRows=3,
    )


def test_lag_is_what_lies_between_the_end_of_a_batch_and_of_its_streams() -> None:
    assert behind(text(A=11, B=5), text(A=21, B=5)) == {"A": 10, "B": 0}
    assert behind(text(A=11), text(A=9, NEW=4)) == {"A": 0, "NEW": 0}
    assert behind(text(A=11), None) == {}


def test_sources_of_other_kinds_do_not_matter() -> None:
    kafka = ('{"topic": {"0": 1}}', '{"topic": {"0": 2}}')
    assert lag_of(progress(kafka)) is None
    assert lag_of(progress(kafka, (text(A=1), text(A=4)))) == QueryLag("q", 7, 3, {"A": 3})
    assert lag_of(progress((None, None))) is None


def test_a_query_without_a_name_goes_by_its_id() -> None:
    found = lag_of(progress((text(A=1), text(A=4)), (text(A=2), text(A=4)), name=None))
    assert found is not None
    assert (found.query, found.behind, found.total) == ("some-id", {"A": 5}, 5)


def test_lag_has_the_names_of_kafkas_metrics() -> None:
    assert QueryLag("q", 1, 2, {"A": 3, "B": 0}).metrics() == {
        "avgOffsetsBehindLatest": "1.5",
        "maxOffsetsBehindLatest": "3",
        "minOffsetsBehindLatest": "0",
    }


def test_prometheus_gets_the_lag() -> None:
    registry = CollectorRegistry()
    gauges = LagGauges(registry)
    gauges.report(QueryLag("q", 1, 2, {"A": 3, "B": 0}))
    gauges.report(QueryLag("q", 2, 2, {"A": 1, "B": 0}))
    assert registry.get_sample_value("spark_maxOffsetsBehindLatest", {"query": "q"}) == 1
    assert registry.get_sample_value("spark_offsetsBehindLatest", {"query": "q", "stream": "A"}) == 1


def test_the_listener_reports_each_batch() -> None:
    seen: list[QueryLag] = []
    listener = LagListener(seen.append)
    listener.onQueryProgress(SimpleNamespace(progress=progress((text(A=1), text(A=4)))))
    listener.onQueryProgress(SimpleNamespace(progress=progress()))
    assert [lag.total for lag in seen] == [3]
