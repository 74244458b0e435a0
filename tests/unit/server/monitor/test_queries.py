"""Query options and the complaints about them."""

import pytest

from millstream.server.monitor.queries import BadQuery, Query


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_true_has_many_spellings(text: str) -> None:
    assert Query(f"x={text}").boolean("x") is True


@pytest.mark.parametrize("text", ["", "0", "f", "F", "false", "FALSE", "False"])
def test_so_has_false_and_nothing_is_one(text: str) -> None:
    assert Query(f"x={text}").boolean("x") is False
    assert Query("").boolean("x") is False


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("12", 12), ("-5", -5), ("%2B7", 7), ("9223372036854775807", 2**63 - 1)]
)
def test_integers(text: str, expected: int) -> None:
    assert Query(f"x={text}").integer("x") == expected


def test_the_first_of_several_values_counts() -> None:
    assert Query("x=1&x=2").integer("x") == 1


@pytest.mark.parametrize(
    ("method", "text", "complaint"),
    [
        (
            "boolean",
            "yes",
            "Error decoding boolean for 'x': strconv.ParseBool: parsing \"yes\": invalid syntax",
        ),
        ("integer", "a", "Error decoding int for 'x': strconv.Atoi: parsing \"a\": invalid syntax"),
        ("integer", "1_0", "Error decoding int for 'x': strconv.Atoi: parsing \"1_0\": invalid syntax"),
        ("integer", "-", "Error decoding int for 'x': strconv.Atoi: parsing \"-\": invalid syntax"),
        ("integer", "٣", "Error decoding int for 'x': strconv.Atoi: parsing \"٣\": invalid syntax"),
        (
            "integer",
            "9223372036854775808",
            "Error decoding int for 'x': strconv.Atoi: parsing \"9223372036854775808\": value out of range",
        ),
        (
            "unsigned",
            "-1",
            "Error decoding uint64 for 'x': strconv.ParseUint: parsing \"-1\": invalid syntax",
        ),
    ],
)
def test_complaints_are_the_reference_s(method: str, text: str, complaint: str) -> None:
    with pytest.raises(BadQuery) as caught:
        getattr(Query(f"x={text}"), method)("x")
    assert str(caught.value) == complaint


def test_a_number_of_many_digits_is_refused_without_converting_it() -> None:
    with pytest.raises(BadQuery, match="value out of range"):
        Query("x=" + "9" * 10_000).unsigned("x")


def test_a_query_of_very_many_fields_is_refused() -> None:
    with pytest.raises(BadQuery):
        Query("&".join(f"a{number}=1" for number in range(1000)))
