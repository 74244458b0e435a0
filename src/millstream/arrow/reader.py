"""Read a range of a stream batch by batch in a worker.

    reading = Reading(segments, stream, columns, first, last, patterns)
    while (batch := reading.next_batch()) is not None: ...      # then `reading.through`

Every batch except the last has rows.  Segments are leased only while a batch is filled, not while it is sent.
As with a consumer, messages removed before the reading reaches them are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from millstream.arrow.batch import MOST_ROWS, Batch
from millstream.arrow.lease import MOST_MESSAGES

if TYPE_CHECKING:
    from millstream.arrow.lease import Lease

_AT_ONCE: Final = 1024 * 1024  # bytes of a file
_WIDEST_GAP: Final = 16 * 1024  # bytes of unwanted messages that are read to save a call


class Segments(Protocol):
    """The log of a stream, accessed from another thread."""

    def lend(self, seq: int, last: int, patterns: tuple[bytes, ...], most: int) -> Lease | None:
        """Return the next lease from `seq` on, see ``take_lease``; raise if the stream no longer exists."""

    def give_back(self, lease: Lease, damaged: Sequence[int]) -> None:
        """Return a lease; `damaged` are the sequences of damaged records."""


class RangeReading:
    """Reads one range; see the module."""

    def __init__(
        self,
        segments: Segments,
        stream: str,
        columns: Sequence[str],
        first: int,
        last: int,
        patterns: tuple[bytes, ...] = (),
    ) -> None:
        self.through = first - 1  # batches contain all wanted messages up to here
        self.last = last
        self.rows = 0
        self.damaged = 0
        self._segments = segments
        self._patterns = () if b">" in patterns else patterns
        self._batch = Batch(stream.encode(), columns)
        self._flags = b""  # for each subject of the current segment, 1 if it is wanted
        self._flags_of: tuple[int, int] = (0, 0)

    @property
    def ended(self) -> bool:
        return self.through >= self.last

    def next_batch(self) -> Batch | None:
        """Fill the next batch; return None if there are no more messages.

        It is the same object each time: the previous batch must have been sent.
        """
        if self.ended:
            return None
        batch = self._batch
        batch.clear()
        while not batch.full and not self.ended:
            # Without patterns every message is wanted, so do not lease more than fit.
            most = MOST_MESSAGES if self._patterns else MOST_ROWS - batch.rows
            lease = self._segments.lend(self.through + 1, self.last, self._patterns, most)
            if lease is None:
                self.through = self.last
                break
            known = len(batch.damaged)
            try:
                self._read(lease, batch)
            finally:
                self._segments.give_back(lease, batch.damaged[known:])
        self.rows += batch.rows
        self.damaged += len(batch.damaged)
        return batch

    def _read(self, lease: Lease, batch: Batch) -> None:
        picks = lease.picks(self._wanted(lease))
        index = 0
        while index < picks.count:
            if batch.full:
                self.through = picks.seq(index) - 1
                return
            end = picks.group_end(index, _AT_ONCE, _WIDEST_GAP)
            place = picks.offset(index)
            data = lease.file.read(place, picks.end(end - 1) - place)
            index += batch.take(data, place, picks, index, end)
        self.through = lease.through

    def _wanted(self, lease: Lease) -> bytes | None:
        if not self._patterns:
            return None
        if lease.identity != self._flags_of:
            self._flags_of, self._flags = lease.identity, b""
        self._flags = lease.flags(self._patterns, self._flags)
        return self._flags
