"""The format of a file in compressed blocks.

    +-------+-------+-- … --+-------+-------+
    | block | block |       | block | index |
    +-------+-------+-- … --+-------+-------+

Every block names the part of the uncompressed file that it contains, and has a checksum.  So the index only
saves time: if it is damaged, the blocks are searched, and a damaged block loses only its own content.
``docs/formats/log.md`` describes the bytes.

Not here: reading and writing such files (``block_file``), and when that is done (``compression``).
"""

from __future__ import annotations

import struct

import msgspec

from millstream.base.checksum import crc32c

# Small enough to read one record without unpacking much, and to lose little with a damaged block; larger
# ones are not packed noticeably better.
BLOCK_SIZE = 16 * 1024

_BLOCK_MAGIC = b"MSZ\x01"
_INDEX_MAGIC = b"MSX\x01"
_BLOCK = struct.Struct("<4sIIII")  # magic, crc, start, raw size, stored size
_TRAILER = struct.Struct("<QIII4s")  # raw size, block size, index size, crc, magic
BLOCK_HEADER_SIZE = _BLOCK.size
TRAILER_SIZE = _TRAILER.size
_CHECKED_FROM = 8  # of a block: what the checksum covers begins here


class Index(msgspec.Struct):
    """The positions of blocks, in the order of their content."""

    size: int = 0  # of the uncompressed file
    block_size: int = BLOCK_SIZE  # what each block holds, but for the last
    starts: list[int] = []  # place in the uncompressed file
    places: list[int] = []  # place in this file
    lengths: list[int] = []  # in this file, with the header


def pack(start: int, data: bytes, place: int) -> bytes:
    """Return a block with `data` from offset `start`, to be written at `place`."""
    from cramjam import lz4  # here: streams without compression do without it

    stored = bytes(lz4.compress_block(data, store_size=False))
    if len(stored) >= len(data):
        stored = data  # as it is: that can be told by its size
    rest = struct.pack("<III", start, len(data), len(stored)) + stored
    return _BLOCK_MAGIC + _checksum(rest, place).to_bytes(4, "little") + rest


def unpack(data: bytes, place: int) -> tuple[int, bytes] | None:
    """Return offset and content of the block at the start of `data`; None if it is invalid."""
    found = _sound(data, 0, place)
    if found is None:
        return None
    start, raw_size, stored_size = found
    stored = data[BLOCK_HEADER_SIZE : BLOCK_HEADER_SIZE + stored_size]
    if stored_size == raw_size:
        return start, stored
    from cramjam import DecompressionError, lz4

    try:
        raw = bytes(lz4.decompress_block(stored, output_len=raw_size))
    except DecompressionError:
        return None
    return (start, raw) if len(raw) == raw_size else None


def _sound(data: bytes, at: int, place: int) -> tuple[int, int, int] | None:
    """Return start, raw size and stored size of the block at `at`, or None if it is invalid for `place`."""
    if len(data) - at < BLOCK_HEADER_SIZE:
        return None
    magic, crc, start, raw_size, stored_size = _BLOCK.unpack_from(data, at)
    end = at + BLOCK_HEADER_SIZE + stored_size
    if magic != _BLOCK_MAGIC or end > len(data) or not stored_size <= raw_size <= BLOCK_SIZE:
        return None  # before anything is added up: there may be many places that look like a block
    if start > place // BLOCK_HEADER_SIZE * BLOCK_SIZE:
        return None  # blocks lie in order, so no more can stand before it; what is missing is read as zeros
    if crc != _checksum(data[at + _CHECKED_FROM : end], place):
        return None
    return start, raw_size, stored_size


def _checksum(data: bytes, place: int) -> int:
    """Return a checksum that includes the place, so that a copy of a block in a payload is not valid."""
    return crc32c(data) ^ (place & 0xFFFFFFFF)


def pack_index(size: int, block_size: int, lengths: list[int], place: int) -> bytes:
    body = struct.pack(f"<{len(lengths)}I", *lengths)
    total = len(body) + TRAILER_SIZE
    sizes = struct.pack("<QII", size, block_size, total)
    return body + sizes + struct.pack("<I4s", _checksum(body + sizes, place), _INDEX_MAGIC)


def index_size(trailer: bytes) -> int:
    """Return the size of the index that ends with `trailer`; 0 if it is invalid."""
    if len(trailer) != TRAILER_SIZE:
        return 0
    _, _, total, _, magic = _TRAILER.unpack(trailer)
    return int(total) if magic == _INDEX_MAGIC and total >= TRAILER_SIZE else 0


def unpack_index(data: bytes, place: int) -> Index | None:
    """Decode an index; return None if it is invalid."""
    size, block_size, _, crc, _ = _TRAILER.unpack(data[-TRAILER_SIZE:])
    body = data[:-TRAILER_SIZE]
    if crc != _checksum(data[:-8], place) or len(body) % 4 or not 0 < block_size <= BLOCK_SIZE:
        return None
    lengths = list(struct.unpack(f"<{len(body) // 4}I", body))
    if len(lengths) != (size + block_size - 1) // block_size or sum(lengths) != place:
        return None
    if any(length <= BLOCK_HEADER_SIZE for length in lengths):
        return None
    index = Index(size, block_size, list(range(0, size, block_size)), [], lengths)
    at = 0
    for length in lengths:
        index.places.append(at)
        at += length
    return index


def find_blocks(data: bytes) -> Index | None:
    """Find the valid blocks in a file without an index; return None if there is none."""
    found: dict[int, tuple[int, int, int]] = {}
    at = data.find(_BLOCK_MAGIC)
    while at >= 0:
        sound = _sound(data, at, at)
        if sound is None:
            at = data.find(_BLOCK_MAGIC, at + 1)
            continue
        start, raw_size, stored_size = sound
        length = BLOCK_HEADER_SIZE + stored_size
        found.setdefault(start, (at, length, start + raw_size))
        at = data.find(_BLOCK_MAGIC, at + length)
    if not found:
        return None
    index = Index(max(end for _, _, end in found.values()))
    for start in sorted(found):
        place, length, _ = found[start]
        index.starts.append(start)
        index.places.append(place)
        index.lengths.append(length)
    return index
