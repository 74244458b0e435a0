"""The state of a stream beside nats-server's blocks (`msgs/index.db`): which messages of them are deleted.

    magic 11, version 1 to 4, then numbers (u: uvarint, s: zigzag varint)
    messages u, bytes u, first seq u, first time s, last seq u, last time s
    subjects u, and for each: length u, subject, total u, first block u [, last block u]
    blocks u, and for each:
        number u, bytes u, first seq u, first time s, last seq u, last time s, deleted u
        [, TTLs u: version 2] [, schedules u: version 3] [, deleted sequences, if there are any]
    number of the last block u, last eight bytes of its file, HighwayHash-64 of everything before

Before version 4, a subject with one message has no last block.  Deleted sequences are the nodes of a tree:

    magic 22, version 1 or 2, nodes u32, sequences u32, and for each node:
    base u64, 64 or 32 words of 64 bits, one bit for each sequence from the base on, height u16

The server writes the file when it stops and from time to time.  It describes the blocks only if its last
eight bytes are those of the last block; otherwise the records of the blocks have to be read instead.
Compiled, because there may be millions of subjects and deleted sequences.
"""

import hashlib

from millstream.archive.errors import ArchiveError
from millstream.archive.highway import HighwayHash
from millstream.base.buffer import read_little

HASH_SIZE = 8

_MAGIC = 11
_NEWEST = 4
_SHORTEST = 24
_SET_MAGIC = 22
_SET_HEAD = 10
_MASK = 0xFFFF_FFFF_FFFF_FFFF


class DeletedSequences:
    """The sequences of one block whose messages are deleted: a tree's nodes, which may be in any order."""

    def __init__(self, first: int, last: int, data: bytes) -> None:
        self.first = first  # lower ones are deleted
        self.last = last  # higher ones too
        self._data = data
        self._words = 64 if len(data) > 1 and data[1] == 1 else 32
        self._nodes: dict[int, int] = {}  # by base: where the bits are
        self._span = 64 * self._words
        at = _SET_HEAD
        step = 8 * (self._words + 1) + 2
        while at + step <= len(data):
            self._nodes[read_little(data, at, 8)] = at + 8
            at += step
        self._base = 0  # of the node used last; 0 and no bits: none
        self._bits = 0

    def has(self, seq: int) -> bool:
        """Return True if the message is deleted."""
        if seq < self.first or seq > self.last:
            return True
        base = seq // self._span * self._span
        if base != self._base or self._bits == 0:
            self._base = base
            self._bits = self._nodes.get(base, -1)
        if self._bits < 0:
            return False
        bit = seq - base
        word = read_little(self._data, self._bits + 8 * (bit // 64), 8)
        return (word >> (bit % 64)) & 1 != 0


class IndexedBlock:
    """One block, as the index describes it."""

    def __init__(self, number: int, messages: int, deleted: DeletedSequences) -> None:
        self.number = number
        self.messages = messages
        self.deleted = deleted


class StreamIndex:
    """The decoded file; raises ArchiveError if it is not one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2
        if len(data) < _SHORTEST or data[0] != _MAGIC or not 1 <= data[1] <= _NEWEST:
            raise _corrupt()
        version = data[1]
        self.messages = self._number()
        self._number()
        self.first_seq = self._number()
        self.first_time = self._signed()
        self.last_seq = self._number()
        self.last_time = self._signed()  # ns since 1970; 0: no message yet
        self._skip_subjects(version)
        self.blocks = [self._block(version) for _ in range(self._count())]
        self.last_block = self._number()
        self.last_checksum = self._take(HASH_SIZE)

    def _count(self) -> int:
        """Return a number of entries, each of which takes a byte at least."""
        count = self._number()
        if count > len(self._data) - self._at:
            raise _corrupt()
        return count

    def _skip_subjects(self, version: int) -> None:
        left = self._count()
        while left > 0:
            left -= 1
            size = self._number()
            if size == 0:
                continue
            if size > len(self._data) - self._at:
                raise _corrupt()
            self._at += size
            total = self._number()
            self._number()
            if total > 1 or version >= 4:
                self._number()

    def _block(self, version: int) -> IndexedBlock:
        number = self._number()
        self._number()
        first = self._number()
        self._signed()
        last = self._number()
        self._signed()
        deleted = self._number()
        for _ in range(min(version, 3) - 1):
            self._number()
        data = self._set() if deleted else b""
        used = last - first + 1 if last >= first else 0
        return IndexedBlock(number, max(used - deleted, 0), DeletedSequences(first, last, data))

    def _set(self) -> bytes:
        head = self._data[self._at : self._at + _SET_HEAD]
        if len(head) < _SET_HEAD or head[0] != _SET_MAGIC or head[1] not in (1, 2):
            raise _corrupt()
        words = 64 if head[1] == 1 else 32
        nodes = read_little(head, 2, 4)
        return self._take(_SET_HEAD + nodes * (8 * (words + 1) + 2))

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise _corrupt()
        start = self._at
        self._at += size
        return self._data[start : self._at]

    def _number(self) -> int:
        data = self._data
        value = 0
        shift = 0
        while self._at < len(data) and shift < 64:
            byte = data[self._at]
            self._at += 1
            if shift == 63 and byte > 1:
                break
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise _corrupt()

    def _signed(self) -> int:
        value = self._number()
        half = value >> 1
        if value & 1:
            return -half - 1
        return half


def sound_content(stream: str, data: bytes) -> bytes:
    """Return the content of an index file without its hash, still encrypted; raise ArchiveError."""
    body = data[:-HASH_SIZE]
    if HighwayHash(hashlib.sha256(stream.encode()).digest()).sum(body) != data[-HASH_SIZE:]:
        raise _corrupt()
    return body


def _corrupt() -> ArchiveError:
    return ArchiveError("corrupt state file")
