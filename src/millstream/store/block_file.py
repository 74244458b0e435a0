"""A segment's file in compressed blocks, with the interface of an uncompressed file.

    file = open_segment_file(fs, path)      # plain or in blocks: offsets are those of the plain one
    file.read(offset, size)

The content of a damaged block reads as zeros, which are never a record.  The last block read is kept, so that
a pass over the file decompresses each block once; one block per open file is in memory, and ``tables`` bounds
the open files.

An overwrite writes the whole file again, which then replaces the old one: a block torn by a power loss would
lose records that nobody wanted to erase.  Then the block in the old file is overwritten too.  That happens in
another thread than reading; readers use either file.
"""

from __future__ import annotations

import bisect
import contextlib
import logging
from collections.abc import Sequence

from millstream.store.blocks import (
    BLOCK_SIZE,
    TRAILER_SIZE,
    Index,
    find_blocks,
    index_size,
    pack,
    pack_index,
    unpack,
    unpack_index,
)
from millstream.store.errors import StoreError
from millstream.store.fs import File, FileSystem
from millstream.store.segment import FILE_HEADER_SIZE, start_in_header

_log = logging.getLogger("millstream.store")

_NO_BLOCK = -1
_WRITTEN_AT_ONCE = 256 * 1024


class BlockWriter:
    """Writes the bytes of a plain file, given in order, in blocks to an empty file."""

    def __init__(self, file: File, block_size: int = BLOCK_SIZE) -> None:
        self._file = file
        self._block_size = block_size
        self._waiting = bytearray()  # less than a block
        self._start = 0  # where that stands
        self._place = 0  # where the next block goes
        self._lengths: list[int] = []
        self._out = bytearray()  # blocks on their way to the file

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self._waiting += data
        at = 0
        while len(self._waiting) - at >= self._block_size:
            self._pack(bytes(self._waiting[at : at + self._block_size]))
            at += self._block_size
        del self._waiting[:at]
        if len(self._out) >= _WRITTEN_AT_ONCE:
            self._file.append(bytes(self._out))
            self._out.clear()

    def finish(self) -> None:
        """Write the rest and sync."""
        if self._waiting:
            self._pack(bytes(self._waiting))
            self._waiting.clear()
        self._out += pack_index(self._start, self._block_size, self._lengths, self._place)
        self._file.append(bytes(self._out))
        self._file.sync()

    def _pack(self, data: bytes) -> None:
        block = pack(self._start, data, self._place)
        self._out += block
        self._start += len(data)
        self._place += len(block)
        self._lengths.append(len(block))


class _Blocks:
    """One file with its index; neither changes."""

    def __init__(self, file: File, index: Index) -> None:
        self.file = file
        self.index = index
        self.damaged: set[int] = set()  # numbers of blocks
        self._last: tuple[int, bytes] = (_NO_BLOCK, b"")

    def covering(self, offset: int, end: int) -> range:
        """Return the numbers of the blocks that overlap the range."""
        starts = self.index.starts
        return range(max(bisect.bisect_right(starts, offset) - 1, 0), bisect.bisect_left(starts, end))

    def read(self, offset: int, end: int) -> bytes:
        """Read the range, with zeros for missing bytes."""
        parts: list[bytes] = []
        at = offset
        for number in self.covering(offset, end):
            start, data = self.index.starts[number], self.block(number)
            if at < start:
                parts.append(bytes(start - at))
                at = start
            part = data[at - start : end - start]
            parts.append(part)
            at += len(part)
        if at < end:
            parts.append(bytes(end - at))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def kept(self) -> int:
        return len(self._last[1])

    def block(self, number: int) -> bytes:
        """Return the content of a block; empty if it is damaged."""
        last, data = self._last  # at once: another thread may be reading as well
        if number == last:
            return data
        place = self.index.places[number]
        found = unpack(self.file.read(place, self.index.lengths[number]), place)
        if found is None or found[0] != self.index.starts[number]:
            self.damaged.add(number)
            return b""
        self._last = (number, found[1])
        return found[1]


