"""The message blocks of nats-server's file store, in older archives and in its folders: consecutive records.

    +------------+---------+---------+----------+---------+------------------+------+---------+
    | length u32 | seq u64 | ts  i64 | slen u16 | subject | [hlen u32, hdrs] | body | hash u64|
    +------------+---------+---------+----------+---------+------------------+------+---------+
      top bit: headers  top bit: erased; next: tombstone                         HighwayHash-64

The hash covers sequence, time, subject, headers and body; its key is the SHA-256 of "<stream>-<block>".  A
tombstone marks a deleted message in this block or an earlier one.

Compiled.  ``next`` raises at an invalid record, which makes a whole archive invalid.  A reader that wants the
other records of the block calls ``skip_damage`` and continues.  The search for the next valid record hashes
whatever could be one.  Bodies that consist of possible records could make that quadratic, so a block has a
limit; what follows is left out with the damage.  Not here: what becomes of the messages.
"""

import hashlib

from millstream.archive.errors import DamagedRecord
from millstream.archive.highway import HighwayHash
from millstream.base.buffer import read_little

_HEADER_SIZE = 22
_HASH_SIZE = 8
_HEADERS = 1 << 31
_ERASED = 1 << 63
_TOMBSTONE = 1 << 62
_PROBLEMS = ("", "message overrun", "sanity check failed", "invalid checksum")
_OVERRUN = -1  # negative indexes of the problems
_INSANE = -2
_WRONG_HASH = -3
_MOST_TIMES = 64  # that the bytes of a block are hashed in vain


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
        self.at = 0  # start of the next record
        self.hashed_in_vain = 0  # bytes of the block that could have been records
        self._stream = stream
        self._number = 0
        self._hasher = HighwayHash(bytes(32))

    def begin(self, number: int, data: bytes) -> None:
        """Set the block that ``next`` reads, and its number."""
        self.buf = data
        self._number = number
        self.at = 0
        self.hashed_in_vain = 0
        self._hasher = HighwayHash(hashlib.sha256(f"{self._stream}-{number}".encode()).digest())

    def next(self) -> bool:
        """Step to the next record; return False at the end of the block; raise DamagedRecord."""
        p = self.buf
        at = self.at
        if at >= len(self.buf):
            return False
        size = self._check(at)
        if size < 0:
            raise DamagedRecord(self._number, _PROBLEMS[-size])
        extra = 4 if read_little(p, at, 4) & _HEADERS else 0
        subject_size = p[at + 20] | (p[at + 21] << 8)
        body = at + _HEADER_SIZE + subject_size
        seq = read_little(p, at + 4, 8)
        self.erased = (seq & _ERASED) != 0
        self.tombstone = (seq & _TOMBSTONE) != 0
        self.seq = seq & ~(_ERASED | _TOMBSTONE)
        self.timestamp = _signed(read_little(p, at + 12, 8))
        self.subject_start = at + _HEADER_SIZE
        self.subject_size = subject_size
        self.header_size = read_little(p, body, 4) if extra else 0
        self.body_start = body + extra
        self.body_size = at + size - _HASH_SIZE - self.body_start
        self.at = at + size
        if self.seq >= self.highest:  # an erased message has no time, but its tombstone has
            self.highest = self.seq
            self.highest_timestamp = max(self.timestamp, self.highest_timestamp)
        return True

    def skip_damage(self) -> int:
        """Move from an invalid record to the next valid one, or to the end; return the bytes left out."""
        start = self.at
        end = len(self.buf)
        size = self._size(start)
        at = start + size if size > 0 else start + 1  # the length is trusted if it leads to a valid record
        if size > 0 and at < end and self._check(at) < 0:
            at = start + 1
        while at < end and self._check(at) < 0:
            at = at + 1 if self.hashed_in_vain < _MOST_TIMES * end else end
        self.at = at
        return at - start

    def subject(self) -> bytes:
        return self.buf[self.subject_start : self.subject_start + self.subject_size]

    def _size(self, at: int) -> int:
        """Return the size of a record whose lengths fit together and into the block, or a problem."""
        p = self.buf
        end = len(self.buf)
        if end - at < _HEADER_SIZE + _HASH_SIZE:
            return _OVERRUN
        first = read_little(p, at, 4)
        size = first & (_HEADERS - 1)
        subject_size = p[at + 20] | (p[at + 21] << 8)
        extra = 4 if first & _HEADERS else 0
        if size > end - at or size < _HEADER_SIZE + _HASH_SIZE + subject_size + extra:
            return _INSANE
        if extra:
            body = at + _HEADER_SIZE + subject_size
            if read_little(p, body, 4) > at + size - _HASH_SIZE - body - extra:
                return _INSANE
        return size

    def _check(self, at: int) -> int:
        """Return the size of a valid record, or a problem."""
        p = self.buf
        size = self._size(at)
        if size < 0:
            return size
        subject_size = p[at + 20] | (p[at + 21] << 8)
        body = at + _HEADER_SIZE + subject_size + (4 if read_little(p, at, 4) & _HEADERS else 0)
        finish = at + size - _HASH_SIZE
        hasher = self._hasher
        hasher.begin()
        hasher.add(self.buf, at + 4, at + 20)
        hasher.add(self.buf, at + _HEADER_SIZE, at + _HEADER_SIZE + subject_size)
        hasher.add(self.buf, body, finish)
        if hasher.end() == read_little(self.buf, finish, 8):
            return size
        self.hashed_in_vain += size
        return _WRONG_HASH


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
