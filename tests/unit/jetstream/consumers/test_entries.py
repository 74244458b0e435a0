"""Entries of the journal: what goes in comes out, in the bytes that docs/formats/consumers.md describes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.jetstream.consumers.entries import (
    EntryKind,
    UnknownEntryError,
    decode,
    encode_changes,
    encode_checkpoint,
    encode_config,
    encode_deleted,
    encode_letter,
    encode_snapshot,
    encode_stored,
)
from millstream.jetstream.consumers.saved_state import Changes, OpenLetter

TIME = 1_700_000_000_000_000_000
TOP = (1 << 64) - 1

seqs = st.one_of(st.integers(0, 300), st.integers(0, TOP))
times = st.one_of(st.integers(0, 3), st.integers(-(1 << 63), (1 << 63) - 1))
changes_of_all_kinds = st.builds(
    Changes,
    seqs,
    seqs,
    seqs,
    seqs,
    seqs,
    st.lists(st.tuples(seqs, seqs, times)),
    st.lists(seqs),
    st.lists(st.tuples(seqs, seqs)),
)


@given(seqs, seqs, changes_of_all_kinds)
def test_changes_come_back(number: int, link: int, changes: Changes) -> None:
    entry = decode(encode_changes(number, link, changes))
    assert (entry.kind, entry.number, entry.link) == (EntryKind.CHANGES, number, link)
    assert entry.changes == changes


@given(seqs, seqs, changes_of_all_kinds)
def test_snapshots_come_back(number: int, link: int, state: Changes) -> None:
    entry = decode(encode_snapshot(number, link, state))
    assert (entry.kind, entry.number, entry.link) == (EntryKind.SNAPSHOT, number, link)
    assert entry.changes == state


@given(seqs, st.text(), seqs, st.binary(), seqs, st.none() | changes_of_all_kinds)
def test_configurations_come_back(
    number: int, name: str, created: int, config: bytes, link: int, state: Changes | None
) -> None:
    entry = decode(encode_config(number, name, created, config, link, state))
    assert (entry.kind, entry.number, entry.name) == (EntryKind.CONFIG, number, name)
    assert (entry.created, entry.config) == (created, config)
    assert entry.changes == state
    if state is not None:
        assert entry.link == link


@given(seqs, st.text())
def test_deletions_come_back(number: int, name: str) -> None:
    entry = decode(encode_deleted(number, name))
    assert (entry.kind, entry.number, entry.name) == (EntryKind.DELETED, number, name)


def test_checkpoints_come_back() -> None:
    entry = decode(encode_checkpoint(77))
    assert (entry.kind, entry.number) == (EntryKind.CHECKPOINT, 77)


@given(changes_of_all_kinds, st.data())
def test_an_entry_that_is_cut_is_no_entry(changes: Changes, data: st.DataObject) -> None:
    whole = encode_changes(1, 2, changes)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match=r"cut|runs?|more"):
        decode(whole[:cut])


@given(st.binary())
def test_any_bytes_are_an_entry_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        decode(data)


def test_a_dead_letter() -> None:
    letter = OpenLetter("c", 300, 2, "id", 130, b"dlq.c", b"NATS/1.0\r\n\r\n", b"body")
    data = encode_letter(5, letter)
    assert data.hex() == "16 05 ac02 0163 02 026964 8201 05646c712e63".replace(" ", "") + (
        "0c" + b"NATS/1.0\r\n\r\n".hex() + "04" + b"body".hex()
    )
    entry = decode(data)
    assert (entry.kind, entry.number, entry.letter) == (EntryKind.LETTER, 5, letter)
    assert encode_stored(5).hex() == "1705"
    assert decode(encode_stored(5)).kind is EntryKind.STORED


@pytest.mark.parametrize("head", [0x00, 0x10, 0x18, 0x1F, 0x21, 0x23, 0xF3])
def test_an_entry_of_another_version_or_kind_is_refused_by_name(head: int) -> None:
    with pytest.raises(UnknownEntryError, match=f"kind {head & 15} of entry in version {head >> 4}"):
        decode(bytes([head, 1]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut"),
        (b"\x14\x01\x05ab", "cut"),
        (b"\x14\x01\x00\x00", "more bytes than it should"),
        (b"\x14" + b"\xff" * 9 + b"\x02\x00", "more than 64 bits"),
        (b"\x13\x01" + bytes(6) + b"\x01\x00", "wrong length"),  # a run of nothing
        (b"\x13\x01" + bytes(6) + b"\x01\x04\x00\x00\x00", "wrong length"),  # a run of two in a list of one
        (b"\x13\x01" + bytes(6) + b"\xff\xff\xff\xff\x7f", "too many"),
    ],
)
def test_what_makes_no_sense_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode(data)


@pytest.mark.parametrize("wrong", [-1, TOP + 1])
def test_numbers_that_do_not_fit_are_refused(wrong: int) -> None:
    with pytest.raises(OverflowError):
        encode_deleted(wrong, "")
    with pytest.raises(OverflowError):
        encode_changes(1, 1, Changes(delivered_dseq=wrong))


def test_a_thousand_messages_that_went_out_together_take_a_few_bytes() -> None:
    rows = [(4_000_000 + index, 1_000_000 + index, TIME) for index in range(1000)]
    up = encode_changes(90, 12, Changes(1_001_000, 4_001_000, 999_999, 3_999_999, 1_010_000, rows))
    down = encode_changes(90, 12, Changes(1_001_000, 4_001_000, 999_999, 3_999_999, 1_010_000, rows[::-1]))
    assert len(up) < 50
    assert len(down) < 50


def test_a_thousand_acks_in_order_take_a_few_bytes() -> None:
    gone = list(range(5_000, 6_000))
    assert len(encode_changes(90, 12, Changes(6_000, 6_000, 5_999, 5_999, 7_000, [], gone))) < 30


def test_messages_far_apart_take_seven_bytes_each_at_most() -> None:
    rows = [(index * 37, index, TIME + index * 1000) for index in range(1, 1001)]
    assert len(encode_changes(1, 1, Changes(1000, 37_000, 0, 0, 2000, rows))) < 7_000


GOLDEN = {
    "11 2a 88 27 03 647572 02 7b7d": encode_config(42, "dur", 5000, b"{}"),
    "11 2a 88 27 01 64 02 7b7d 00 07 00 07 00 00 00 00 00": encode_config(
        42, "d", 5000, b"{}", 0, Changes(delivered_sseq=7, floor_sseq=7)
    ),
    # link, delivered sseq and dseq, floor sseq and dseq, reserved; one run of two, up; none gone;
    # one that went out three times more.
    "12 2a 03 0d 05 0a 02 e807 02 04 04 02 c801 00 01 02 03": encode_snapshot(
        42, 3, Changes(5, 13, 2, 10, 1000, [(12, 3, 100), (13, 4, 100)], [], [(11, 3)])
    ),
    # two runs of pending ones, the second of them down; one run gone.
    "13 2a 04 14 0b 0a 02 e807 04 02 0a 0c c801 07 08 04 01 03 06 02 00": encode_changes(
        42,
        4,
        Changes(11, 20, 2, 10, 1000, [(15, 8, 100), (19, 10, 99), (18, 9, 99), (17, 8, 99)], [11, 12, 13]),
    ),
    "14 2a 03 647572": encode_deleted(42, "dur"),
    "15 ac02": encode_checkpoint(300),
}


@pytest.mark.parametrize("expected", GOLDEN)
def test_an_entry_is_these_bytes(expected: str) -> None:
    assert GOLDEN[expected].hex() == expected.replace(" ", "")
