"""The ids of a range of messages in a file that never changes (docs/formats/ids.md).

Index and filter are in memory, 1.5 bytes for each id; the file has 32.  An id that is not in the file is
recognised by the filter, except one in a hundred; every other lookup reads one bucket, about 1.5 KiB.  Each
bucket has a checksum.  A damaged one is never believed: it raises ``DamagedIds`` until its entries were read
again from the messages (``mend``).
"""

import cython

from millstream.base.buffer import read_little
from millstream.base.checksum import crc_of
from millstream.jetstream.dedupe.builder import (
    ENTRY_SIZE,
    INDEX_SIZE,
    LINE_SIZE,
    PROBE_BITS,
    PROBES,
)
from millstream.store.errors import StoreError
from millstream.store.fs import File

_ENTRY = ENTRY_SIZE
_INDEX = INDEX_SIZE
_LINE = LINE_SIZE
_PROBES = PROBES
_PROBE_BITS = PROBE_BITS
_PROBE_MASK = (1 << PROBE_BITS) - 1


class DamagedIds(StoreError):
    """A bucket cannot be read, or holds something else than was written."""

    def __init__(self, generation: "Generation", bucket: int, reason: str) -> None:
        super().__init__("read", generation.name, reason)
        self.generation = generation
        self.bucket = bucket


class Generation:
    """The ids of the messages from `first_seq` to `last_seq`, the last of them of `last_ns`."""

    def __init__(
        self,
        name: str,
        file: File,
        tables: bytes,
        buckets: int,
        count: int,
        first_seq: int,
        last_seq: int,
        last_ns: int,
    ) -> None:
        if buckets < 1 or len(tables) != buckets * (INDEX_SIZE + LINE_SIZE):
            raise ValueError("the tables have another size")
        if not _rises(tables, buckets, count):
            raise ValueError("the index leads to no entries")
        self.name = name
        self.file = file
        self.buckets = buckets
        self.count = count
        self.first_seq = first_seq
        self.last_seq = last_seq
        self.last_ns = last_ns
        self.mended: dict[int, bytes] = {}  # entries of damaged buckets, read from the messages
        self._tables = tables  # the index, then the filter

    def find(self, high: int, low: int, oldest_ns: int) -> int:
        """Return the sequence of the message with this id if it is younger than `oldest_ns`; otherwise 0.

        Raises DamagedIds.
        """
        bucket = ((high >> 32) * self.buckets) >> 32
        if not self._may_have(bucket, low):
            return 0
        data = self.entries_of(bucket)
        p = data
        size = len(data)
        found = 0
        at = 0
        while at < size:
            if read_little(p, at, 8) == high and read_little(p, at + 8, 8) == low:
                seq = read_little(p, at + 16, 8)
                time = read_little(p, at + 24, 8)  # signed, to be compared with a clock that stands near 0
                if seq > found and time > oldest_ns:
                    found = seq
            at += _ENTRY
        return found

    def _may_have(self, bucket: int, low: int) -> bool:
        """Return False if the filter proves that an id of this bucket is not in the file."""
        p = self._tables
        at = self.buckets * _INDEX + bucket * _LINE
        for probe in range(_PROBES):
            bit = (low >> (probe * _PROBE_BITS)) & _PROBE_MASK
            if not p[at + (bit >> 3)] & (1 << (bit & 7)):
                return False
        return True

    def _start(self, bucket: int) -> int:
        """Return the number of a bucket's first entry."""
        p = self._tables
        return read_little(p, bucket * _INDEX, 4) if bucket < self.buckets else self.count

    def entries_of(self, bucket: int) -> bytes:
        """Return the entries of a bucket; raise DamagedIds."""
        if not 0 <= bucket < self.buckets:
            raise ValueError("there is no such bucket")
        if self.mended and bucket in self.mended:
            return self.mended[bucket]
        start = self._start(bucket) * _ENTRY
        size = self._start(bucket + 1) * _ENTRY - start
        try:
            data: bytes = self.file.read(start, size)
        except StoreError as error:
            raise DamagedIds(self, bucket, str(error)) from error
        p = self._tables
        if len(data) != size or crc_of(data, 0, size) != read_little(p, bucket * _INDEX + 4, 4):
            raise DamagedIds(self, bucket, f"bucket {bucket} is damaged")
        return data

    def entries_in(self, first: int, end: int) -> bytes:
        """Return the entries of the buckets from `first` to before `end`; raise DamagedIds.

        For workers: reads and checks without the interpreter lock.
        """
        if not 0 <= first < end <= self.buckets:
            raise ValueError("there are no such buckets")
        for bucket in list(self.mended):
            if first <= bucket < end:
                return b"".join([self.entries_of(each) for each in range(first, end)])
        before = self._start(first) * _ENTRY
        size = self._start(end) * _ENTRY - before
        try:
            data: bytes = self.file.read(before, size)
        except StoreError as error:
            raise DamagedIds(self, first, str(error)) from error
        wrong = first
        if len(data) == size:
            d = data
            p = self._tables
            count = self.count
            buckets = self.buckets
            with cython.nogil:
                for wrong in range(first, end):
                    start = _read4(p, wrong * _INDEX) * _ENTRY - before
                    stop = _read4(p, wrong * _INDEX + _INDEX) if wrong + 1 < buckets else count
                    if crc_of(d, start, stop * _ENTRY - before) != _read4(p, wrong * _INDEX + 4):
                        break
                else:
                    wrong = -1
        if wrong >= 0:
            raise DamagedIds(self, wrong, f"bucket {wrong} is damaged")
        return data

    def mend(self, bucket: int, entries: bytes) -> None:
        """Use these entries instead of those of a damaged bucket."""
        self.mended[bucket] = entries


def _rises(tables: bytes, buckets: int, count: int) -> bool:
    """Return True if the entries of each bucket follow those of the one before, and all exist."""
    p = tables
    before = 0
    for bucket in range(buckets):
        start = read_little(p, bucket * _INDEX, 4)
        if start < before or start > count or (bucket == 0 and start > 0):
            return False
        before = start
    return True


def _read4(p: bytes, at: int) -> int:
    if cython.compiled:
        value = p[at + 3]
        value = value << 8 | p[at + 2]
        value = value << 8 | p[at + 1]
        return value << 8 | p[at]
    return int.from_bytes(p[at : at + 4], "little")
