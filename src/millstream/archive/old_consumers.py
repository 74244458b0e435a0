"""Consumers in older archives: the state in the format of nats-server's file store (`o.dat`).

    magic 22, version 1 or 2, then uvarints:
    floor dseq, floor sseq, delivered dseq, delivered sseq, number of pending entries;
    if any:  base time in seconds, and for each: sseq - floor, dseq - floor, base - time
    number of redelivered entries, and for each: sseq - floor, count

Differences are modulo 2^64, because the floor may be above the dseq of an entry.  Version 1 has no dseq of
pending entries, time - base, and delivered sequences counted from the floor.
"""

from __future__ import annotations

from typing import Final

from millstream.archive.errors import ArchiveError
from millstream.jsapi.consumer_types import ConsumerState

_MAGIC: Final = 22
_NS: Final = 1_000_000_000
_MASK: Final = 2**64 - 1


class _Numbers:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2

    def next(self) -> int:
        value = shift = 0
        while self._at < len(self._data) and shift < 70:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > _MASK:
                    break
                return value
            shift += 7
        raise ArchiveError("corrupt state file")

    def next_signed(self) -> int:
        value = self.next()
        return (value >> 1) ^ -(value & 1)


def decode_state(data: bytes) -> ConsumerState:
    """Decode `o.dat`; raise ArchiveError if it is invalid."""
    if len(data) < 2 or data[0] != _MAGIC or data[1] not in (1, 2):
        raise ArchiveError("corrupt state file")
    version = data[1]
    numbers = _Numbers(data)
    floor_dseq, floor_sseq = numbers.next(), numbers.next()
    delivered_dseq, delivered_sseq = numbers.next(), numbers.next()
    if version == 1:  # the next sequence, counted from the floor
        delivered_dseq += max(floor_dseq - 1, 0)
        delivered_sseq += max(floor_sseq - 1, 0)
    state = ConsumerState(delivered_dseq, delivered_sseq, floor_dseq, floor_sseq)
    count = numbers.next()
    base = numbers.next_signed() if count else 0
    for _ in range(count):
        sseq = (numbers.next() + floor_sseq) & _MASK
        dseq = (numbers.next() + floor_dseq) & _MASK if version == 2 else 0
        seconds = numbers.next_signed()
        state.pending[sseq] = (dseq, (base - seconds if version == 2 else base + seconds) * _NS)
    for _ in range(numbers.next()):
        sseq = (numbers.next() + floor_sseq) & _MASK
        deliveries = numbers.next()
        if sseq and deliveries:
            state.redelivered[sseq] = deliveries
    return state
