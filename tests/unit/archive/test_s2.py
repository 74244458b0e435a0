"""Unpacking blocks of S2: every element, and everything that is none."""

import contextlib
import os

import pytest
from cramjam import snappy
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.archive.errors import ArchiveError
from millstream.archive.s2 import MAX_BLOCK, pack, unpack


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def literal(data: bytes) -> bytes:
    size = len(data) - 1
    if size < 60:
        return bytes((size << 2,)) + data
    width = (size.bit_length() + 7) // 8
    return bytes(((59 + width) << 2,)) + size.to_bytes(width, "little") + data


def copy1(offset: int, length: int) -> bytes:
    return bytes(((offset >> 8) << 5 | (length - 4) << 2 | 1, offset & 0xFF))


def copy2(offset: int, length: int) -> bytes:
    return bytes(((length - 1) << 2 | 2,)) + offset.to_bytes(2, "little")


def copy4(offset: int, length: int) -> bytes:
    return bytes(((length - 1) << 2 | 3,)) + offset.to_bytes(4, "little")


def repeat(length: int) -> bytes:
    if length <= 8:
        return bytes(((length - 4) << 2 | 1, 0))
    if length < 8 + 256:
        return bytes((5 << 2 | 1, 0, length - 8))
    if length < 4 + 256 + 65536:
        return bytes((6 << 2 | 1, 0)) + (length - 4 - 256).to_bytes(2, "little")
    return bytes((7 << 2 | 1, 0)) + (length - 4 - 65536).to_bytes(3, "little")


def block(size: int, *elements: bytes) -> bytes:
    return uvarint(size) + b"".join(elements)


@pytest.mark.parametrize("size", [1, 59, 60, 61, 256, 257, 70_000])
def test_literals_of_any_length(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    assert unpack(block(size, literal(data)), 0, MAX_BLOCK) == data


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ((literal(b"abcdef"), copy1(6, 4)), b"abcdefabcd"),
        ((literal(b"abc"), copy1(1, 5)), b"abcccccc"),
        ((literal(b"ab"), copy2(2, 7)), b"ababababa"),
        ((literal(b"ab"), copy4(2, 64)), b"ab" * 33),
        ((literal(b"abcd"), copy1(4, 4), literal(b"-"), repeat(4)), b"abcdabcd-bcd-"),
        ((literal(b"xy"), copy2(2, 2), repeat(8)), b"xyxy" + b"xy" * 4),
        ((literal(b"xy"), copy2(2, 2), repeat(9)), b"xyxyxyxyxyxyx"),
        ((literal(b"z"), copy1(1, 4), repeat(263)), b"z" * 268),
        ((literal(b"z"), copy1(1, 4), repeat(264)), b"z" * 269),
        ((literal(b"z"), copy1(1, 4), repeat(65795)), b"z" * 65800),
        ((literal(b"z"), copy1(1, 4), repeat(65796)), b"z" * 65801),
    ],
)
def test_copies_and_repeats(elements: tuple[bytes, ...], expected: bytes) -> None:
    assert unpack(block(len(expected), *elements), 0, MAX_BLOCK) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\xff\xff\xff\xff\xff\x01",
        block(MAX_BLOCK + 1),
        block(5, literal(b"abcdef")),
        block(7, literal(b"abcdef")),
        block(9, literal(b"abc")[:-1]),
        block(4, b"\xf0"),
        block(4, b"\xfc\x01\x00\x00"),
        block(8, literal(b"abcd"), copy1(5, 4)),
        block(8, literal(b"abcd"), copy2(0, 4)),
        block(8, literal(b"abcd"), repeat(4)),
        block(7, literal(b"abcd"), copy1(4, 4)),
        block(8, literal(b"abcd"), copy1(4, 4)[:1]),
        block(8, literal(b"abcd"), copy2(4, 4)[:2]),
        block(8, literal(b"abcd"), copy4(4, 4)[:4]),
        block(8, literal(b"abcd"), copy4(0xFFFFFFFF, 4)),
        block(300, literal(b"z"), copy1(1, 4), repeat(263)[:-1]),
    ],
)
def test_what_is_no_block_is_refused(data: bytes) -> None:
    with pytest.raises(ArchiveError, match="s2: corrupt input"):
        unpack(data, 0, MAX_BLOCK)


