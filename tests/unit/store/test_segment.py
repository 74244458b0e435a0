"""Tables over a segment against lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from millstream.store.scan import scan
from millstream.store.segment import FILE_HEADER_SIZE, Segment, file_header, start_in_header
from millstream.store.summary import decode, encode, load_tables

SUBJECTS = [b"a", b"b", b"a.b", b""]


@dataclass
class Row:
    seq: int
    subject: bytes
    headers: bool
    offset: int
    size: int
    removed: bool = False


@dataclass
class Built:
    segment: Segment
    rows: list[Row] = field(default_factory=list)


@st.composite
def built(draw: st.DrawFn, *, gaps: bool = True, subjects: int = 4, big: bool = False) -> Built:
    """A segment with random messages, other records between them, and jumps in the sequence."""
    result = Built(Segment(3, 100))
    segment = result.segment
    seq = 99
    for _ in range(draw(st.integers(0, 25))):
        if draw(st.integers(0, 3)) == 0:
            segment.note_other(draw(st.integers(26, 60)))
        seq += draw(st.sampled_from([1, 1, 1, 2, 70_000])) if gaps else 1
        subject = SUBJECTS[draw(st.integers(0, subjects - 1))]
        size = draw(st.sampled_from([30, 40, 70_000] if big else [30, 40]))
        headers = draw(st.booleans())
        result.rows.append(Row(seq, subject, headers, segment.size, size))
        assert segment.note(seq, 1000 + seq, subject, headers, size) == len(result.rows) - 1
    for ordinal in draw(st.sets(st.integers(0, 24), max_size=12)):
        if ordinal < len(result.rows):
            segment.mark_removed(ordinal, segment.size_of(ordinal))
            result.rows[ordinal].removed = True
    segment.sealed = True
    return result


def check(segment: Segment, rows: list[Row]) -> None:
    live = [row for row in rows if not row.removed]
    assert segment.count == len(rows)
    assert (segment.live, segment.live_bytes) == (len(live), sum(row.size for row in live))
    for ordinal, row in enumerate(rows):
        assert segment.seq_at(ordinal) == row.seq
        assert (segment.offset_at(ordinal), segment.size_of(ordinal)) == (row.offset, row.size)
        assert segment.subject_at(ordinal) == row.subject
        assert segment.has_headers(ordinal) == row.headers
        assert segment.is_removed(ordinal) == row.removed
        assert segment.ordinal_of(row.seq) == (-1 if row.removed else ordinal)
        assert segment.holds(row.seq)
    wanted = bytes(subject in (b"a", b"") for subject in segment.subjects)
    for start in range(len(rows) + 1):
        after = [ordinal for ordinal in range(start, len(rows)) if not rows[ordinal].removed]
        assert segment.next_live(start) == (after[0] if after else len(rows))
        matching = [ordinal for ordinal in after if rows[ordinal].subject in (b"a", b"")]
        assert segment.next_match(start, wanted) == (matching[0] if matching else len(rows))
    for start in range(-1, len(rows)):
        before = [ordinal for ordinal in range(start + 1) if not rows[ordinal].removed]
        matching = [ordinal for ordinal in before if rows[ordinal].subject in (b"a", b"")]
        assert segment.previous_match(start, wanted) == (matching[-1] if matching else -1)
    for seq in {row.seq + step for row in rows for step in (-1, 0, 1)}:
        expected = sum(row.seq < seq for row in rows)
        assert segment.first_not_below(seq) == expected
        assert segment.holds(seq) == any(row.seq == seq for row in rows)


@given(built())
def test_tables_agree_with_lists(made: Built) -> None:
    check(made.segment, made.rows)


@given(st.one_of(built(), built(gaps=False), built(subjects=1), built(big=True)))
def test_a_summary_gives_the_tables_back(made: Built) -> None:
    segment = made.segment
    segment.removals.extend([5, 17, 18, 1 << 40])
    segment.floor = 12
    segment.marks = 6
    summary = decode(encode(segment, segment.all_bytes))
    assert summary is not None
    assert (summary.number, summary.start_seq, summary.last_seq) == (3, 100, segment.last_seq)
    assert (summary.count, summary.live_bytes) == (segment.count, sum(row.size for row in made.rows))
    assert (summary.first_timestamp, summary.last_timestamp) == (
        segment.first_timestamp,
        segment.last_timestamp,
    )
    assert (summary.floor, summary.marks, summary.removals) == (12, 6, [5, 17, 18, 1 << 40])
    assert summary.with_headers == sum(row.headers for row in made.rows)
    sums = summary.subjects
    for number, subject in enumerate(sums.names):
        seqs = [row.seq for row in made.rows if row.subject == subject]
        found = (sums.counts.at(number), sums.firsts.at(number), sums.lasts.at(number))
        assert found == (len(seqs), seqs[0], seqs[-1])
    segment.unload()
    assert not segment.loaded
    load_tables(segment, summary)
    check(segment, made.rows)


def summary_of(segment: Segment) -> tuple[int, int, bool]:
    summary = decode(encode(segment, segment.all_bytes))
    assert summary is not None
    return summary.layout.size_width, summary.layout.subject_width, summary.layout.sparse


def test_one_subject_takes_no_room_and_small_records_two_bytes() -> None:
    segment = Segment(1, 1)
    for seq in range(1, 200):
        segment.note(seq, 0, b"a", False, 100)
    assert summary_of(segment) == (2, 0, False)
    assert len(encode(segment, 0)) < 200 * 2 + 5 * 12 + 150  # and a time for every 4 KiB


def test_tables_are_as_wide_as_their_values() -> None:
    segment = Segment(1, 1)
    for seq in range(1, 200):
        segment.note(seq, 0, b"s.%d" % (seq % 100), False, 100)
    assert summary_of(segment) == (2, 1, False)
    for seq in range(200, 400):
        segment.note(seq, 0, b"s.%d" % seq, False, 100)
    assert summary_of(segment) == (2, 2, False)
    segment.note(500, 0, b"s.1", False, 70_000)
    segment.note(501, 0, b"s.1", False, 100)
    assert summary_of(segment) == (4, 2, True)


def test_headers_on_some_messages_do_not_make_numbers_wide() -> None:
    segment = Segment(1, 1)
    for seq in range(1, 50):
        segment.note(seq, 0, b"a", seq % 2 == 0, 100)
    assert summary_of(segment) == (2, 1, False)


def test_times_that_fall_are_noted_and_survive_a_summary() -> None:
    segment = Segment(1, 1)
    segment.note(1, 50, b"a", False, 100)
    segment.note(2, 70, b"a", False, 100)
    assert not segment.times_fall
    segment.note(3, 60, b"a", False, 100)
    assert segment.times_fall
    assert segment.last_timestamp == 70
    summary = decode(encode(segment, 0))
    assert summary is not None
    assert summary.times_fall


@given(built(), st.data())
def test_a_damaged_summary_is_none(made: Built, data: st.DataObject) -> None:
    encoded = bytearray(encode(made.segment, 0))
    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    encoded[bit >> 3] ^= 1 << (bit & 7)
    assert decode(bytes(encoded)) is None


@given(built(), st.data())
def test_a_cut_summary_is_none(made: Built, data: st.DataObject) -> None:
    encoded = encode(made.segment, 0)
    assert decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))]) is None


def test_a_file_header_with_any_flipped_bit_is_none() -> None:
    header = file_header(12345)
    assert len(header) == FILE_HEADER_SIZE
    assert start_in_header(header + b"more") == 12345
    for bit in range(8 * FILE_HEADER_SIZE):
        damaged = bytearray(header)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        assert start_in_header(bytes(damaged)) is None
    assert all(start_in_header(header[:size]) is None for size in range(FILE_HEADER_SIZE))


def test_a_file_without_records_is_an_empty_segment() -> None:
    segment = Segment(1, 7)
    found = scan(segment, file_header(7))
    assert (found.end, found.gaps, segment.count, segment.last_seq) == (FILE_HEADER_SIZE, [], 0, 6)


def test_what_was_removed_since_is_told_by_sequence() -> None:
    chance = Random(7)
    segment = Segment(1, 100)
    for seq in range(100, 400):
        segment.note(seq, 0, b"a", False, 40)
    assert segment.removed_since(b"") == []
    first = sorted(chance.sample(range(300), 40))
    for ordinal in first:
        segment.mark_removed(ordinal, 40)
    assert segment.removed_since(b"") == [100 + ordinal for ordinal in first]
    before = bytes(segment.removed or b"")
    assert segment.removed_since(before) == []
    second = sorted(set(chance.sample(range(300), 90)) - set(first))
    for ordinal in second:
        segment.mark_removed(ordinal, 40)
    assert segment.removed_since(before) == [100 + ordinal for ordinal in second]
