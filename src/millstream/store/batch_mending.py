"""Mend a batch of the commit journal with one damaged byte, as its checksum proves.

After a power loss, the journal may have the only copy of what was acknowledged.  A batch whose write did not
finish is told by its zeros: at least one of its sectors was never written.
"""

from __future__ import annotations

import struct
from typing import Final

from millstream.base.checksum import crc32c
from millstream.base.checksum_repair import changed_byte
from millstream.store.fill import has_lost_sector
from millstream.store.journal_batch import CHECKED, ENTRY_SIZE, HEADER_SIZE

_CRC: Final = slice(CHECKED - 4, CHECKED)
_SIZE: Final = slice(CHECKED, CHECKED + 4)
_COUNT: Final = slice(CHECKED + 4, CHECKED + 8)
_KEY_SIZE: Final = struct.Struct("<H")
_BODY_SIZE: Final = struct.Struct("<I")


def may_be_damaged(data: bytes, at: int, mark: bytes) -> bool:
    """Return True if a batch begins at `at`, with one wrong byte in its mark at most."""
    found = data[at : at + len(mark)]
    return len(data) - at >= HEADER_SIZE and sum(one != two for one, two in zip(found, mark, strict=True)) < 2


def mended_batch(data: bytes, at: int, mark: bytes) -> bytes | None:
    """Return the batch at `at` without the damage; None if its write did not finish, or nothing proves it.

    Raises ValueError if it was written to its end and cannot be mended.
    """
    size = int.from_bytes(data[at:][_SIZE], "little")
    end = _end_of(data, at)
    for batch in (data[at : at + size], _with_size(data[at:end])):
        if len(batch) > HEADER_SIZE and _damaged_bytes(batch) < 2:
            return mark + crc32c(batch[CHECKED:]).to_bytes(4, "little") + batch[CHECKED:]
    if not HEADER_SIZE < size <= len(data) - at or has_lost_sector(data, at, at + size):
        return None
    batch = data[at : at + size]
    found = changed_byte(batch[CHECKED:], int.from_bytes(batch[_CRC], "little"))
    if found is None:
        raise ValueError
    return mark + batch[_CRC] + found


def _damaged_bytes(batch: bytes) -> int:
    """Return how many bytes of the checksum are not what the rest proves."""
    proof = crc32c(batch[CHECKED:]).to_bytes(4, "little")
    return sum(one != two for one, two in zip(proof, batch[_CRC], strict=True))


def _with_size(batch: bytes) -> bytes:
    return batch[:CHECKED] + len(batch).to_bytes(4, "little") + batch[CHECKED + 4 :]


def _end_of(data: bytes, at: int) -> int:
    """Return the end of a batch as its entries tell it; `at` if they make no sense."""
    end = at + HEADER_SIZE
    for _ in range(int.from_bytes(data[at:][_COUNT], "little")):
        if end + ENTRY_SIZE > len(data):
            return at
        (key_size,) = _KEY_SIZE.unpack_from(data, end)
        (size,) = _BODY_SIZE.unpack_from(data, end + ENTRY_SIZE - 4)
        end += ENTRY_SIZE + key_size + size
    return end if end <= len(data) else at
