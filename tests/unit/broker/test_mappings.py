"""Subject mappings of an account: the first that covers a subject decides, whatever their number."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.slices import finish
from millstream.broker.mappings import account_mapping
from millstream.broker.options import MapDestination, SubjectMapping
from millstream.subjects.match import is_subset
from millstream.subjects.transform import WeightedMapping

_TOKENS = st.sampled_from(["a", "b", "*"])
_SOURCES = st.one_of(
    st.lists(_TOKENS, min_size=1, max_size=3).map(".".join),
    st.lists(_TOKENS, max_size=2).map(lambda tokens: ".".join([*tokens, ">"])),
)
_SUBJECTS = st.one_of(
    st.lists(st.sampled_from([b"a", b"b", b"*", b">"]), min_size=1, max_size=3).map(b".".join),
    st.sampled_from([b"a..b", b".a", b"a."]),
)


def mapping_of(sources: list[str]) -> Callable[[bytes], bytes] | None:
    """Map each source to a subject of its own."""
    return finish(
        account_mapping(
            [
                SubjectMapping(source=source, destinations=(MapDestination(subject=_to(source, number)),))
                for number, source in enumerate(sources)
            ],
            random.Random(1),
        )
    )


def _to(source: str, number: int) -> str:
    return f"to{number}.>" if source.endswith(">") else f"to{number}"


@given(st.lists(_SOURCES, max_size=6), _SUBJECTS)
def test_the_first_mapping_that_covers_a_subject_decides(sources: list[str], subject: bytes) -> None:
    mapped = mapping_of(sources)
    first = next((n for n, source in enumerate(sources) if is_subset(subject, source.encode())), None)
    found = subject if mapped is None else mapped(subject)
    assert found.split(b".")[0] == (subject.split(b".")[0] if first is None else b"to%d" % first)


def test_thousands_of_mappings_are_not_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []
    monkeypatch.setattr(WeightedMapping, "covers", lambda _, subject: tried.append(subject))
    mapped = mapping_of([f"m{number}.*" for number in range(1_000)])
    assert mapped is not None
    for number in range(1_000):
        assert mapped(b"m%d.x" % number) == b"to%d" % number
        assert mapped(b"q.%d" % number) == b"q.%d" % number
    assert not tried
