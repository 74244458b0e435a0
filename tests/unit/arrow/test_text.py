"""UTF-8, as strictly as Python has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.arrow.text import repaired, utf8


def is_what_python_says(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(st.binary(max_size=40))
def test_any_bytes_are_judged_as_python_does(data: bytes) -> None:
    assert utf8(data) == is_what_python_says(data)


@given(st.text(max_size=30), st.integers(0, 120), st.integers(0, 255))
def test_text_with_one_byte_changed_is_judged_as_python_does(text: str, at: int, byte: int) -> None:
    data = bytearray(text.encode())
    if data:
        data[at % len(data)] = byte
    assert utf8(bytes(data)) == is_what_python_says(bytes(data))


@pytest.mark.parametrize(
    "data",
    [
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xf5",
        b"\x80",
        b"\xe2\x82",
        b"12345678\xff",
        b"1234567\xc3",
    ],
)
def test_what_only_looks_like_it_is_refused(data: bytes) -> None:
    assert not utf8(data)
    assert utf8(repaired(data))
