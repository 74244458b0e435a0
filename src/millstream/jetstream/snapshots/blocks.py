"""The message blocks of older archives: consecutive records of nats-server's file store.

    +------------+---------+---------+----------+---------+------------------+------+---------+
    | length u32 | seq u64 | ts  i64 | slen u16 | subject | [hlen u32, hdrs] | body | hash u64|
    +------------+---------+---------+----------+---------+------------------+------+---------+
      top bit: headers  top bit: erased; next: tombstone                         HighwayHash-64

The hash covers sequence, time, subject, headers and body; its key is the SHA-256 of "<stream>-<block>".  A
tombstone marks a deleted message in this block or an earlier one.

Compiled.  One invalid record makes the whole archive invalid.
"""

import hashlib

from millstream.archive.errors import ArchiveError
from millstream.archive.highway import HighwayHash
from millstream.base.buffer import read_little
from millstream.jetstream.snapshots.messages import MessageLoader

_HEADER_SIZE = 22
_HASH_SIZE = 8
_HEADERS = 1 << 31
_ERASED = 1 << 63
_TOMBSTONE = 1 << 62


class BlockLoader:
    """Reads blocks in order."""

    def __init__(self, stream: str, messages: MessageLoader) -> None:
        self.highest = 0  # the highest sequence used
        self.highest_timestamp = 0  # its timestamp
        self._stream = stream
        self._messages = messages

    def load(self, number: int, data: bytes) -> None:
        """Store the messages of a block and remove those with a tombstone; raise ArchiveError."""
        key = hashlib.sha256(f"{self._stream}-{number}".encode()).digest()
        hasher = HighwayHash(key)
        p = data
        at = 0
        end = len(data)
        while at < end:
            if end - at < _HEADER_SIZE + _HASH_SIZE:
                raise _bad(number, "message overrun")
            first = read_little(p, at, 4)
            size = first & (_HEADERS - 1)
            subject_size = p[at + 20] | (p[at + 21] << 8)
            seq = read_little(p, at + 4, 8)
            timestamp = read_little(p, at + 12, 8)
            body = at + _HEADER_SIZE + subject_size
            header_size = 0
            extra = 4 if first & _HEADERS else 0
            if size > end - at or size < _HEADER_SIZE + _HASH_SIZE + subject_size + extra:
                raise _bad(number, "sanity check failed")
            finish = at + size - _HASH_SIZE
            if extra:
                header_size = read_little(p, body, 4)
                body += 4
                if header_size > finish - body:
                    raise _bad(number, "sanity check failed")
            hasher.begin()
            hasher.add(data, at + 4, at + 20)
            hasher.add(data, at + _HEADER_SIZE, at + _HEADER_SIZE + subject_size)
            hasher.add(data, body, finish)
            if hasher.end() != read_little(p, finish, 8):
                raise _bad(number, "invalid checksum")
            subject = data[at + _HEADER_SIZE : at + _HEADER_SIZE + subject_size]
            self._take(seq, _signed(timestamp), subject, data, body, header_size, finish - body)
            at += size

    def _take(
        self,
        seq: int,
        timestamp: int,
        subject: bytes,
        data: bytes,
        start: int,
        header_size: int,
        size: int,
    ) -> None:
        plain = seq & ~(_ERASED | _TOMBSTONE)
        if plain >= self.highest:  # an erased message has no time, but its tombstone has
            self.highest = plain
            self.highest_timestamp = max(timestamp, self.highest_timestamp)
        if seq & _TOMBSTONE:
            self._messages.log.remove(plain)
        elif not seq & _ERASED and plain > self._messages.last_seq:
            self._messages.add(subject, data, start, header_size, size, plain, timestamp)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _bad(number: int, why: str) -> ArchiveError:
    return ArchiveError(f"malformed or corrupt message in block {number}: {why}")
