"""Patterns that cover a subject or another pattern, looked up and not compared one by one."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.subjects import cover
from millstream.subjects.cover import Cover
from millstream.subjects.match import is_subset, matches

_TOKENS = st.sampled_from([b"a", b"b", b"c*", b"*"])
_PATTERNS = st.one_of(
    st.lists(_TOKENS, min_size=1, max_size=4).map(b".".join),
    st.lists(_TOKENS, max_size=3).map(lambda tokens: b".".join([*tokens, b">"])),
)
_SUBJECTS = st.lists(st.sampled_from([b"a", b"b", b"*", b">"]), min_size=1, max_size=4).map(b".".join)
_OTHERS = tuple(b"z.%d.*" % number for number in range(20))


@given(st.lists(_PATTERNS, max_size=8), st.one_of(_PATTERNS, _SUBJECTS, st.just(b"a..b")))
def test_it_finds_what_a_comparison_with_each_would(patterns: list[bytes], asked: bytes) -> None:
    for others in ((), _OTHERS):
        found = Cover([*patterns, *others]).of(asked)
        assert sorted(found) == sorted(each for each in dict.fromkeys(patterns) if is_subset(asked, each))


@given(st.lists(_PATTERNS, max_size=8), _SUBJECTS)
def test_wildcards_of_a_subject_may_be_plain_tokens(patterns: list[bytes], asked: bytes) -> None:
    found = Cover([*patterns, *_OTHERS]).matching(asked)
    assert sorted(found) == sorted(each for each in dict.fromkeys(patterns) if matches(asked, each))


def test_many_patterns_are_not_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = _counting(monkeypatch)
    many = Cover(b"a.%d.*" % number for number in range(1_000))
    assert many.of(b"a.7.x") == [b"a.7.*"]
    assert many.of(b"a.8.>") == []
    assert not compared


def _counting(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    compared: list[bytes] = []
    real: Callable[[bytes, bytes], bool] = is_subset

    def counted(subset: bytes, pattern: bytes) -> bool:
        compared.append(pattern)
        return real(subset, pattern)

    monkeypatch.setattr(cover, "is_subset", counted)
    return compared