def test_a_block_may_not_hold_more_than_it_is_allowed_to() -> None:
    data = block(10, literal(b"0123456789"))
    assert unpack(data, 0, 10) == b"0123456789"
    with pytest.raises(ArchiveError):
        unpack(data, 0, 9)


@given(st.binary(max_size=2000), st.integers(1, 60))
def test_what_snappy_packs_is_unpacked(data: bytes, times: int) -> None:
    data = data * times
    assert unpack(b"head" + bytes(snappy.compress_raw(data)), 4, MAX_BLOCK) == data


_ELEMENTS = st.one_of(
    st.binary(min_size=1, max_size=80).map(literal),
    st.builds(copy1, st.integers(1, 2047), st.integers(4, 11)),
    st.builds(copy2, st.integers(0, 200), st.integers(1, 64)),
    st.builds(copy4, st.integers(0, 200), st.integers(1, 64)),
    st.builds(repeat, st.integers(4, 300)),
    st.binary(max_size=3),
)


@settings(max_examples=300)
@given(st.integers(0, 500), st.lists(_ELEMENTS, max_size=12))
def test_anything_else_is_unpacked_or_refused(size: int, elements: list[bytes]) -> None:
    data = block(size, *elements)
    expected = naive(data)
    found = None
    with contextlib.suppress(ArchiveError):
        found = unpack(data, 0, MAX_BLOCK)
    assert found == expected


def naive(data: bytes) -> bytes | None:
    """Decode a byte at a time; return None for invalid data."""
    at = size = shift = 0
    while True:
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    out: list[int] = []
    offset = 0

    def take(count: int) -> int:
        nonlocal at
        if at + count > len(data):
            raise IndexError
        at += count
        return int.from_bytes(data[at - count : at], "little")

    try:
        while at < len(data):
            tag = take(1)
            if tag & 3 == 0:
                length = (tag >> 2) + 1
                if length > 60:
                    length = take(length - 60) + 1
                if at + length > len(data):
                    return None
                out += data[at : at + length]
                at += length
                continue
            if tag & 3 == 1:
                length = (tag >> 2 & 7) + 4
                given_offset = (tag >> 5) << 8 | take(1)
                if given_offset:
                    offset = given_offset
                elif length == 9:
                    length = take(1) + 8
                elif length == 10:
                    length = take(2) + 260
                elif length == 11:
                    length = take(3) + 65540
            else:
                length = (tag >> 2) + 1
                offset = take(2 if tag & 3 == 2 else 4)
            if not 0 < offset <= len(out) or len(out) + length > size:
                return None
            for _ in range(length):
                out.append(out[-offset])
    except IndexError:
        return None
    return bytes(out) if len(out) == size else None


@given(st.binary(max_size=2000), st.integers(1, 60), st.integers(1, 30))
def test_what_is_packed_is_unpacked(data: bytes, times: int, depth: int) -> None:
    data = data * times
    assert unpack(pack(data, depth), 0, MAX_BLOCK) == data


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"abcd", b"abcdefgh", b"\x00" * 70]), max_size=300),
    st.integers(1, 8),
)
def test_few_words_are_packed_and_unpacked(words: list[bytes], depth: int) -> None:
    data = b"".join(words)
    packed = pack(data, depth)
    assert naive(packed) == data
    assert len(packed) <= len(data) + len(data) // 6 + 32


@pytest.mark.parametrize("distance", [100, 3000, 70_000, 1_000_000])
def test_matches_at_any_distance(distance: int) -> None:
    words = os.urandom(500)
    data = words + os.urandom(distance) + words * 3
    packed = pack(data, 4)
    assert unpack(packed, 0, MAX_BLOCK) == data
    assert len(packed) < len(data) - 900


@pytest.mark.parametrize("size", [12, 64, 65, 200, 300, 65_000, 66_000, 1_000_000])
def test_matches_of_any_length(size: int) -> None:
    data = b"head" + b"\x07" * size + b"tail"
    packed = pack(data, 4)
    assert unpack(packed, 0, MAX_BLOCK) == data
    assert len(packed) < 40


def test_more_work_packs_better_than_snappy() -> None:
    text = b"".join(
        b'{"id":%d,"customer":"c%d","note":"hello world"}' % (each * 7919, each % 50) for each in range(3000)
    )
    fast, better, best = len(snappy.compress_raw(text)), len(pack(text, 4)), len(pack(text, 16))
    assert best <= better < fast
