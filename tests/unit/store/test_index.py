"""The tree of subjects against a dict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.store.index import SubjectIndex
from millstream.subjects.match import matches

SUBJECTS = st.sampled_from(
    [b"a", b"b", b"a.b", b"a.c", b"a.b.c", b"b.b", b"b.b.c", b"x.y.z.w", b"*.b", b"a.>"]
)
PATTERNS = st.sampled_from(
    [b">", b"*", b"a", b"a.b", b"a.*", b"*.b", b"*.*", b"a.>", b"*.>", b"*.*.c", b"x.>", b"q", b"x.y.z"]
)


@given(st.lists(st.tuples(SUBJECTS, st.booleans()), max_size=60), PATTERNS)
def test_it_agrees_with_counting(steps: list[tuple[bytes, bool]], pattern: bytes) -> None:
    index = SubjectIndex()
    held: dict[bytes, list[int]] = {}
    for seq, (subject, adding) in enumerate(steps, 1):
        if adding:
            index.add(subject, seq)
            held.setdefault(subject, []).append(seq)
        elif held.get(subject):
            index.discount(subject, held[subject].pop(seq % len(held[subject])))
            if not held[subject]:
                del held[subject]
    found = {subject: node.count for subject, node in index.match(pattern)}
    assert found == {subject: len(seqs) for subject, seqs in held.items() if matches(subject, pattern)}
    assert index.subjects == len(held)
    for subject, seqs in held.items():
        node = index.find(subject)
        assert node is not None
        assert node.first == seqs[0] if node.first_exact else node.first <= seqs[0]
        assert node.last == seqs[-1] if node.last_exact else node.last >= seqs[-1]


@given(
    st.lists(st.tuples(SUBJECTS, st.booleans()), max_size=60),
    PATTERNS,
    st.integers(1, 30),
    st.integers(0, 60),
    st.integers(0, 12),
)
def test_a_range_is_counted_if_no_subject_is_partly_in_it(
    steps: list[tuple[bytes, bool]], pattern: bytes, first: int, last: int, most: int
) -> None:
    index = SubjectIndex()
    held: dict[bytes, list[int]] = {}
    for seq, (subject, adding) in enumerate(steps, 1):
        if adding:
            index.add(subject, seq)
            held.setdefault(subject, []).append(seq)
        elif held.get(subject):
            index.discount(subject, held[subject].pop(seq % len(held[subject])))
    matching = [node for _, node in index.match(pattern)]
    partly = any(
        node.first <= last and node.last >= first and (node.first < first or node.last > last)
        for node in matching
    )
    inside = sum(
        len([seq for seq in seqs if first <= seq <= last])
        for subject, seqs in held.items()
        if matches(subject, pattern)
    )
    assert index.count_between(pattern, first, last, 1_000) == (-1 if partly else inside)
    assert index.count_between(pattern, first, last, most) in (-1, inside)


def test_counting_looks_at_what_it_counts_and_gives_up_after_the_limit() -> None:
    index = SubjectIndex()
    for number in range(50_000):
        index.add(b"s.%d.%d" % (number % 50, number), number + 1)
    assert index.count_between(b"s.7.*", 1, 50_000, 2_000) == 1_000
    assert index.looked_at == 1_002
    assert index.count_between(b"s.*.*", 1, 50_000, 2_000) == -1
    assert index.looked_at <= 4_000
    assert index.count_between(b"s.7", 1, 50_000, 2_000) == 0
    assert index.looked_at == 0


def test_counting_stops_in_the_middle_of_very_many_children() -> None:
    index = SubjectIndex()
    for number in range(100_000):
        index.add(b"s.%d" % number, number + 1)
    assert index.count_between(b"s.*", 1, 100_000, 200_000) == 100_000
    assert index.count_between(b"s.>", 1, 100_000, 4_000) == -1
    assert index.looked_at <= 10_000


@given(st.lists(SUBJECTS, min_size=1, max_size=4), PATTERNS)
def test_covered_means_that_every_subject_falls_under_it(subjects: list[bytes], pattern: bytes) -> None:
    index = SubjectIndex()
    for seq, subject in enumerate(subjects, 1):
        index.add(subject, seq)
    if index.is_covered_by(pattern):
        assert all(matches(subject, pattern) for subject in subjects)


def test_the_subjects_of_a_bucket_are_covered_by_its_pattern() -> None:
    index = SubjectIndex()
    assert not index.is_covered_by(b"$KV.B.>")
    for seq, key in enumerate((b"a", b"b.c", b"b"), 1):
        index.add(b"$KV.B." + key, seq)
    assert index.is_covered_by(b"$KV.B.>")
    assert index.is_covered_by(b">")
    assert not index.is_covered_by(b"$KV.B.*")
    index.add(b"$KV.C.a", 4)
    assert not index.is_covered_by(b"$KV.B.>")


def test_what_is_gone_leaves_nothing_behind() -> None:
    index = SubjectIndex()
    index.add(b"a.b.c.d", 1)
    index.add(b"a.b", 2)
    index.discount(b"a.b.c.d", 1)
    node = index.find(b"a.b")
    assert node is not None
    assert node.children is None
    index.discount(b"a.b", 2)
    assert list(index.match(b">")) == []
    assert index.find(b"a") is None
    assert index.subjects == 0


def test_a_subject_may_end_where_another_goes_on() -> None:
    index = SubjectIndex()
    index.add(b"a.b.c", 1)
    assert index.find(b"a.b") is None
    index.add(b"a.b", 2)
    index.discount(b"a.b", 2)
    assert [subject for subject, _ in index.match(b">")] == [b"a.b.c"]


def test_with_one_message_left_the_first_is_the_last() -> None:
    """A key-value bucket removes the old value of a key all the time: that must not need a search."""
    index = SubjectIndex()
    index.add(b"k", 5)
    node = index.add(b"k", 900)
    index.discount(b"k", 5)
    assert (node.first, node.first_exact) == (900, True)


def test_it_is_not_if_the_last_is_gone_as_well() -> None:
    index = SubjectIndex()
    for seq in (5, 6, 900):
        node = index.add(b"k", seq)
    index.discount(b"k", 900)
    index.discount(b"k", 5)
    assert node.count == 1
    assert not node.first_exact
    assert not node.last_exact


def test_sums_are_added_to_what_is_there() -> None:
    index = SubjectIndex()
    index.add_many(b"a", 3, 1, 7)
    index.add_many(b"a", 2, 10, 12)
    index.add_many(b"b", 0, 0, 0)
    node = index.find(b"a")
    assert node is not None
    assert (node.count, node.first, node.last) == (5, 1, 12)
    assert index.find(b"b") is None
    assert index.subjects == 1


def test_clearing_forgets_everything() -> None:
    index = SubjectIndex()
    index.add(b"a", 1)
    index.clear()
    assert index.find(b"a") is None
    assert index.subjects == 0


DEEPEST = b".".join([b"a"] * 32_768)  # 65,535 bytes, the longest subject that a record can have


@pytest.mark.compiled
def test_a_subject_of_32768_tokens_is_found_by_every_pattern() -> None:
    index = SubjectIndex()
    index.add(DEEPEST, 1)
    index.add(b"a.a", 2)
    assert sorted(subject for subject, _ in index.match(b">")) == [b"a.a", DEEPEST]
    assert sorted(subject for subject, _ in index.match(b"a.>")) == [b"a.a", DEEPEST]
    assert [subject for subject, _ in index.match(b"*.*.>")] == [DEEPEST]
    assert [subject for subject, _ in index.match(DEEPEST)] == [DEEPEST]
    assert [subject for subject, _ in index.match(b".".join([b"*"] * 32_768))] == [DEEPEST]
    index.discount(DEEPEST, 1)
    assert [subject for subject, _ in index.match(b">")] == [b"a.a"]


@pytest.mark.compiled
def test_deep_subjects_are_forgotten_all_at_once() -> None:
    index = SubjectIndex()
    for letter in b"abc":
        index.add(DEEPEST.replace(b"a", bytes((letter,))), 1)
    index.clear()
    assert list(index.match(b">")) == []


def test_a_star_covers_all_subjects_if_all_have_as_many_tokens() -> None:
    index = SubjectIndex()
    for number in range(3):
        index.add(b"s.%d" % number, number + 1)
    assert index.is_covered_by(b"s.*")
    assert index.is_covered_by(b"*.*")
    assert not index.is_covered_by(b"s.*.*")
    assert not index.is_covered_by(b"t.*")
    index.add(b"s.1.x", 9)
    assert not index.is_covered_by(b"s.*")
    index.discount(b"s.1.x", 9)
    assert index.is_covered_by(b"s.*")


def test_a_node_with_many_children_finds_lists_and_forgets_them() -> None:
    index = SubjectIndex()
    count = 20_000
    for number in range(count):
        index.add(b"s.%d" % number, number + 1)
    found = index.match(b"s.*")
    first = [next(found) for _ in range(10)]
    for number in range(count, count + 50):  # while it is listed
        index.add(b"s.%d" % number, number + 1)
    listed = {subject for subject, _ in (*first, *found)}
    assert {b"s.%d" % number for number in range(count)} <= listed
    node = index.find(b"s.19999")
    assert node is not None
    assert node.last == count
    for number in range(count + 50):
        index.discount(b"s.%d" % number, number + 1)
    assert (index.subjects, list(index.match(b">"))) == (0, [])
