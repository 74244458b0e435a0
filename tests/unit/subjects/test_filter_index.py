"""Consumers are found by the subjects that their filters match, as if each were asked."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.subjects.filter_index import FilterIndex
from millstream.subjects.match import collide, matches

SUBJECTS = [b"a", b"a.b", b"a.c", b"a.b.c", b"b.b", b"c", b"a..b", b"a.", b"*"]
PATTERNS = [b">", b"a", b"a.*", b"*.b", b"a.>", b"a.b.c", b"*", b"c"]
FILTERS = st.lists(st.sampled_from(PATTERNS), max_size=3, unique=True).map(tuple)
STEPS = st.lists(st.tuples(st.integers(0, 4), FILTERS, st.sampled_from(SUBJECTS)), max_size=20)


def covers(filters: tuple[bytes, ...], subject: bytes) -> bool:
    return not filters or any(matches(subject, pattern) for pattern in filters)


@given(STEPS)
def test_it_finds_whom_a_subject_concerns(steps: list[tuple[int, tuple[bytes, ...], bytes]]) -> None:
    index: FilterIndex = FilterIndex()
    present: dict[int, tuple[bytes, ...]] = {}
    for member, filters, subject in steps:
        if member in present:
            index.discard(present.pop(member), member)
        else:
            index.add(filters, member)
            present[member] = filters
        for each in (subject, b"a.b"):
            found = [one for group in index.find(each) for one in group]
            assert set(found) == {one for one, filters in present.items() if covers(filters, each)}
        assert all(index.find(subject)), "a group is empty"


def test_subjects_without_end_take_no_memory_without_end() -> None:
    index: FilterIndex = FilterIndex()
    index.add((b"a.*",), "one")
    for number in range(10_000):
        assert index.find(b"a.%d" % number) == ({"one": None},)
    assert len(index.known) <= 4096


def test_a_filter_that_is_not_there_is_no_error() -> None:
    index: FilterIndex = FilterIndex()
    index.discard((b"a",), "one")
    assert index.find(b"a") == ()


ASKED = st.sampled_from([*PATTERNS, b"a.*.c", b"*.*", b"a..b", b"d.>"])


@given(STEPS, ASKED)
def test_it_finds_whose_filters_have_a_subject_in_common_with_a_pattern(
    steps: list[tuple[int, tuple[bytes, ...], bytes]], asked: bytes
) -> None:
    for others in (0, 200):  # with so many it does not compare each
        index: FilterIndex = FilterIndex()
        for number in range(others):
            index.add((b"z.%d" % number,), "other")
        present: dict[int, tuple[bytes, ...]] = {}
        for member, filters, _ in steps:
            if member in present:
                index.discard(present.pop(member), member)
            else:
                index.add(filters, member)
                present[member] = filters
            found = {one for group in index.colliding(asked) for one in group} - {"other"}
            wanted = {
                one
                for one, filters in present.items()
                if any(collide(each, asked) for each in filters or (b">",))
            }
            assert found == wanted


def test_a_pattern_that_has_something_in_common_with_very_many_finds_them_all() -> None:
    index: FilterIndex = FilterIndex()
    for number in range(5_000):
        index.add((b"a.%d.b.c.d" % number,), number)
    assert len(index.colliding(b"*.*.b.>")) == len(index.colliding(b">")) == 5_000
    assert index.colliding(b"a.7.>") == [{7: None}]
