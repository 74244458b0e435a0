"""Packed numbers against lists."""

import bisect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.numbers import Numbers, pack_rising, unpack_rising

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


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@given(steps=st.lists(st.integers(0, 255), max_size=50), first=st.integers(0, 1000))
def test_numbers_that_are_added_up_come_back(width: int, steps: list[int], first: int) -> None:
    data = b"??" + b"".join(step.to_bytes(width, "little") for step in steps)
    numbers = Numbers(4)
    numbers.push(7)
    numbers.push_sums(first, data, 2, width, len(steps))
    sums = [first + sum(steps[:index]) for index in range(len(steps))]
    assert numbers.to_list() == [7, *sums]
    numbers.push(9)
    assert numbers.at(len(steps) + 1) == 9


@pytest.mark.parametrize("width", [1, 2, 4])
@given(values=st.lists(st.integers(0, 127), min_size=1, max_size=50))
def test_the_lowest_bit_becomes_the_top_one(width: int, values: list[int]) -> None:
    top = 0x8000_0000
    data = b"".join(value.to_bytes(width, "little") for value in values)
    numbers = Numbers(4)
    numbers.push_shifted(data, 0, width, len(values), top)
    assert numbers.to_list() == [(value >> 1) | (top if value & 1 else 0) for value in values]
    same = Numbers(4)
    same.push_shifted(values[0].to_bytes(4, "little"), 0, 0, 3, top)
    assert same.to_list() == numbers.to_list()[:1] * 3


@pytest.mark.parametrize(("at", "width", "count"), [(0, 2, 3), (3, 2, 1), (-1, 2, 1), (0, 5, 0), (0, 2, -1)])
def test_numbers_that_are_not_there_are_not_read(at: int, width: int, count: int) -> None:
    with pytest.raises(ValueError, match="not so many"):
        Numbers(4).push_sums(0, b"1234", at, width, count)
    with pytest.raises(ValueError, match="not so many"):
        Numbers(4).push_shifted(b"1234", at, width, count, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",  # 2**64
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01",  # 2**64 - 1, and one more
        b"\x80" * 11,
    ],
)
def test_packed_numbers_beyond_64_bits_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="number"):
        unpack_rising(data, 0, 2)