class BlockFile:
    """A file in blocks; see the module.  It does not grow."""

    def __init__(self, fs: FileSystem, path: str, file: File, index: Index) -> None:
        self.path = path
        self._fs = fs
        self._blocks = _Blocks(file, index)
        self._replaced: list[File] = []  # closed with this one, when nobody reads them any more
        self._reported: set[int] = set()

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size())
        if offset >= end:
            return b""
        while True:
            blocks = self._blocks
            data = blocks.read(offset, end)
            if blocks is self._blocks:  # otherwise it may have been overwritten under our hands
                self._report(blocks)
                return data

    def _report(self, blocks: _Blocks) -> None:
        for number in sorted(blocks.damaged - self._reported):
            self._reported.add(number)
            _log.error("%s: damaged block at %d", self.path, blocks.index.places[number])

    def size(self) -> int:
        return self._blocks.index.size

    def kept(self) -> int:
        """Return the bytes of decompressed content in memory."""
        return self._blocks.kept()

    def append(self, data: bytes | memoryview) -> None:
        raise StoreError("write", self.path, "it is compressed")

    def truncate(self, size: int) -> None:
        raise StoreError("truncate", self.path, "it is compressed")

    def sync(self) -> None:
        self._blocks.file.sync()

    def overwrite(self, offset: int, data: bytes, *, sync: bool = True) -> None:
        self.overwrite_all([(offset, data)])

    def overwrite_all(self, parts: Sequence[tuple[int, bytes]]) -> None:
        """Replace bytes in several places, durably."""
        old = self._blocks
        temporary = f"{self.path}.erase.new"  # not the name that a compaction may be writing to
        self._fs.remove(temporary)
        file = self._fs.open(temporary, create=True)
        try:
            self._write_anew(BlockWriter(file, old.index.block_size), old.index.block_size, parts)
            index = _read_index(file)
            self._fs.rename(temporary, self.path)
            self._fs.sync_folder(self.path.rpartition("/")[0])
        except StoreError:
            file.close()
            with contextlib.suppress(StoreError):
                self._fs.remove(temporary)
            raise
        assert index is not None
        self._blocks = _Blocks(file, index)
        self._reported.clear()
        self._replaced.append(old.file)
        with contextlib.suppress(StoreError):  # it has no name any more: this is for who reads the disk
            _scrub(old, parts)

    def _write_anew(self, writer: BlockWriter, step: int, parts: Sequence[tuple[int, bytes]]) -> None:
        changes: dict[int, list[tuple[int, bytes]]] = {}
        for offset, data in parts:
            for start in range(offset // step * step, offset + len(data), step):
                changes.setdefault(start, []).append((offset, data))
        for start in range(0, self.size(), step):
            piece = bytearray(self.read(start, step))
            for offset, data in changes.get(start, ()):
                _patch(piece, start, offset, data)
            writer.append(piece)
        writer.finish()

    def close(self) -> None:
        self._blocks.file.close()
        for file in self._replaced:
            file.close()


def _patch(piece: bytearray, start: int, offset: int, data: bytes) -> None:
    """Copy the part of `data`, which belongs at `offset`, that overlaps `piece`, which is at `start`."""
    first, end = max(offset, start), min(offset + len(data), start + len(piece))
    if first < end:
        piece[first - start : end - start] = data[first - offset : end - offset]


def _scrub(blocks: _Blocks, parts: Sequence[tuple[int, bytes]]) -> None:
    touched = {number for at, data in parts for number in blocks.covering(at, at + len(data))}
    for number in sorted(touched):
        blocks.file.overwrite(blocks.index.places[number], bytes(blocks.index.lengths[number]))


def _read_index(file: File) -> Index | None:
    """Return the index at the end of a file; None if it is damaged or the file has no blocks."""
    end = file.size()
    size = index_size(file.read(max(end - TRAILER_SIZE, 0), TRAILER_SIZE))
    if not TRAILER_SIZE <= size <= end:
        return None
    return unpack_index(file.read(end - size, size), end - size)


def open_segment_file(fs: FileSystem, path: str, opened: File | None = None) -> File:
    """Open the file of a segment, in blocks or not; `opened` is the file as such if it is open already."""
    file = fs.open(path, create=False) if opened is None else opened
    try:
        if start_in_header(file.read(0, FILE_HEADER_SIZE)) is not None:
            return file
        index = _read_index(file)
        if index is None:
            index = find_blocks(file.read(0, file.size()))
            if index is None:
                return file
            _log.error("%s: the index of the blocks is damaged; the blocks were found by a search", path)
        return BlockFile(fs, path, file, index)
    except StoreError:
        file.close()
        raise


def finished_file(fs: FileSystem, path: str, file: File) -> File:
    """Return the file that a BlockWriter wrote, which will be called `path`."""
    index = _read_index(file)
    if index is None:
        raise StoreError("compress", path, "what was written is not there")
    return BlockFile(fs, path, file, index)


def overwrite_all(file: File, parts: Sequence[tuple[int, bytes]]) -> None:
    """Replace bytes in several places, durably; a file in blocks is rewritten once."""
    if isinstance(file, BlockFile):
        file.overwrite_all(parts)
        return
    for offset, data in parts:
        file.overwrite(offset, data, sync=False)
    file.sync()
