"""Many patterns at once mean the same subjects as one after the other, and take no longer."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.filters import wanted_by_any
from millstream.store.segment import Segment
from millstream.subjects.match import matches

TOKENS = st.sampled_from(["a", "b", "*", "x"])
PATTERNS = st.lists(TOKENS, min_size=1, max_size=3).map(".".join) | st.sampled_from(
    [">", "a.>", "*.>", "x.b.>"]
)
SUBJECTS = [b"a", b"b", b"a.b", b"a.x", b"x.b.a", b"a..b", b".a", b"a.", b"x.x.x.x", b"*", b"a.*"]


def segment_of(subjects: list[bytes]) -> Segment:
    segment = Segment(1, 1)
    for seq, subject in enumerate(subjects, 1):
        segment.note(seq, 0, subject, False, 30)
    return segment


@given(st.lists(PATTERNS, min_size=1, max_size=20))
def test_a_tree_of_patterns_finds_what_each_of_them_finds(texts: list[str]) -> None:
    patterns = tuple(text.encode() for text in texts)
    flags = wanted_by_any(segment_of(SUBJECTS), patterns, 0, len(SUBJECTS))
    assert list(flags) == [any(matches(subject, each) for each in patterns) for subject in SUBJECTS]


def test_thousands_of_patterns_over_thousands_of_subjects_take_no_product_of_both() -> None:
    segment = segment_of([b"a.%d.b" % number for number in range(20_000)])
    patterns = tuple(b"a.%d.*" % number for number in range(4_000))
    start = time.process_time()
    assert sum(wanted_by_any(segment, patterns, 0, 20_000)) == 4_000
    assert time.process_time() - start < 2
