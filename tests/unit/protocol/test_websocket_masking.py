"""Masking gives the same bytes in every build, and those that RFC 6455 defines."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import websocket_mask


def by_the_book(data: bytes, key: bytes, offset: int) -> bytes:
    return bytes(byte ^ key[(offset + position) % 4] for position, byte in enumerate(data))


@given(data=st.binary(max_size=200), key=st.binary(min_size=4, max_size=4), offset=st.integers(0, 1000))
def test_every_byte_meets_its_own_byte_of_the_key(data: bytes, key: bytes, offset: int) -> None:
    assert websocket_mask.unmask(data, key, offset) == by_the_book(data, key, offset)


def test_the_example_of_the_rfc_is_read() -> None:
    assert websocket_mask.unmask(bytes.fromhex("7f9f4d5158"), bytes.fromhex("37fa213d"), 0) == b"Hello"


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 15, 16, 17, 4096, 65537])
def test_masking_in_two_pieces_equals_masking_at_once(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    key = b"\x01\x80\xff\x10"
    for cut in {0, 1, 2, 3, 5, 8, size // 2, size} & set(range(size + 1)):
        pieces = websocket_mask.unmask(data[:cut], key, 0) + websocket_mask.unmask(data[cut:], key, cut)
        assert pieces == websocket_mask.unmask(data, key, 0) == by_the_book(data, key, 0)


def test_the_data_that_was_handed_in_is_not_changed() -> None:
    data = bytes(100)
    websocket_mask.unmask(data, b"abcd", 0)
    assert data == bytes(100)


@pytest.mark.parametrize("key", [b"", b"abc", b"abcde"])
def test_a_key_of_the_wrong_size_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="masking key has 4 bytes"):
        websocket_mask.unmask(b"data", key, 0)


@pytest.mark.parametrize("offset", range(5))
def test_all_sizes_around_a_machine_word_are_right(offset: int) -> None:
    data = bytes(range(256)) * 3
    for size in (*range(40), 255, 256, 767):
        expected = by_the_book(data[:size], b"\x01\x80\xff\x10", offset)
        assert websocket_mask.unmask(data[:size], b"\x01\x80\xff\x10", offset) == expected


@pytest.mark.skipif(websocket_mask.__file__.endswith(".py"), reason="interpreted, it takes what there is")
@pytest.mark.parametrize("wrong", [None, "text", bytearray(b"data")])
def test_what_is_not_bytes_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        websocket_mask.unmask(wrong, b"abcd", 0)
