"""Read the messages of one stream, block by block, and pass the sound ones on.

If the index describes the blocks, it says which messages are deleted.  Otherwise (the server was killed) the
tombstones in the blocks do, and the limits of the stream are applied when it starts, as nats-server does it.
A damaged record costs itself: the reader goes on at the next record whose checksum is right.

One block is in memory at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from millstream.archive.blocks import BlockReader
from millstream.archive.errors import ArchiveError, DamagedRecord
from millstream.jetstream.adoption.report import MOST_RANGES, BlockDamage, StreamReport

if TYPE_CHECKING:
    from millstream.archive.store_files import NatsServerStream, StoredBlock
    from millstream.archive.stream_index import DeletedSequences

_AT_ONCE: Final = 10_000  # records between two looks at how much is unwritten
_COMPRESSED: Final = "its compressed content is damaged"
_MOST_LOOKED_AT: Final = 1_000_000  # sequences of a gap that are looked up one by one


class MessageSink(Protocol):
    """Takes the messages of a stream."""

    @property
    def last_seq(self) -> int:
        """Return the sequence of the last message taken."""

    def take(self, reader: BlockReader, most: int, deleted: DeletedSequences | None) -> bool:
        """Take up to `most` records of a block; return False at its end, raise ArchiveError at a bad one."""

    def end(self, seq: int, timestamp: int) -> None:
        """Mark all sequences up to `seq` as used."""


class CountingSink:
    """Counts messages and stores nothing."""

    def __init__(self) -> None:
        self.last_seq = 0
        self.messages = 0
        self.first_seq = 0
        self.highest = 0

    def take(self, reader: BlockReader, most: int, deleted: DeletedSequences | None) -> bool:
        for _ in range(most):
            if not reader.next():
                return False
            seq = reader.seq
            if reader.tombstone or reader.erased or seq <= self.last_seq:
                continue
            if deleted is None or not deleted.has(seq):
                self.messages += 1
                self.last_seq = seq
                self.first_seq = self.first_seq or seq
        return True

    def end(self, seq: int, timestamp: int) -> None:
        self.highest = max(seq, self.last_seq)


class StreamLoading:
    """Reads one stream into a sink; damage goes to the report."""

    def __init__(
        self,
        stored: NatsServerStream,
        sink: MessageSink,
        report: StreamReport,
        advance: Callable[[int], None],
    ) -> None:
        self._stored = stored
        self._sink = sink
        self._report = report
        self._advance = advance  # called with the number of bytes read of the stream's blocks
        self._reader = BlockReader(stored.name)
        self._open: list[tuple[BlockDamage, int, DeletedSequences | None]] = []  # whose end is not known yet

    def run(self) -> None:
        blocks = self._stored.blocks()
        index, matches = self._stored.index(blocks)
        states: dict[int, DeletedSequences] = {}
        if index is not None and matches:
            states = {each.number: each.deleted for each in index.blocks}
        done = 0
        for block in blocks:
            if not matches or block.number in states:  # otherwise all of its messages are deleted
                self._load(block, states.get(block.number))
            done += block.size
            self._advance(done)
        last_seq, last_time = self._reader.highest, self._reader.highest_timestamp
        if index is not None and (matches or index.last_seq > last_seq):
            last_seq, last_time = index.last_seq, index.last_time
        self._close(last_seq + 1)
        self._sink.end(last_seq, last_time)

    def _load(self, block: StoredBlock, deleted: DeletedSequences | None) -> None:
        try:
            content = self._stored.content(block)
        except ArchiveError as error:
            self._note(block, 0, block.size, str(error), deleted)
            return
        known = len(self._report.damage)
        self._reader.begin(block.number, content.data)
        self._read(block, deleted, _COMPRESSED if content.damaged else "")
        if content.damaged and len(self._report.damage) == known:  # the zeros alone are a damaged record
            self._note(block, 0, content.damaged, _COMPRESSED, deleted)

    def _read(self, block: StoredBlock, deleted: DeletedSequences | None, doubt: str) -> None:
        while True:
            try:
                more = self._sink.take(self._reader, 1 if self._open else _AT_ONCE, deleted)
            except DamagedRecord as error:
                at = self._reader.at
                self._note(block, at, self._reader.skip_damage(), doubt or error.reason, deleted)
                continue
            except ArchiveError as error:  # the record is sound, but no stream can have its message
                self._refused(block, str(error))
                continue
            if self._open and self._sink.last_seq > self._open[-1][1]:
                self._close(self._sink.last_seq)
            if not more:
                return

    def _refused(self, block: StoredBlock, reason: str) -> None:
        reader = self._reader
        lost = [(reader.seq, reader.seq)]
        damage = BlockDamage(
            os.path.basename(block.path), reader.subject_start, reader.body_size, reason, lost
        )
        self._report.damage.append(damage)

    def _note(
        self, block: StoredBlock, at: int, size: int, reason: str, deleted: DeletedSequences | None
    ) -> None:
        """Record damage; its sequences are known when the next message is."""
        name = os.path.basename(block.path)
        if self._open and self._open[-1][0].file == name:
            self._open[-1][0].bytes += size  # the same place still
            return
        damage = BlockDamage(name, at, size, reason, exact=deleted is not None)
        self._report.damage.append(damage)
        self._open.append((damage, self._sink.last_seq, deleted))

    def _close(self, next_seq: int) -> None:
        """Find out which messages are missing before `next_seq`."""
        for damage, before, deleted in self._open:
            if deleted is not None or damage is self._open[0][0]:
                damage.sequences = _missing(before + 1, next_seq - 1, deleted)
        self._open.clear()


def _missing(first: int, last: int, deleted: DeletedSequences | None) -> list[tuple[int, int]]:
    """Return runs of the sequences that are not deleted."""
    if deleted is not None:
        first, last = max(first, deleted.first), min(last, deleted.last)
    if first > last:
        return []
    if deleted is None or last - first > _MOST_LOOKED_AT:
        return [(first, last)]
    runs: list[tuple[int, int]] = []
    for seq in range(first, last + 1):
        if deleted.has(seq):
            continue
        if runs and runs[-1][1] == seq - 1:
            runs[-1] = (runs[-1][0], seq)
        elif len(runs) < MOST_RANGES:
            runs.append((seq, seq))
    return runs
