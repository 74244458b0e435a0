"""Batches of the commit journal, made of entries."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.store.commit_journal import Entry
from millstream.store.journal_batch import JournalBatch
from millstream.store.record import RecordBuffer


def encode_batch(mark: bytes, order: int, entries: Sequence[Entry]) -> bytes:
    batch = JournalBatch()
    for key, segment, base, data in entries:
        batch.add(key, segment, base, b"", records_of(bytes(data)), -1)
    batch.finish(mark, order)
    return batch.peek()


def records_of(data: bytes) -> RecordBuffer:
    records = RecordBuffer()
    records.append(data)
    return records
