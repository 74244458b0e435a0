"""One record: its bytes, and that no damage to them goes unseen."""

import pytest

from millstream.base.budget import BUDGET
from millstream.store.record import (
    CUT,
    DAMAGED,
    HEADER_SIZE,
    MAX_SUBJECT,
    WHOLE,
    Kind,
    Record,
    RecordBuffer,
    drop_large_spares,
    erased_record,
    has_large_spares,
    moved_record,
    record_size,
)
from tests.kits.store.log import one_record

SEQ = 0x0102030405060708
TIME = 1_700_000_000_000_000_001

CASES = [
    pytest.param(b"a.b", b"", b"hello", id="plain"),
    pytest.param(b"a.b", b"NATS/1.0\r\n\r\n", b"hello", id="headers"),
    pytest.param(b"a", b"NATS/1.0\r\n\r\n", b"", id="headers-only"),
    pytest.param(b"a", b"", b"", id="empty"),
    pytest.param(b"s" * 300, b"h" * 700, b"b" * 2000, id="long"),
]


@pytest.mark.parametrize(("subject", "headers", "body"), CASES)
def test_what_is_written_is_read(subject: bytes, headers: bytes, body: bytes) -> None:
    data = b"before" + one_record(Kind.MESSAGE, SEQ, TIME, subject, headers, body, base=6) + b"behind"
    record = Record()
    assert record.read(data, 6, len(data), True) == WHOLE
    assert (record.seq, record.timestamp) == (SEQ, TIME)
    assert (record.subject(), record.headers(), record.payload()) == (subject, headers, body)
    assert record.kind == (Kind.HEADERS if headers else Kind.MESSAGE)
    assert record.size == record_size(len(subject), len(headers), len(body)) == len(data) - 12
    assert record.is_message()


@pytest.mark.parametrize("timestamp", [0, -1, -(1 << 63), (1 << 63) - 1])
def test_times_before_1970_are_negative(timestamp: int) -> None:
    record = Record()
    data = one_record(Kind.MESSAGE, 1, timestamp, b"a", b"", b"")
    assert record.read(data, 0, len(data), True) == WHOLE
    assert record.timestamp == timestamp


def test_the_highest_sequence_fits() -> None:
    record = Record()
    data = one_record(Kind.MESSAGE, (1 << 64) - 1, 0, b"a", b"", b"")
    assert record.read(data, 0, len(data), True) == WHOLE
    assert record.seq == (1 << 64) - 1


@pytest.mark.parametrize(("subject", "headers", "body"), CASES[:4])
def test_every_flipped_bit_is_seen(subject: bytes, headers: bytes, body: bytes) -> None:
    data = one_record(Kind.MESSAGE, SEQ, TIME, subject, headers, body)
    record = Record()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        # Zeros behind it, so that a length that grew is not simply cut.
        whole = bytes(damaged) + bytes(64)
        assert record.read(whole, 0, len(whole), True) != WHOLE, f"bit {bit}"


@pytest.mark.parametrize(("subject", "headers", "body"), CASES[:4])
def test_every_pair_of_bytes_exchanged_is_seen(subject: bytes, headers: bytes, body: bytes) -> None:
    data = one_record(Kind.MESSAGE, SEQ, TIME, subject, headers, body)
    record = Record()
    for at in range(len(data) - 1):
        if data[at] != data[at + 1]:
            swapped = data[:at] + bytes((data[at + 1], data[at])) + data[at + 2 :]
            assert record.read(swapped + bytes(64), 0, len(data) + 64, True) != WHOLE


def test_a_record_is_cut_at_every_byte() -> None:
    data = one_record(Kind.MESSAGE, SEQ, TIME, b"a.b", b"h", b"body")
    record = Record()
    assert {record.read(data, 0, end, True) for end in range(len(data))} == {CUT}


def test_a_record_at_another_place_is_not_sound() -> None:
    """The copy of a record inside a payload is not taken for a record."""
    data = one_record(Kind.MESSAGE, SEQ, TIME, b"a.b", b"", b"body", base=1000)
    record = Record()
    assert record.read(data, 0, len(data), True, 1000) == WHOLE
    for base in (0, 999, 1001, 1256, 66536):
        assert record.read(data, 0, len(data), True, base) == DAMAGED


def test_a_moved_record_is_sound_at_its_new_place_only() -> None:
    data = one_record(Kind.MESSAGE, SEQ, TIME, b"a.b", b"", b"body", base=1000)
    record = Record()
    moved = moved_record(data, 1000, 16)
    assert record.read(moved, 0, len(moved), True, 16) == WHOLE
    assert record.payload() == b"body"
    assert record.read(moved, 0, len(moved), True, 1000) == DAMAGED


def test_damage_before_a_move_is_seen_behind_it() -> None:
    data = one_record(Kind.MESSAGE, SEQ, TIME, b"a.b", b"", b"body", base=1000)
    moved = moved_record(data[:-1] + b"?", 1000, 16)
    assert Record().read(moved, 0, len(moved), True, 16) == DAMAGED


@pytest.mark.parametrize("filler", [b"\x00", b"\xff", b"a", b"\x1a\x00\x00\x00"])
def test_garbage_is_no_record(filler: bytes) -> None:
    data = filler * 200
    record = Record()
    assert WHOLE not in {record.read(data, at, len(data), True) for at in range(200)}


def test_a_length_that_hides_the_subject_is_damage_even_unverified() -> None:
    data = bytearray(one_record(Kind.MESSAGE, SEQ, TIME, b"a.b", b"", b""))
    data[24] = 200  # the subject would be longer than the record
    assert Record().read(bytes(data), 0, len(data), False) == DAMAGED


