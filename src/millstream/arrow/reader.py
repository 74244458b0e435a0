"""Read a range of a stream batch by batch in a worker.

    reading = Reading(lender, stream, columns, first, last, patterns)
    while (batch := reading.next_batch()) is not None: ...      # then `reading.through`

Every batch except the last has rows.  Extents are lent only while a batch is filled, not while it is sent.
As with a consumer, messages removed before the reading reaches them are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from millstream.arrow.batch import MOST_ROWS, Batch
from millstream.arrow.picks import picks_of
from millstream.store.extent import MOST_MESSAGES

if TYPE_CHECKING:
    from millstream.store.extent import Extent

_AT_ONCE: Final = 1024 * 1024  # bytes of a file
_WIDEST_GAP: Final = 16 * 1024  # bytes of unwanted messages that are read to save a call


class Lender(Protocol):
    """The log of a stream, accessed from another thread."""

    def lend(self, seq: int, last: int, patterns: tuple[bytes, ...], most: int) -> Extent | None:
        """Return the next extent from `seq` on, see ``lend_extent``; raise if the stream no longer exists."""

    def give_back(self, extent: Extent, damaged: Sequence[int]) -> None:
        """Return an extent; `damaged` are the sequences of damaged records."""


class RangeReading:
    """Reads one range; see the module."""

    def __init__(
        self,
        lender: Lender,
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
        self._lender = lender
        self._patterns = () if b">" in patterns else patterns
        self._batch = Batch(stream.encode(), columns)
        self._flags = b""  # for each subject of the current extent, 1 if it is wanted
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
            # Without patterns every message is wanted, so do not lend more than fit.
            most = MOST_MESSAGES if self._patterns else MOST_ROWS - batch.rows
            extent = self._lender.lend(self.through + 1, self.last, self._patterns, most)
            if extent is None:
                self.through = self.last
                break
            known = len(batch.damaged)
            try:
                self._read(extent, batch)
            finally:
                self._lender.give_back(extent, batch.damaged[known:])
        self.rows += batch.rows
        self.damaged += len(batch.damaged)
        return batch

    def _read(self, extent: Extent, batch: Batch) -> None:
        picks = picks_of(extent, self._wanted(extent))
        index = 0
        while index < picks.count:
            if batch.full:
                self.through = picks.seq(index) - 1
                return
            end = picks.group_end(index, _AT_ONCE, _WIDEST_GAP)
            place = picks.offset(index)
            data = extent.read(place, picks.end(end - 1) - place)
            index += batch.take(data, place, picks, index, end)
        self.through = extent.through

    def _wanted(self, extent: Extent) -> bytes | None:
        if not self._patterns:
            return None
        if extent.identity != self._flags_of:
            self._flags_of, self._flags = extent.identity, b""
        self._flags = extent.flags(self._patterns, self._flags)
        return self._flags
