"""Reading a file from end to end, whole and damaged."""

from __future__ import annotations

import random
import time

import pytest

from millstream.base.numbers import pack_rising
from millstream.store.record import HEADER_SIZE, Kind
from millstream.store.scan import Gap, Scan, scan
from millstream.store.segment import FILE_HEADER_SIZE, Segment, file_header
from tests.kits.store.log import one_record


class FileMaker:
    """Bytes of a segment's file, and where each record lies."""

    def __init__(self, start_seq: int = 1) -> None:
        self.data = file_header(start_seq)
        self.offsets: list[int] = []

    def add(self, kind: int, seq: int, subject: bytes = b"", body: bytes = b"", headers: bytes = b"") -> None:
        self.offsets.append(len(self.data))
        self.data += one_record(kind, seq, seq, subject, headers, body, len(self.data))

    def messages(self, *seqs: int, body: bytes = b"body") -> FileMaker:
        for seq in seqs:
            self.add(Kind.MESSAGE, seq, b"s.%d" % seq, body)
        return self

    def end_of(self, number: int) -> int:
        return [*self.offsets, len(self.data)][number + 1]

    def damaged(self, *numbers: int) -> bytes:
        """The file with a bit flipped at the end of some records."""
        data = bytearray(self.data)
        for number in numbers:
            data[self.end_of(number) - 1] ^= 0x10
        return bytes(data)


def scanned(data: bytes, start_seq: int = 1, *, sound_header: bool = True) -> tuple[Segment, Scan]:
    segment = Segment(1, start_seq)
    return segment, scan(segment, data, sound_header)


def seqs(segment: Segment) -> list[int]:
    return [segment.seq_at(ordinal) for ordinal in range(segment.count)]


def test_every_kind_of_record_is_taken_in() -> None:
    file = FileMaker()
    file.messages(1)
    file.add(Kind.MESSAGE, 2, b"h", b"body", b"head")
    file.add(Kind.SKIP, 9)
    file.messages(10)
    file.add(Kind.REMOVED, 2, body=pack_rising([1, 2]))
    file.add(Kind.FLOOR, 2)
    file.add(Kind.ERASED, 11, body=b"noise")
    file.add(Kind.ERASE, 1, body=pack_rising([10]))
    segment, found = scanned(file.data)
    assert seqs(segment) == [1, 2, 10, 11]
    assert segment.subject_at(1) == b"h"
    assert (segment.has_headers(1), segment.has_headers(0)) == (True, False)
    assert segment.removals.to_list() == [1, 2, 11, 10]
    assert (segment.floor, segment.last_seq) == (2, 11)
    assert (found.end, found.gaps, found.erase) == (len(file.data), [], [10])
    assert [segment.offset_at(ordinal) for ordinal in range(4)] == [file.offsets[at] for at in (0, 1, 3, 6)]
    assert [segment.end_of(ordinal) for ordinal in range(4)] == [file.end_of(at) for at in (0, 1, 3, 6)]


def test_a_tail_torn_at_any_byte_leaves_the_records_before_it() -> None:
    file = FileMaker().messages(1, 2, 3)
    for size in range(FILE_HEADER_SIZE, len(file.data)):
        segment, found = scanned(file.data[:size])
        whole = [number for number in range(3) if file.end_of(number) <= size]
        assert seqs(segment) == [number + 1 for number in whole]
        assert found.end == (file.end_of(whole[-1]) if whole else FILE_HEADER_SIZE)
        assert found.gaps == []


def test_any_flipped_bit_costs_its_record_only() -> None:
    file = FileMaker().messages(1, 2, 3, 4)
    for bit in range(8 * file.offsets[1], 8 * file.end_of(2)):
        data = bytearray(file.data)
        data[bit >> 3] ^= 1 << (bit & 7)
        segment, found = scanned(bytes(data))
        hit = 1 if bit >> 3 < file.offsets[2] else 2
        assert seqs(segment) == [seq for seq in (1, 2, 3, 4) if seq != hit + 1], f"bit {bit}"
        size = file.end_of(hit) - file.offsets[hit]
        assert found.gaps == [
            Gap(file.offsets[hit], size, hit + 1, hit + 1, found.gaps[0].most, found.gaps[0].reach)
        ]


