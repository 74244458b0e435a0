"""The message blocks of older archives: consecutive records of nats-server's file store.

    +------------+---------+---------+----------+---------+------------------+------+---------+
    | length u32 | seq u64 | ts  i64 | slen u16 | subject | [hlen u32, hdrs] | body | hash u64|
    +------------+---------+---------+----------+---------+------------------+------+---------+
      top bit: headers  top bit: erased; next: tombstone                         HighwayHash-64

The hash covers sequence, time, subject, headers and body; its key is the SHA-256 of "<stream>-<block>".  A
tombstone marks a deleted message in this block or an earlier one.

Compiled.  One invalid record makes the whole archive invalid.  Not here: what becomes of the messages.
"""

import hashlib

from millstream.archive.errors import ArchiveError
from millstream.archive.highway import HighwayHash
from millstream.base.buffer import read_little

_HEADER_SIZE = 22
_HASH_SIZE = 8
_HEADERS = 1 << 31
_ERASED = 1 << 63
_TOMBSTONE = 1 << 62


class BlockReader:
    """Reads blocks in order; ``next`` steps to a record, whose parts are in `buf`."""

    def __init__(self, stream: str) -> None:
        self.highest = 0  # the highest sequence used
        self.highest_timestamp = 0  # its timestamp
        self.buf = b""
        self.seq = 0
        self.timestamp = 0
        self.erased = False
        self.tombstone = False  # the record says that the message `seq` was deleted
        self.subject_start = 0
        self.subject_size = 0
        self.header_size = 0
        self.body_start = 0  # start of headers and body
        self.body_size = 0  # bytes of headers and body
        self._stream = stream
        self._number = 0
        self._at = 0
        self._hasher = HighwayHash(bytes(32))

    def begin(self, number: int, data: bytes) -> None:
        """Set the block that ``next`` reads, and its number."""
        self.buf = data
        self._number = number
        self._at = 0
        self._hasher = HighwayHash(hashlib.sha256(f"{self._stream}-{number}".encode()).digest())

    def next(self) -> bool:
        """Step to the next record; return False at the end of the block; raise ArchiveError."""
        p = self.buf
        at = self._at
        end = len(self.buf)
        if at >= end:
            return False
        if end - at < _HEADER_SIZE + _HASH_SIZE:
            raise _bad(self._number, "message overrun")
        first = read_little(p, at, 4)
        size = first & (_HEADERS - 1)
        subject_size = p[at + 20] | (p[at + 21] << 8)
        body = at + _HEADER_SIZE + subject_size
        extra = 4 if first & _HEADERS else 0
        if size > end - at or size < _HEADER_SIZE + _HASH_SIZE + subject_size + extra:
            raise _bad(self._number, "sanity check failed")
        finish = at + size - _HASH_SIZE
        header_size = 0
        if extra:
            header_size = read_little(p, body, 4)
            body += 4
            if header_size > finish - body:
                raise _bad(self._number, "sanity check failed")
        self._check_hash(at, subject_size, body, finish)
        seq = read_little(p, at + 4, 8)
        self.erased = (seq & _ERASED) != 0
        self.tombstone = (seq & _TOMBSTONE) != 0
        self.seq = seq & ~(_ERASED | _TOMBSTONE)
        self.timestamp = _signed(read_little(p, at + 12, 8))
        self.subject_start = at + _HEADER_SIZE
        self.subject_size = subject_size
        self.header_size = header_size
        self.body_start = body
        self.body_size = finish - body
        self._at = at + size
        if self.seq >= self.highest:  # an erased message has no time, but its tombstone has
            self.highest = self.seq
            self.highest_timestamp = max(self.timestamp, self.highest_timestamp)
        return True

    def subject(self) -> bytes:
        return self.buf[self.subject_start : self.subject_start + self.subject_size]

    def _check_hash(self, at: int, subject_size: int, body: int, finish: int) -> None:
        hasher = self._hasher
        hasher.begin()
        hasher.add(self.buf, at + 4, at + 20)
        hasher.add(self.buf, at + _HEADER_SIZE, at + _HEADER_SIZE + subject_size)
        hasher.add(self.buf, body, finish)
        if hasher.end() != read_little(self.buf, finish, 8):
            raise _bad(self._number, "invalid checksum")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _bad(number: int, why: str) -> ArchiveError:
    return ArchiveError(f"malformed or corrupt message in block {number}: {why}")
