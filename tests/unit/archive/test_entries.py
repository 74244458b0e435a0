"""Entries of archives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.archive.entries import MAGIC, MAX_NAME, EntryBuffer, EntryReader
from millstream.archive.errors import ArchiveError
from tests.kits.jetstream.archive import END, Entry, entries_of, join, pack

_ENTRY = st.builds(
    Entry,
    st.binary(max_size=200),
    st.integers(0, 2**64 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=200),
    st.binary(max_size=300),
)


@given(st.lists(_ENTRY, max_size=10))
def test_what_is_written_is_read(entries: list[Entry]) -> None:
    assert entries_of(pack(join(entries))) == entries


@given(st.lists(_ENTRY, min_size=1, max_size=5), st.integers(1, 40))
def test_entries_survive_any_boundary(entries: list[Entry], step: int) -> None:
    data = join(entries)
    reader = EntryReader()
    found = []
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        while reader.next():
            found.append(Entry(reader.name(), reader.seq, reader.timestamp, reader.headers(), reader.body()))
    assert found == entries
    assert reader.between


def test_the_bytes_of_an_entry() -> None:
    buffer = EntryBuffer()
    buffer.add(b"a.b", -2, 300, b"HDRbody", 0, 3, 7)
    assert buffer.take() == b"\x03\x03\xac\x02\x03\x04a.bHDRbody"


def test_the_end_is_five_zeros() -> None:
    assert join([END]) == MAGIC + bytes(5)
    reader = EntryReader()
    reader.feed(MAGIC + bytes(5))
    assert reader.next()
    assert reader.is_end()


def test_an_entry_that_is_too_large_is_told_before_it_is_there() -> None:
    reader = EntryReader()
    reader.most = 10
    reader.feed(join([Entry(b"a", 7, 1, b"", bytes(11))])[: len(MAGIC) + 6])
    assert reader.next()
    assert reader.too_large
    assert reader.seq == 7
    assert not reader.is_end()


@pytest.mark.parametrize(
    "data",
    [
        b"NATSARC2",
        MAGIC + b"\xff" * 10,
        MAGIC + b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
        MAGIC + b"\x81\x80\x40" + bytes(4),  # a name that is too long
        MAGIC + bytes(3) + b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00",
        MAGIC + bytes(3) + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f" * 2,
    ],
)
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    assert MAX_NAME == 1 << 20
    reader = EntryReader()
    reader.feed(data)
    with pytest.raises(ArchiveError, match="invalid archive stream"):
        reader.next()