def test_two_records_damaged_side_by_side_are_one_gap() -> None:
    file = FileMaker().messages(1, 2, 3, 4)
    segment, found = scanned(file.damaged(1, 2))
    assert seqs(segment) == [1, 4]
    (gap,) = found.gaps
    assert (gap.offset, gap.size) == (file.offsets[1], file.end_of(2) - file.offsets[1])
    assert (gap.first_seq, gap.last_seq) == (2, 3)


def test_what_is_lost_does_not_count_to_its_neighbours_size() -> None:
    file = FileMaker().messages(1, 2, 3)
    segment, _ = scanned(file.damaged(1))
    assert [segment.size_of(0), segment.size_of(1)] == [
        file.end_of(0) - file.offsets[0],
        file.end_of(2) - file.offsets[2],
    ]
    assert segment.all_bytes == segment.size_of(0) + segment.size_of(1)


def test_records_in_a_payload_are_not_taken_for_records() -> None:
    """Somebody stores a copy of a segment, and the record that holds it is damaged."""
    inner = FileMaker().messages(*range(2, 40)).data
    file = FileMaker().messages(1)
    file.messages(2, body=inner)
    file.messages(3, 4)
    segment, _ = scanned(file.damaged(1))
    assert seqs(segment) == [1, 3, 4]


def test_a_payload_with_records_at_the_right_place_cannot_turn_sequences_back_or_far_ahead() -> None:
    file = FileMaker().messages(5)
    start = len(file.data) + HEADER_SIZE + len(b"s.6")
    inner = one_record(Kind.MESSAGE, 3, 0, b"evil", b"", b"", start)
    inner += one_record(Kind.MESSAGE, 1 << 60, 0, b"evil", b"", b"", start + len(inner))
    file.messages(6, body=inner)
    file.messages(7)
    segment, _ = scanned(file.damaged(1), 5)
    assert seqs(segment) == [5, 7]


def test_a_gap_before_records_without_sequence_stays_open() -> None:
    file = FileMaker().messages(1, 2, 3)
    file.add(Kind.FLOOR, 2)
    segment, found = scanned(file.damaged(1, 2))
    assert seqs(segment) == [1]
    assert found.open_gap is found.gaps[0]
    assert found.gaps[0].most >= 2
    file.messages(8)
    segment, found = scanned(file.damaged(1, 2))
    assert seqs(segment) == [1, 8]
    assert found.open_gap is None
    assert (found.gaps[0].first_seq, found.gaps[0].last_seq) == (2, 7)


def test_one_damaged_record_whose_length_is_right_is_counted_as_one() -> None:
    file = FileMaker().messages(1)
    file.messages(2, body=b"x" * 500)
    file.add(Kind.FLOOR, 2)
    _, found = scanned(file.damaged(1))
    assert found.gaps[0].most == 1


def test_the_first_record_corrects_a_start_that_was_guessed() -> None:
    file = FileMaker(900).messages(900, 901)
    data = b"?" * FILE_HEADER_SIZE + file.data[FILE_HEADER_SIZE:]
    segment, found = scanned(data, 5, sound_header=False)
    assert (segment.start_seq, seqs(segment), found.gaps) == (900, [900, 901], [])


@pytest.mark.compiled
def test_a_damaged_megabyte_is_passed_in_no_time() -> None:
    """Looking for the next sound record must not compute a checksum at every byte."""
    noise = random.Random(5).randbytes(1 << 20)
    file = FileMaker().messages(1)
    file.messages(2, body=noise)
    file.messages(3, body=noise)
    began = time.process_time()
    segment, _ = scanned(file.damaged(1))
    assert seqs(segment) == [1, 3]
    assert time.process_time() - began < 8  # hundreds if it did


@pytest.mark.parametrize("count", [3, 1 << 62, (1 << 63) - 1])
def test_removals_that_are_fewer_than_announced_are_a_gap(count: int) -> None:
    file = FileMaker().messages(1, 2)
    file.add(Kind.REMOVED, count, body=pack_rising([1, 2]))
    file.messages(3)
    segment, found = scanned(file.data)
    assert seqs(segment) == [1, 2, 3]
    assert segment.removals.to_list() == []
    assert [gap.offset for gap in found.gaps] == [file.offsets[2]]
