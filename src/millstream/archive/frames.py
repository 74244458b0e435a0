"""Frames of S2 and Snappy, each a compressed block with the checksum of its content.

Archives and leaf links are streams of them.

    +---------+----------------+ - - - - - - - - - - - - - - - - - +
    | type u8 | length u24     | length bytes                      |     little-endian
    +---------+----------------+ - - - - - - - - - - - - - - - - - +

    0xff  "S2sTwO" or "sNaPpY": the format; a stream begins with one of them
    0x00  masked CRC-32C u32, S2 block (``s2``)
    0x01  masked CRC-32C u32, uncompressed bytes
    0xfe, 0x80 to 0xfd  padding, skipped

The reader accepts both formats.  Archives are written in Snappy frames of 64 KiB, which every reader accepts,
links in S2.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from cramjam import snappy

from millstream.archive.errors import ArchiveError, corrupt, unsupported, wrong_checksum
from millstream.archive.s2 import MAX_BLOCK, pack, unpack, unpack_damaged
from millstream.base.checksum import crc32c

START: Final = b"\xff\x06\x00\x00sNaPpY"
S2_START: Final = b"\xff\x06\x00\x00S2sTwO"
BLOCK_SIZE: Final = 64 * 1024  # the largest block of a Snappy frame
S2_BLOCK_SIZE: Final = 1024 * 1024  # the largest block that we, and nats-server, write in S2

_NAMES: Final = {b"S2sTwO": MAX_BLOCK, b"sNaPpY": BLOCK_SIZE}
_PACKED: Final = 0x00
_PLAIN: Final = 0x01
_NAME: Final = 0xFF
_SKIPPED_FROM: Final = 0x80
_HEAD: Final = 4
_CHECKSUM: Final = 4
_HOLE: Final = bytes(64)  # in place of content of unknown size; longer than the head of a record
_OVERHEAD: Final = 32 + _CHECKSUM  # of an incompressible block, besides a sixth of it


class PackLevel(IntEnum):
    """The work that goes into packing."""

    NONE = 0
    FAST = 1
    BETTER = 2
    BEST = 3


_DEPTHS: Final = {PackLevel.BETTER: 4, PackLevel.BEST: 16}  # earlier places that are looked at for each byte


def _mask(crc: int) -> int:
    """Mask a checksum as Snappy does, so that data that contains checksums is no special case."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data: bytes, level: PackLevel = PackLevel.FAST) -> bytes:
    """Return one frame with `data`, which must fit into a block."""
    packed, kind = data, _PLAIN
    if level is not PackLevel.NONE:
        depth = _DEPTHS.get(level)
        smaller = bytes(snappy.compress_raw(data)) if depth is None else pack(data, depth)
        if len(smaller) < len(data) - len(data) // 8:
            packed, kind = smaller, _PACKED
    length = len(packed) + _CHECKSUM
    head = bytes((kind,)) + length.to_bytes(3, "little")
    return head + _mask(crc32c(data)).to_bytes(_CHECKSUM, "little") + packed


def s2_frames(data: bytes, level: PackLevel) -> bytes:
    """Return the frames of `data` in a stream that began with `S2_START`."""
    if len(data) <= S2_BLOCK_SIZE:
        return frame(data, level)
    return b"".join(frame(data[at : at + S2_BLOCK_SIZE], level) for at in range(0, len(data), S2_BLOCK_SIZE))


