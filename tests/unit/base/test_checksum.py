"""CRC-32C against published values, and bit by bit."""

import random
from pathlib import Path

import pytest

from millstream.base.build import COMPILED_FOR_X86, pure_requested
from millstream.base.checksum import crc32c, crc_by_tables


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),  # the check value of the catalogue of CRCs
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def bit_by_bit(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_every_length_agrees_with_the_definition() -> None:
    source = random.Random(1).randbytes(64)
    for start in range(9):
        for size in range(40):
            data = source[start : start + size]
            assert crc32c(data) == crc_by_tables(data) == bit_by_bit(data)


@pytest.mark.skipif(not COMPILED_FOR_X86, reason="another architecture")
def test_the_instruction_is_used_where_the_system_says_that_there_is_one() -> None:
    from millstream.base import checksum_x86

    description = Path("/proc/cpuinfo")
    if not description.exists():
        pytest.skip("this system describes its processor elsewhere")
    there = " sse4_2 " in description.read_text()
    assert bool(checksum_x86.address()) is checksum_x86.has_instruction() is (there and not pure_requested())
