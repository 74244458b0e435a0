"""A range of a stream, batch by batch, in a worker.

    reading = Reading(segments, stream, columns, first, last, patterns)
    while (batch := reading.next_batch()) is not None: ...      # then `reading.through`

A batch has some rows, or is the last.  Segments are lent for as long as a batch is filled; while it is sent,
nothing is held.  Messages that go meanwhile are not there when the reading comes to them, as with a consumer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from millstream.arrow.batch import MOST_ROWS, Batch
from millstream.arrow.lease import MOST_MESSAGES

if TYPE_CHECKING:
    from millstream.arrow.lease import Lease

_AT_ONCE: Final = 1024 * 1024  # bytes of a file
_WIDEST_GAP: Final = 16 * 1024  # bytes of messages not wanted that are read because it saves a call


class Segments(Protocol):
    """The log of a stream, reached from another thread."""

    def lend(self, seq: int, last: int, patterns: tuple[bytes, ...], most: int) -> Lease | None:
        """The next stretch from `seq` on, see ``take_lease``; raises if the stream is not there any more."""

    def give_back(self, lease: Lease, damaged: Sequence[int]) -> None:
        """It was read; `damaged` are sequences whose records were not what they should be."""


class Reading:
    """See the module."""

    def __init__(
        self,
        segments: Segments,
        stream: str,
        columns: Sequence[str],
        first: int,
        last: int,
        patterns: tuple[bytes, ...] = (),
    ) -> None:
        self.through = first - 1  # all wanted messages up to here are in batches
        self.last = last
        self.rows = 0
        self.damaged = 0
        self._segments = segments
        self._patterns = () if b">" in patterns else patterns
        self._batch = Batch(stream.encode(), columns)
        self._flags = b""  # for each subject of the segment at hand: whether it is wanted
        self._flags_of: tuple[int, int] = (0, 0)

    @property
    def ended(self) -> bool:
        return self.through >= self.last

    def next_batch(self) -> Batch | None:
        """Fill the next batch; None if there was nothing more to fill one with.

        It is the same object each time: the one before must have been sent.
        """
        if self.ended:
            return None
        batch = self._batch
        batch.clear()
        while not batch.full and not self.ended:
            # Where all are wanted, more than fit would be looked at again.
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
