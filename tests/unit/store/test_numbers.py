"""Packed numbers against lists."""

import bisect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.store.numbers import Numbers, pack_rising, unpack_rising

WIDTHS = {4: (1 << 32) - 1, 8: (1 << 64) - 1}


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_come_back(width: int) -> None:
    values = [0, 1, 255, 256, 65535, 65536, WIDTHS[width] - 1, WIDTHS[width]]
    numbers = Numbers(width)
    numbers.extend(values)
    assert numbers.to_list() == values
    assert numbers.count == len(values)
    assert numbers.peek() == b"".join(value.to_bytes(width, "little") for value in values)
    assert Numbers(width, numbers.peek()).to_list() == values


@pytest.mark.parametrize("width", WIDTHS)
def test_it_grows_far(width: int) -> None:
    numbers = Numbers(width)
    for value in range(10_000):
        numbers.push(value)
    assert numbers.at(9_999) == 9_999
    assert numbers.count == 10_000


@given(st.lists(st.integers(0, 300)).map(sorted), st.integers(0, 301), st.sampled_from([4, 8]))
def test_searching_agrees_with_bisect(values: list[int], wanted: int, width: int) -> None:
    numbers = Numbers(width)
    numbers.extend(values)
    assert numbers.first_not_below(wanted) == bisect.bisect_left(values, wanted)


@given(st.lists(st.integers(0, (1 << 64) - 1)).map(sorted), st.binary(max_size=3))
def test_rising_numbers_come_back_with_their_end(values: list[int], behind: bytes) -> None:
    packed = pack_rising(values)
    assert unpack_rising(b"ab" + packed + behind, 2, len(values)) == (values, 2 + len(packed))


def test_neighbours_take_one_byte_each() -> None:
    assert len(pack_rising(list(range(1_000_000, 1_000_100)))) == 102


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x01\x80", b"\xff" * 12])
def test_what_is_not_packed_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not packed"):
        unpack_rising(data, 0, 2)
