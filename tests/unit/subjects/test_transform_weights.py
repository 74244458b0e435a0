import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.subjects.functions import TransformError
from millstream.subjects.transform import WeightedMapping


def mapping(source: str, *destinations: tuple[str, int]) -> WeightedMapping:
    return WeightedMapping(source, destinations, random.Random(7))


def shares(weighted: WeightedMapping, subject: bytes, draws: int = 4_000) -> dict[bytes | None, float]:
    counts = Counter(weighted.apply(subject) for _ in range(draws))
    return {outcome: count / draws for outcome, count in counts.items()}


def test_a_single_full_weight_always_wins() -> None:
    assert shares(mapping("foo.*", ("bar.$1", 100)), b"foo.a") == {b"bar.a": 1.0}


def test_other_subjects_are_not_ours_to_map() -> None:
    assert mapping("foo.*", ("bar.$1", 100)).apply(b"foo") is None
    assert mapping("foo", ("bar", 100)).apply(b"foo.a") is None
    assert not mapping("foo", ("bar", 100)).covers(b"bar")
    assert mapping("foo", ("bar", 100)).covers(b"foo")


@pytest.mark.parametrize(("subject", "covered"), [(b"foo.*", True), (b"foo.>", False), (b"foo.", False)])
def test_a_published_star_is_covered_by_a_star_but_no_tail_and_no_gap(subject: bytes, covered: bool) -> None:
    assert mapping("foo.*", ("bar.$1", 100)).covers(subject) is covered


def test_weights_are_kept_in_the_long_run() -> None:
    found = shares(mapping("foo", ("a", 20), ("b", 80)), b"foo")
    assert found.keys() == {b"a", b"b"}
    assert found[b"a"] == pytest.approx(0.2, abs=0.03)


def test_what_the_weights_leave_keeps_its_subject() -> None:
    found = shares(mapping("foo.*.>", ("x.$1.>", 30)), b"foo.a.b")
    assert found.keys() == {b"x.a.b", b"foo.a.b"}
    assert found[b"x.a.b"] == pytest.approx(0.3, abs=0.03)


def test_naming_the_source_as_a_destination_loses_the_remainder() -> None:
    found = shares(mapping("foo", ("foo", 50), ("bar", 20)), b"foo")
    assert found.keys() == {b"foo", b"bar", b""}
    assert found[b""] == pytest.approx(0.3, abs=0.03)


def test_a_destination_without_weight_is_never_chosen() -> None:
    assert shares(mapping("foo", ("bar", 0)), b"foo") == {b"foo": 1.0}


def test_no_destination_maps_everything_to_itself() -> None:
    assert mapping("foo.*").apply(b"foo.a") == b"foo.a"


@pytest.mark.parametrize(
    ("source", "destinations", "text"),
    [
        ("foo..bar", [("x", 100)], "invalid subject"),
        ("foo", [("x", 101)], "individual weights need to be <= 100"),
        ("foo", [("x", -1)], "individual weights need to be <= 100"),
        ("foo", [("x", 60), ("y", 41)], "total weight needs to be <= 100"),
        ("foo", [("x", 10), ("x", 20)], 'duplicate entry for "x"'),
        ("foo", [("x.{{nope(1)}}", 10)], "invalid mapping destination: unknown function in {{nope(1)}}"),
        ("foo.*", [("x.$2", 10)], "invalid mapping destination: wildcard index out of range in $2: [2]"),
    ],
)
def test_bad_weights_and_destinations_are_refused(
    source: str, destinations: list[tuple[str, int]], text: str
) -> None:
    with pytest.raises(TransformError) as caught:
        WeightedMapping(source, destinations, random.Random(1))
    assert str(caught.value) == text


@given(st.lists(st.integers(0, 100), max_size=5).filter(lambda weights: sum(weights) <= 100))
def test_every_draw_has_an_outcome_unless_loss_was_asked_for(weights: list[int]) -> None:
    destinations = [(f"x{index}", weight) for index, weight in enumerate(weights)]
    weighted = WeightedMapping("foo", destinations, random.Random(3))
    possible = {name.encode() for name, weight in destinations if weight}
    if sum(weights) < 100:
        possible.add(b"foo")
    assert {weighted.apply(b"foo") for _ in range(50)} <= possible
