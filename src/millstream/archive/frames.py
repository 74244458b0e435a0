"""The outer layer of an archive: frames, each a compressed block with the checksum of its content.

    +---------+----------------+ - - - - - - - - - - - - - - - - - +
    | type u8 | length u24     | length bytes                      |     little-endian
    +---------+----------------+ - - - - - - - - - - - - - - - - - +

    0xff  "S2sTwO" or "sNaPpY": the format; an archive begins with one of them
    0x00  masked CRC-32C u32, S2 block (``s2``)
    0x01  masked CRC-32C u32, uncompressed bytes
    0xfe, 0x80 to 0xfd  padding, skipped

The reader accepts both formats.  The writer produces Snappy frames of 64 KiB, which every S2 reader accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cramjam import snappy

from millstream.archive.errors import ArchiveError, corrupt, unsupported, wrong_checksum
from millstream.archive.s2 import MAX_BLOCK, unpack
from millstream.base.checksum import crc32c

START: Final = b"\xff\x06\x00\x00sNaPpY"
BLOCK_SIZE: Final = 64 * 1024  # the largest block of a Snappy frame

_NAMES: Final = {b"S2sTwO": MAX_BLOCK, b"sNaPpY": BLOCK_SIZE}
_PACKED: Final = 0x00
_PLAIN: Final = 0x01
_NAME: Final = 0xFF
_SKIPPED_FROM: Final = 0x80
_HEAD: Final = 4
_CHECKSUM: Final = 4
_LARGEST: Final = MAX_BLOCK + MAX_BLOCK // 6 + 32 + _CHECKSUM  # an incompressible block has overhead


def _mask(crc: int) -> int:
    """Mask a checksum as Snappy does, so that data that contains checksums is no special case."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """Return one frame with `data`, which must fit into a block."""
    packed = bytes(snappy.compress_raw(data))
    kind = _PACKED
    if len(packed) >= len(data) - len(data) // 8:
        packed, kind = data, _PLAIN
    length = len(packed) + _CHECKSUM
    head = bytes((kind,)) + length.to_bytes(3, "little")
    return head + _mask(crc32c(data)).to_bytes(_CHECKSUM, "little") + packed


class FrameReader:
    """Reads frames from bytes as they arrive and yields their content; an ArchiveError is final."""

    def __init__(self, most: int = 0) -> None:
        self._waiting = b""  # an incomplete frame
        self._most = most  # limit of a block's content; 0: no format seen yet

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of each complete frame; a few bytes may decompress to very many."""
        data = self._waiting + data if self._waiting else data
        self._waiting = b""
        at = 0
        while len(data) - at >= _HEAD:
            kind = data[at]
            end = at + _HEAD + int.from_bytes(data[at + 1 : at + _HEAD], "little")
            self._check(kind, end - at - _HEAD)
            if end > len(data):
                break
            held = self._open(kind, data[at + _HEAD : end])
            if held:
                yield held
            at = end
        self._waiting = data[at:]

    def finish(self) -> None:
        """Raise ArchiveError if the bytes ended inside a frame."""
        if self._waiting:
            raise corrupt()

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
        if kind == _NAME:
            if length != 6:
                raise corrupt()
        elif kind in (_PACKED, _PLAIN):
            if not _CHECKSUM <= length <= _LARGEST:
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
        if kind == _PACKED:
            held = unpack(body, _CHECKSUM, self._most)
        else:
            held = body[_CHECKSUM:]
            if len(held) > self._most:
                raise corrupt()
        if _mask(crc32c(held)) != int.from_bytes(body[:_CHECKSUM], "little"):
            raise wrong_checksum()
        return held


def read_sound_frames(data: bytes) -> tuple[bytes, int]:
    """Return the content of the intact frames of an S2 stream, and how many bytes of it were not used.

    A damaged frame costs its own content; one whose length is damaged also costs what follows.
    """
    reader = FrameReader(MAX_BLOCK)
    pieces: list[bytes] = []
    unused = at = 0
    while at < len(data):
        try:
            end = reader.end_of_frame(data, at)
        except ArchiveError:
            return b"".join(pieces), unused + len(data) - at
        try:
            pieces.append(reader.content(data, at, end))
        except ArchiveError:
            unused += end - at
        at = end
    return b"".join(pieces), unused


def read_frames(data: bytes) -> bytes:
    """Return the content of a complete archive."""
    reader = FrameReader()
    found = b"".join(reader.feed(data))
    reader.finish()
    return found


__all__ = ["BLOCK_SIZE", "START", "ArchiveError", "FrameReader", "frame", "read_frames", "read_sound_frames"]
