"""Make the content of a file of ids: entries by bucket, an index and a filter (docs/formats/ids.md).

The hash of an id gives its bucket: the buckets divide the range of hashes into equal parts, so a file with
more buckets has the same order.  Entries are added for a range of buckets at a time, in any order, so a file
larger than memory can be made of several others.  Runs in a worker, without the interpreter lock.
"""

from typing import Any

import cython

from millstream.base.checksum import crc_of

if cython.compiled:
    from cython.cimports.libc.string import memcpy

ENTRY_SIZE = 32  # bytes: two halves of the hash, sequence, time
INDEX_SIZE = 8  # bytes for each bucket: the number of its first entry, the checksum of its entries
LINE_SIZE = 64  # bytes of the filter for each bucket
ENTRIES_OF_A_BUCKET = 48  # on average
PROBES = 5  # bits of the filter for each id
PROBE_BITS = 9  # of the hash's second half for each; so many bits choose one of a line

_ENTRY = ENTRY_SIZE
_INDEX = INDEX_SIZE
_LINE = LINE_SIZE
_PROBES = PROBES
_PROBE_BITS = PROBE_BITS
_PROBE_MASK = (1 << PROBE_BITS) - 1


def buckets_for(count: int) -> int:
    """Return the number of buckets for so many entries."""
    return max(-(-count // ENTRIES_OF_A_BUCKET), 1)


def first_hash_of(bucket: int, buckets: int) -> int:
    """Return the least upper half of a hash's first half that belongs to a bucket."""
    return -(-(bucket << 32) // buckets)


class Builder:
    """The parts of a file's index and filter, and how many entries it has so far."""

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self.count = 0
        self._index: list[bytearray] = []
        self._filter: list[bytearray] = []

    def add(self, entries: bytes, first: int, end: int) -> bytearray:
        """Return the part of the file with the buckets from `first` to before `end`.

        Entries of other buckets are left out.  The buckets below `first` must have been added.
        """
        if not 0 <= first < end <= self.buckets or len(entries) % _ENTRY:
            raise ValueError("there are no such buckets")
        starts = bytearray((end - first) * 4)  # counts at first, then where the next entry goes
        p: Any = entries
        s: Any = starts
        size = len(entries)
        buckets = self.buckets
        low = first
        high = end
        kept = 0
        with cython.nogil:
            at = 0
            while at < size:
                bucket = (_read4(p, at + 4) * buckets) >> 32
                if low <= bucket < high:
                    _put4(s, 4 * (bucket - low), _read4(s, 4 * (bucket - low)) + 1)
                at += _ENTRY
            for bucket in range(high - low):
                place = _read4(s, 4 * bucket)
                _put4(s, 4 * bucket, kept)
                kept += place
        out = bytearray(kept * _ENTRY)
        o: Any = out
        self._filter.append(bytearray((end - first) * _LINE))
        self._index.append(bytearray((end - first) * _INDEX))
        lines: Any = self._filter[-1]
        index: Any = self._index[-1]
        before = self.count
        with cython.nogil:
            at = -_ENTRY
            while at + _ENTRY < size:
                at += _ENTRY
                bucket = (_read4(p, at + 4) * buckets) >> 32
                if bucket < low or bucket >= high:
                    continue
                place = _read4(s, 4 * (bucket - low))
                _put4(s, 4 * (bucket - low), place + 1)
                _copy(o, place * _ENTRY, p, at)
                bits = _read8(p, at + 8)
                for probe in range(_PROBES):
                    bit = (bits >> (probe * _PROBE_BITS)) & _PROBE_MASK
                    lines[(bucket - low) * _LINE + (bit >> 3)] |= 1 << (bit & 7)
            place = 0
            for bucket in range(high - low):
                bit = _read4(s, 4 * bucket)  # where the entries of the bucket end
                _put4(index, bucket * _INDEX, before + place)
                _put4(index, bucket * _INDEX + 4, crc_of(o, place * _ENTRY, bit * _ENTRY))
                place = bit
        self.count += kept
        return out

    def tables(self) -> list[bytearray]:
        """Return the parts of index and filter, which follow the entries."""
        return self._index + self._filter


def checksum(data: bytes) -> int:
    """Return the checksum of `data`, computed without the interpreter lock."""
    p: Any = data
    end = len(data)
    with cython.nogil:
        crc = crc_of(p, 0, end)
    return crc


def _put4(p: bytearray, at: int, value: int) -> None:
    p[at] = value & 0xFF
    p[at + 1] = (value >> 8) & 0xFF
    p[at + 2] = (value >> 16) & 0xFF
    p[at + 3] = (value >> 24) & 0xFF


def _read4(p: bytes | bytearray, at: int) -> int:
    if cython.compiled:
        value = p[at + 3]
        value = value << 8 | p[at + 2]
        value = value << 8 | p[at + 1]
        return value << 8 | p[at]
    return int.from_bytes(p[at : at + 4], "little")


def _read8(p: bytes | bytearray, at: int) -> int:
    if cython.compiled:
        value = 0
        for index in range(7, -1, -1):
            value = value << 8 | p[at + index]
        return value
    return int.from_bytes(p[at : at + 8], "little")


def _copy(o: bytearray, place: int, p: bytes, at: int) -> None:
    if cython.compiled:
        target: Any = o
        source: Any = p
        memcpy(target + place, source + at, _ENTRY)
    else:
        o[place : place + _ENTRY] = p[at : at + _ENTRY]
