"""The wanted messages of an extent, and their positions in the file.

Built in a worker from columns that were copied on the log's thread (``store.extent``), so nothing here is
shared.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import cython

if TYPE_CHECKING:
    from millstream.store.extent import Extent

_SUBJECT_MASK = 0x7FFFFFFF  # the top bit of a subject's number marks a message with headers


class Picks:
    """Offsets, ends and sequences of the messages to read, in order."""

    def __init__(
        self,
        count: int,
        offsets: bytes,
        seqs: bytes,
        first_seq: int,
        removed: bytes,
        first_bit: int,
        subject_of: bytes,
        wanted: bytes | None,
    ) -> None:
        """Pick the messages that are not removed and have a wanted subject; the columns of an extent."""
        self.count = 0
        self._offsets: Any = array("q", bytes(8 * count))
        self._ends: Any = array("q", bytes(8 * count))
        self._seqs: Any = array("q", bytes(8 * count))
        if len(offsets) < 4 * (count + 1) or (seqs and len(seqs) < 8 * count):
            raise ValueError("tables are too short")
        if wanted is not None and len(subject_of) < 4 * count:
            raise ValueError("tables are too short")
        self._choose(count, offsets, seqs, first_seq, removed, first_bit, subject_of, wanted)

    def _choose(
        self,
        count: int,
        offsets: bytes,
        seqs: bytes,
        first_seq: int,
        removed: bytes,
        first_bit: int,
        subject_of: bytes,
        wanted: bytes | None,
    ) -> None:
        places = offsets
        numbers = seqs
        bits = removed
        bit_count = 8 * len(removed)
        subjects = subject_of
        filtered = wanted is not None
        flags = wanted if wanted is not None else b""
        flag_p = flags
        flag_count = len(flags)
        listed = len(seqs) > 0
        out_offsets = self._offsets.data.as_longlongs if cython.compiled else self._offsets
        out_ends = self._ends.data.as_longlongs if cython.compiled else self._ends
        out_seqs = self._seqs.data.as_longlongs if cython.compiled else self._seqs
        found = 0
        with cython.nogil:
            for index in range(count):
                bit = first_bit + index
                if bit < bit_count and (bits[bit >> 3] >> (bit & 7)) & 1:
                    continue
                if filtered:
                    number = _number(subjects, 4 * index) & _SUBJECT_MASK
                    if number >= flag_count or not flag_p[number]:
                        continue
                out_offsets[found] = _number(places, 4 * index)
                out_ends[found] = _number(places, 4 * index + 4)
                out_seqs[found] = _long(numbers, 8 * index) if listed else first_seq + index
                found += 1
        self.count = found

    def seq(self, index: int) -> int:
        return int(self._seqs[index])

    def offset(self, index: int) -> int:
        return int(self._offsets[index])

    def end(self, index: int) -> int:
        return int(self._ends[index])

    def group_end(self, start: int, most_bytes: int, widest_gap: int) -> int:
        """Return the index after the last message to read together with the one at `start`."""
        offsets = self._offsets.data.as_longlongs if cython.compiled else self._offsets
        ends = self._ends.data.as_longlongs if cython.compiled else self._ends
        first = offsets[start]
        index = start + 1
        while index < self.count:
            if ends[index] - first > most_bytes or offsets[index] - ends[index - 1] > widest_gap:
                break
            index += 1
        return index


def picks_of(extent: Extent, wanted: bytes | None) -> Picks:
    """Return the messages of an extent to read; `wanted` has a flag for each subject (``Extent.flags``)."""
    return Picks(
        extent.count,
        extent.offsets,
        extent.seqs,
        extent.first_seq,
        extent.removed,
        extent.first_bit,
        extent.subjects,
        wanted,
    )


def _number(p: bytes, at: int) -> int:
    if cython.compiled:
        number = p[at + 3]
        number = number << 8 | p[at + 2]
        number = number << 8 | p[at + 1]
        return number << 8 | p[at]
    return int.from_bytes(p[at : at + 4], "little")


def _long(p: bytes, at: int) -> int:
    if cython.compiled:
        number = _number(p, at + 4)
        return number << 32 | _number(p, at)
    return int.from_bytes(p[at : at + 8], "little")
