"""Numbers of any length are read, or refused, without an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.base.decimals import BEYOND, read_integer, read_whole, read_wrapped


@given(st.integers(0, 10**30))
def test_whole_numbers_are_read_up_to_twenty_digits(number: int) -> None:
    assert read_whole(str(number)) == read_whole(b"%d" % number) == min(number, BEYOND)
    assert read_wrapped(str(number)) == number % 2**64


@given(st.integers(-(10**30), 10**30))
def test_integers_have_a_sign(number: int) -> None:
    assert read_integer(str(number)) == max(min(number, BEYOND), -BEYOND)


@pytest.mark.parametrize("text", ["", "-", "+", " 1", "1 ", "1_0", "0x1", "²", "١", "1.0", "--1", "\udc80"])
def test_other_texts_are_no_numbers(text: str) -> None:
    assert read_integer(text) is None
    assert read_whole(text) is None


def test_a_million_digits_are_one_number_more() -> None:
    assert read_whole(b"9" * 1_000_000) == BEYOND
    assert read_integer("-" + "9" * 1_000_000) == -BEYOND
    assert read_integer("+" + "0" * 1_000_000 + "7") == 7
    assert read_wrapped("1" * 5000) == pow(10, 5000, 9 * 2**64) // 9 % 2**64
