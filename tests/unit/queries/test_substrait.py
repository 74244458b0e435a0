"""Conditions of expressions: what they limit, and that they never limit too much."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.queries.substrait import Span, columns_of, spans_of

SCHEMA = pa.schema(
    [
        ("subject", pa.string()),
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("size", pa.int32()),
    ]
)
SEQ, SUBJECT, TIME = pc.field("seq"), pc.field("subject"), pc.field("time")


def among(field: pc.Expression, values: list[Any]) -> pc.Expression:
    """IN, as DuckDB writes it."""
    return pc.if_else(field.is_valid(), field.isin(values), pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (SEQ > 5, {"seq": Span(low=6)}),
        ((SEQ >= 5) & (SEQ < 9), {"seq": Span(5, 8)}),
        (SEQ == 7, {"seq": Span(7, 7, frozenset({7}))}),
        (SEQ == -3, {"seq": Span(-3, -3, frozenset({-3}))}),
        (among(SEQ, [4, 2, 9]), {"seq": Span(2, 9, frozenset({2, 4, 9}))}),
        (SUBJECT == "a.b", {"subject": Span("a.b", "a.b", frozenset({"a.b"}))}),
        (SUBJECT == "", {"subject": Span("", "", frozenset({""}))}),
        ((SUBJECT == "a") | among(SUBJECT, ["b", "c"]), {"subject": Span("a", "c", frozenset("abc"))}),
        ((SUBJECT == "a") | (SEQ == 1), {}),
        ((SUBJECT == "a") & (SEQ == 1) & (SEQ == 2), {
            "subject": Span("a", "a", frozenset("a")), "seq": Span(2, 1, frozenset()),
        }),
        (pa.scalar(12, pa.timestamp("us", tz="UTC")) <= TIME, {"time": Span(low=12)}),
        (~(SEQ == 4), {}),
        (SEQ.is_null(), {}),
        (None, {}),
    ],
)  # fmt: skip
def test_spans(expression: Any, expected: dict[str, Span]) -> None:
    assert spans_of(expression, SCHEMA) == expected


def test_needed_columns() -> None:
    assert columns_of((SEQ > 5) & (among(SUBJECT, ["a"]) | ~(pc.field("size") == 3)), SCHEMA) == {
        "seq", "subject", "size",
    }  # fmt: skip
    assert columns_of(None, SCHEMA) == set()


_leaves = st.one_of(
    st.integers(-2, 12).map(lambda n: n < SEQ),
    st.integers(-2, 12).map(lambda n: n >= SEQ),
    st.integers(-2, 12).map(lambda n: n == SEQ),
    st.lists(st.integers(-2, 12), min_size=1, max_size=3).map(lambda ns: among(SEQ, ns)),
    st.sampled_from("abc").map(lambda s: s == SUBJECT),
    st.sampled_from("abc").map(lambda s: s <= SUBJECT),
)
_expressions = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=6,
)
ROWS = pa.table(
    {
        "subject": [s for s in "abcd" for _ in range(14)],
        "seq": [n for _ in "abcd" for n in range(-2, 12)],
        "time": pa.array([0] * 56, pa.timestamp("us", tz="UTC")),
        "size": pa.array([0] * 56, pa.int32()),
    }
)


@given(_expressions)
def test_no_row_that_an_expression_keeps_is_outside_its_spans(expression: Any) -> None:
    spans = spans_of(expression, SCHEMA)
    for row in ROWS.filter(expression).to_pylist():
        for name, span in spans.items():
            assert span.low is None or row[name] >= span.low
            assert span.high is None or row[name] <= span.high
            assert span.values is None or row[name] in span.values