def test_headers_longer_than_the_record_are_damage_even_unverified() -> None:
    data = bytearray(one_record(Kind.MESSAGE, SEQ, TIME, b"a.b", b"head", b""))
    data[HEADER_SIZE] = 200
    assert Record().read(bytes(data), 0, len(data), False) == DAMAGED


def test_an_erased_record_keeps_sequence_time_and_size_and_nothing_else() -> None:
    data = one_record(Kind.MESSAGE, SEQ, TIME, b"secret.subject", b"", b"secret", base=40)
    erased = erased_record(SEQ, TIME, len(data), 40)
    record = Record()
    assert record.read(erased, 0, len(erased), True, 40) == WHOLE
    assert (record.kind, record.seq, record.timestamp) == (Kind.ERASED, SEQ, TIME)
    assert record.size == len(data)
    assert not record.is_message()
    assert record.is_numbered()
    assert b"secret" not in erased


@pytest.mark.parametrize(
    ("subject", "start", "header_size", "size"),
    [
        (b"a", 0, 0, 5),
        (b"a", 4, 0, 1),
        (b"a", -1, 0, 1),
        (b"a", 0, 3, 2),
        (b"a", 0, 0, -1),
        (b"a" * (MAX_SUBJECT + 1), 0, 0, 1),
    ],
)
def test_what_does_not_fit_is_refused(subject: bytes, start: int, header_size: int, size: int) -> None:
    buffer = RecordBuffer()
    with pytest.raises(ValueError, match=r"do not lie|cannot have"):
        buffer.add(Kind.MESSAGE, 1, 0, subject, b"1234", start, header_size, size)
    assert buffer.size == 0


def test_records_sealed_in_two_parts_are_all_sound() -> None:
    """A commit fails after sealing, more is appended, and it is sealed again."""
    buffer = RecordBuffer()
    buffer.base = 16
    buffer.add(Kind.MESSAGE, 1, 0, b"a", b"one", 0, 0, 3)
    buffer.seal()
    more = RecordBuffer()
    more.add(Kind.MESSAGE, 2, 0, b"b", b"two", 0, 0, 3)
    buffer.append(more.peek())
    buffer.seal()
    data = buffer.peek()
    record = Record()
    assert record.read(data, 0, len(data), True, 16) == WHOLE
    assert record.read(data, record.size, len(data), True, 16) == WHOLE
    assert record.payload() == b"two"


def test_a_buffer_that_gets_memory_of_another_has_nothing_of_its_records() -> None:
    old = RecordBuffer()
    old.add(Kind.MESSAGE, 1, 0, b"a", bytes(100_000), 0, 0, 100_000)
    old.seal()
    old.recycle()
    assert old.size == 0
    fresh = RecordBuffer()
    fresh.base = 16
    fresh.add(Kind.MESSAGE, 2, 0, b"b", b"two", 0, 0, 3)
    old.add(Kind.MESSAGE, 3, 0, b"c", b"three", 0, 0, 5)
    fresh.seal()
    data = fresh.peek()
    record = Record()
    assert record.read(data, 0, len(data), True, 16) == WHOLE
    assert (record.size, record.payload()) == (len(data), b"two")


def test_memory_of_large_buffers_is_kept_only_while_there_is_a_hurry() -> None:
    use_up_spares()
    assert not has_large_spares()
    for size in (3000, 5_000_000, 50_000_000):
        buffer = RecordBuffer()
        buffer.append(bytes(size))
        buffer.recycle()
    assert 5_000_000 < BUDGET.spares.used < 6_000_000
    assert has_large_spares()
    drop_large_spares()
    assert 2900 < BUDGET.spares.used < 3100
    assert not has_large_spares()


def test_kept_memory_has_a_share_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    use_up_spares()
    monkeypatch.setattr(BUDGET.spares, "limit", 25_000)
    buffers = [RecordBuffer() for _ in range(5)]
    for buffer in buffers:
        buffer.append(bytes(10_000))
    for buffer in buffers:
        buffer.recycle()
    assert 19_000 < BUDGET.spares.used <= 25_000


def test_few_pieces_of_memory_are_kept_however_many_buffers_there_were() -> None:
    use_up_spares()
    for _ in range(100):
        RecordBuffer().recycle()  # has no memory
    buffers = [RecordBuffer() for _ in range(100)]
    for buffer in buffers:
        buffer.add(Kind.MESSAGE, 1, 0, b"a", bytes(10_000), 0, 0, 10_000)
    for buffer in buffers:
        buffer.recycle()
    assert 16 * 10_000 < BUDGET.spares.used < 16 * 11_000


def use_up_spares() -> None:
    """Leave no memory of other tests to the next buffers."""
    while BUDGET.spares.used:
        RecordBuffer().add(Kind.MESSAGE, 1, 0, b"", b"", 0, 0, 0)


def test_memory_that_somebody_looks_at_is_not_used_again() -> None:
    old = RecordBuffer()
    old.add(Kind.MESSAGE, 1, 0, b"a", b"one", 0, 0, 3)
    with old.view() as view:
        before = bytes(view)
        old.recycle()
        other = RecordBuffer()
        other.add(Kind.MESSAGE, 2, 0, b"b", b"x" * 100_000, 0, 0, 100_000)
        assert bytes(view) == before


def test_a_slice_of_a_buffer_is_a_copy() -> None:
    buffer = RecordBuffer()
    buffer.append(b"0123456789")
    part = buffer.slice(2, 3)
    buffer.append(b"x" * 10_000)
    assert part == b"234"
