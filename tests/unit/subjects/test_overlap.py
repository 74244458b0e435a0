"""Overlap of a pattern with any of many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.subjects.match import collide
from millstream.subjects.overlap import PatternSet, TooManySteps

_TOKENS = st.sampled_from([b"a", b"b", b"c*", b"*"])
_PATTERNS = st.one_of(
    st.lists(_TOKENS, min_size=1, max_size=4).map(b".".join),
    st.lists(_TOKENS, max_size=3).map(lambda tokens: b".".join([*tokens, b">"])),
)


@given(st.lists(_PATTERNS, max_size=5), _PATTERNS)
def test_a_set_answers_as_all_pairs_would(patterns: list[bytes], asked: bytes) -> None:
    found = PatternSet()
    for pattern in patterns:
        found.add(pattern)
    assert found.collides(asked) == any(collide(pattern, asked) for pattern in patterns)


@given(st.lists(_PATTERNS, max_size=8, unique=True), _PATTERNS)
def test_a_set_lists_the_members_that_all_pairs_would(patterns: list[bytes], asked: bytes) -> None:
    found = PatternSet()
    for pattern in patterns:
        found.add(pattern)
    assert sorted(found.colliding(asked)) == sorted(each for each in patterns if collide(each, asked))


def test_listing_many_members_takes_too_many_steps() -> None:
    found = PatternSet()
    found.add_all(f"a.{number}.b" for number in range(1_000))
    for asked in (b">", b"a.*.b", b"a.>"):
        found.allow(500)
        with pytest.raises(TooManySteps):
            found.colliding(asked)
    found.allow(500)
    assert found.colliding(b"*.7.*") == [b"a.7.b"]


def test_an_empty_set_collides_with_nothing() -> None:
    assert not PatternSet().collides(b">")


def test_a_prefix_is_another_subject() -> None:
    found = PatternSet()
    found.add(b"a.b.c")
    assert not found.collides(b"a.b")
    assert not found.collides(b"a.*")
    assert found.collides(b"a.>")
    found.add(b"a.b")
    assert found.collides(b"a.*")
