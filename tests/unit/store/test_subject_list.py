"""Numbered subjects against a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.subject_list import SubjectList


@given(st.lists(st.binary(max_size=6), max_size=200))
def test_each_subject_keeps_the_number_it_was_given_first(subjects: list[bytes]) -> None:
    found = SubjectList()
    numbers: dict[bytes, int] = {}
    for subject in subjects:
        assert found.find(subject) == numbers.get(subject, -1)
        assert found.add(subject) == numbers.setdefault(subject, len(numbers))
    assert list(found) == list(numbers)
    assert len(found) == found.count == len(numbers)


def test_many_subjects_that_differ_at_their_end_are_all_found() -> None:
    found = SubjectList()
    for number in range(5_000):
        found.add(b"orders.%07d" % number)
    assert [found.find(b"orders.%07d" % number) for number in range(5_000)] == list(range(5_000))
    assert found.find(b"orders.") == -1
    assert found.at(4_321) == b"orders.0004321"


def test_the_empty_subject_is_one_like_others() -> None:
    found = SubjectList()
    assert found.find(b"") == -1
    assert found.add(b"") == 0
    assert found.add(b"a") == 1
    assert (found.at(0), found.at(1)) == (b"", b"a")
