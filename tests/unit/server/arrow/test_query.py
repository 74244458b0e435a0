"""Requests for a range, and the answers to invalid ones."""

from http import HTTPStatus

import pytest

from millstream.arrow.schema import DEFAULT_COLUMNS
from millstream.server.arrow.problem import ArrowProblem
from millstream.server.arrow.query import PATH, RangeQuery, read_target


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("ORDERS", RangeQuery("ORDERS", 1, None, (), DEFAULT_COLUMNS)),
        ("ORDERS?", RangeQuery("ORDERS")),
        ("ORDERS?from=5&to=5", RangeQuery("ORDERS", 5, 5)),
        ("ORDERS?to=9223372036854775807", RangeQuery("ORDERS", 1, 2**63 - 1)),
        ("%C3%9C?from=007", RangeQuery("Ü", 7)),
        ("S?subjects=a.*,b.%3E", RangeQuery("S", subjects=(b"a.*", b"b.>"))),
        ("S?subjects=a&subjects=b%2Cc,d", RangeQuery("S", subjects=(b"a", b"b,c", b"d"))),
        ("a+b?subjects=a%2Bb", RangeQuery("a+b", subjects=(b"a+b",))),
        ("S?subjects=a.>", RangeQuery("S", subjects=(b"a.>",))),
        ("S?subjects=%FF", RangeQuery("S", subjects=(b"\xff",))),
        ("S?columns=data,seq", RangeQuery("S", columns=("data", "seq"))),
        ("S?columns=&subjects=", RangeQuery("S")),
    ],
)
def test_requests_that_make_sense(target: str, expected: RangeQuery) -> None:
    assert read_target(PATH + target) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("from=0", "from: '0' is not a sequence"),
        ("from=-1", "not a sequence"),
        ("from=", "not a sequence"),
        ("to=1e3", "not a sequence"),
        ("to=9223372036854775808", "not a sequence"),
        ("to=%D9%A1", "not a sequence"),
        ("from=3&to=2", "to: 2 is below from, which is 3"),
        ("from=1&from=2", "from: given 2 times"),
        ("form=1", "unknown parameter 'form'; did you mean from?"),
        ("x=1", "there are from, to, subjects, columns"),
        ("columns=sek", "did you mean seq?"),
        ("columns=zzz", "unknown column 'zzz'; there are stream, "),
        ("columns=seq,seq", "seq is named twice"),
        ("columns=seq,,data", "unknown column ''"),
        ("subjects=a..b", "'a..b' is not a subject"),
        ("subjects=a.>.b", "is not a subject"),
        ("subjects=a,", "'' is not a subject"),
        ("%FF=1", "not UTF-8"),
    ],
)
def test_requests_that_make_none_are_told_why(query: str, words: str) -> None:
    with pytest.raises(ArrowProblem) as caught:
        read_target(f"{PATH}ORDERS?{query}")
    assert caught.value.status == HTTPStatus.BAD_REQUEST
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "target", ["/", "/arrow/v1/streams/", "/arrow/v1/streams/a/b", "/arrow/v2/streams/a", "*"]
)
def test_other_paths_are_not_found(target: str) -> None:
    with pytest.raises(ArrowProblem) as caught:
        read_target(target)
    assert caught.value.status == HTTPStatus.NOT_FOUND