class FrameReader:
    """Reads frames from bytes as they arrive and yields their content; an ArchiveError is final."""

    def __init__(self, limit: int = MAX_BLOCK) -> None:
        """Refuse blocks with a content of more than `limit` bytes."""
        self.limit = limit
        self._data = b""
        self._at = 0  # of the next frame
        self._more: list[bytes] = []  # arrived since; added when the next frame is complete
        self._missing = 0  # bytes until then
        self._most = 0  # limit of a block's content by its format; 0: no format seen yet

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of each complete frame; a few bytes may decompress to very many."""
        self.add(data)
        while (held := self.next()) is not None:
            if held:
                yield held

    def add(self, data: bytes) -> None:
        """Take bytes for ``next``."""
        if data:
            self._more.append(data)
            self._missing -= len(data)

    def next(self) -> bytes | None:
        """Return the content of the next frame, which may have none; None if it is incomplete."""
        if self._more and self._missing <= 0:
            self._data = b"".join((self._data[self._at :], *self._more))
            self._at = 0
            self._more.clear()
        if self._more:
            return None
        data, at = self._data, self._at
        left = len(data) - at
        if left < _HEAD:
            self._missing = _HEAD - left
            return None
        end = at + _HEAD + int.from_bytes(data[at + 1 : at + _HEAD], "little")
        self._check(data[at], end - at - _HEAD)
        if end > len(data):
            self._missing = end - len(data)
            return None
        self._at = end
        return self._open(data[at], data[at + _HEAD : end])

    def finish(self) -> None:
        """Raise ArchiveError if the bytes ended inside a frame."""
        if self._more or self._at < len(self._data):
            raise corrupt()

    def begin(self) -> None:
        """Read on in a stream whose beginning is elsewhere."""
        self._most = MAX_BLOCK

    def end_of_frame(self, data: bytes, at: int) -> int:
        """Return where the frame at `at` ends; raise ArchiveError if it is no frame or incomplete."""
        if len(data) - at < _HEAD:
            raise corrupt()
        end = at + _HEAD + int.from_bytes(data[at + 1 : at + _HEAD], "little")
        self._check(data[at], end - at - _HEAD)
        if end > len(data):
            raise corrupt()
        return end

    def content(self, data: bytes, at: int, end: int) -> bytes:
        """Return the content of a frame; raise ArchiveError if it is damaged."""
        return self._open(data[at], data[at + _HEAD : end])

    def _check(self, kind: int, length: int) -> None:
        """Check a frame's header before its bytes have arrived, so that invalid ones are not waited for."""
        if not self._most and kind != _NAME:
            raise corrupt()
        most = min(self._most, self.limit)
        if kind == _NAME:
            if length != 6:
                raise corrupt()
        elif length > most + most // 6 + _OVERHEAD:
            raise corrupt()
        elif kind in (_PACKED, _PLAIN):
            if length < _CHECKSUM:
                raise corrupt()
        elif kind < _SKIPPED_FROM:
            raise unsupported()

    def _open(self, kind: int, body: bytes) -> bytes:
        if kind == _NAME:
            most = _NAMES.get(body)
            if most is None:
                raise corrupt()
            self._most = most
            return b""
        if kind >= _SKIPPED_FROM:
            return b""
        most = min(self._most, self.limit)
        if kind == _PACKED:
            held = unpack(body, _CHECKSUM, most)
        else:
            held = body[_CHECKSUM:]
            if len(held) > most:
                raise corrupt()
        if _mask(crc32c(held)) != int.from_bytes(body[:_CHECKSUM], "little"):
            raise wrong_checksum()
        return held


def read_sound_frames(data: bytes, most: int) -> tuple[bytes, int]:
    """Return what can be read of an S2 stream, and how many bytes of it are damaged.

    The content of a damaged frame may be altered, with zeros in place of what is missing. A frame with a
    damaged length also costs what follows.  Raises ArchiveError for a content of more than `most` bytes.
    """
    reader = FrameReader()
    reader.begin()
    pieces: list[bytes] = []
    damaged = at = size = 0
    while at < len(data):
        try:
            end = reader.end_of_frame(data, at)
        except ArchiveError:
            pieces.append(_HOLE)
            damaged += len(data) - at
            break
        try:
            pieces.append(reader.content(data, at, end))
        except ArchiveError:
            pieces.append(_damaged_content(data[at], data[at + _HEAD : end]))
            damaged += end - at
        at = end
        size += len(pieces[-1])
        if size > most:
            raise ArchiveError(f"its content is larger than {most} bytes")
    return b"".join(pieces), damaged


def _damaged_content(kind: int, body: bytes) -> bytes:
    if kind == _PLAIN:
        return body[_CHECKSUM:]
    try:
        return unpack_damaged(body, _CHECKSUM, MAX_BLOCK) if kind == _PACKED else _HOLE
    except ArchiveError:
        return _HOLE


def read_frames(data: bytes) -> bytes:
    """Return the content of a complete archive."""
    reader = FrameReader()
    found = b"".join(reader.feed(data))
    reader.finish()
    return found


__all__ = [
    "BLOCK_SIZE",
    "S2_BLOCK_SIZE",
    "S2_START",
    "START",
    "ArchiveError",
    "FrameReader",
    "PackLevel",
    "frame",
    "read_frames",
    "read_sound_frames",
    "s2_frames",
]
