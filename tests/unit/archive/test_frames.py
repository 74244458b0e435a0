"""Frames around archives."""

import contextlib

import pytest
from cramjam import snappy
from hypothesis import given
from hypothesis import strategies as st

from millstream.archive.errors import ArchiveError
from millstream.archive.frames import (
    S2_BLOCK_SIZE,
    S2_START,
    START,
    FrameReader,
    PackLevel,
    frame,
    read_frames,
    s2_frames,
)
from tests.kits.jetstream.archive import pack


@given(st.binary(max_size=3000), st.integers(1, 50))
def test_what_is_framed_can_be_read(data: bytes, times: int) -> None:
    assert read_frames(pack(data * times)) == data * times


def test_others_can_read_our_frames() -> None:
    data = b"some words that repeat, some words that repeat " * 5000
    assert bytes(snappy.decompress(pack(data))) == data


def test_we_can_read_the_frames_of_others() -> None:
    data = b"some words that repeat, some words that repeat " * 5000
    assert read_frames(bytes(snappy.compress(data))) == data


def test_bytes_that_cannot_be_packed_are_framed_as_they_are() -> None:
    data = bytes(range(256))
    assert frame(data)[0] == 1
    assert read_frames(START + frame(data)) == data


@pytest.mark.parametrize("step", [1, 3, 100, 70_000])
def test_frames_survive_any_boundary(step: int) -> None:
    data = bytes(range(256)) * 600
    wire = pack(data)
    reader = FrameReader()
    found = b"".join(piece for at in range(0, len(wire), step) for piece in reader.feed(wire[at : at + step]))
    reader.finish()
    assert found == data


def test_names_may_repeat_and_other_frames_are_stepped_over() -> None:
    data = START + frame(b"one") + b"\x99\x02\x00\x00??" + S2_START + b"\xfe\x01\x00\x00\x00" + frame(b"two")
    assert read_frames(data) == b"onetwo"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"hello", "corrupt input"),
        (frame(b"no name"), "corrupt input"),
        (b"\xff\x06\x00\x00sNaPpX", "corrupt input"),
        (b"\xff\x05\x00\x00sNaPp", "corrupt input"),
        (START + b"\x00\x03\x00\x00abc", "corrupt input"),
        (START + b"\x01\xff\xff\xff", "corrupt input"),
        (START + b"\x02\x01\x00\x00a", "unsupported input"),
        (START + frame(b"abc")[:-1], "corrupt input"),
        (START + frame(b"abc") + b"\x00", "corrupt input"),
        (START + b"\x01\x07\x00\x00\x00\x00\x00\x00abc", "crc mismatch"),
        (START + b"\x01\x05\x00\x01" + bytes(4) + bytes(0x10001), "corrupt input"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(ArchiveError, match=complaint):
        read_frames(data)


def test_a_bit_anywhere_makes_it_unsound() -> None:
    data = bytearray(pack(b"the same words, the same words, the same words, and others"))
    whole = read_frames(bytes(data))
    for at in range(len(data)):
        for bit in range(8):
            data[at] ^= 1 << bit
            with contextlib.suppress(ArchiveError):
                assert read_frames(bytes(data)) == b""  # a frame that is stepped over
            data[at] ^= 1 << bit
    assert read_frames(bytes(data)) == whole


@pytest.mark.parametrize("level", PackLevel)
@pytest.mark.parametrize("size", [0, 1, 100, S2_BLOCK_SIZE, S2_BLOCK_SIZE + 1, 3 * S2_BLOCK_SIZE])
def test_s2_at_every_level(level: PackLevel, size: int) -> None:
    data = (b"some words that repeat, %d " * (size // 20 + 1))[:size]
    assert read_frames(S2_START + s2_frames(data, level)) == data


def test_a_reader_refuses_larger_blocks_than_it_is_told_to() -> None:
    reader = FrameReader(100)
    assert list(reader.feed(S2_START + s2_frames(b"x" * 100, PackLevel.FAST))) == [b"x" * 100]
    with pytest.raises(ArchiveError):
        list(reader.feed(s2_frames(b"x" * 101, PackLevel.FAST)))


def test_frames_are_unpacked_one_by_one() -> None:
    reader = FrameReader()
    reader.add(S2_START + frame(b"one") + b"\xfe\x00\x00\x00" + frame(b"two")[:-1])
    assert [reader.next() for _ in range(5)] == [b"", b"one", b"", None, None]
    reader.add(frame(b"two")[-1:])
    assert reader.next() == b"two"
