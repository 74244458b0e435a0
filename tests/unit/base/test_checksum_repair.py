"""One changed byte is found by the checksum; several are not."""

from random import Random

import pytest

from millstream.base.checksum import crc32c
from millstream.base.checksum_repair import changed_byte


@pytest.mark.parametrize("seed", range(50))
def test_a_changed_byte_is_put_right(seed: int) -> None:
    random = Random(seed)
    data = random.randbytes(random.randint(1, 2_000))
    changed = bytearray(data)
    changed[random.randrange(len(data))] ^= random.randrange(1, 256)
    assert changed_byte(bytes(changed), crc32c(data)) == data


def test_what_is_sound_or_changed_more_than_once_is_left() -> None:
    data = Random(1).randbytes(500)
    assert changed_byte(data, crc32c(data)) is None
    assert changed_byte(data[:100] + bytes(50) + data[150:], crc32c(data)) is None
    assert changed_byte(b"", 1) is None
