"""Numbered subjects against a dictionary."""

import itertools
import time

import pytest
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


def fnv(text: bytes) -> int:
    value = 14695981039346656037
    for byte in text:
        value = ((value ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return value ^ (value >> 32)


def seconds_to_add(subjects: list[bytes]) -> float:
    """The least processor time of three."""
    times = []
    for _ in range(3):
        found = SubjectList()
        start = time.process_time()
        for subject in subjects:
            found.add(subject)
        times.append(time.process_time() - start)
    return min(times)


def test_subjects_chosen_to_collide_without_a_key_cost_what_others_cost() -> None:
    candidates = (b"x.%05x" % number for number in range(1_000_000))
    colliding = list(itertools.islice((each for each in candidates if fnv(each) & 0x3FFF < 512), 8_000))
    plain = [b"x.%05x" % number for number in range(8_000)]
    assert seconds_to_add(colliding) < 8 * seconds_to_add(plain) + 0.01


def test_names_of_entries_get_the_next_numbers() -> None:
    names = [b"", b"a", b"b.c", b"d" * 300]
    data = b"##" + b"".join(len(name).to_bytes(2, "little") + b"...." + name for name in names) + b"#"
    subjects = SubjectList()
    subjects.add(b"first")
    assert subjects.append_names(data, 2, len(names), 6) == len(data) - 1
    assert list(subjects) == [b"first", *names]
    assert [subjects.find(name) for name in names] == [1, 2, 3, 4]
    assert subjects.add(b"last") == 5


@pytest.mark.parametrize("cut", range(1, 14))
def test_names_of_cut_entries_are_refused(cut: int) -> None:
    data = b"".join(len(name).to_bytes(2, "little") + b"...." + name for name in (b"a", b"bc"))
    subjects = SubjectList()
    with pytest.raises(ValueError, match="cut short"):
        subjects.append_names(data[: len(data) - cut], 0, 2, 6)
    assert list(subjects) == []
