"""From the log of a stream to the entries of an archive: the loop over messages, compiled."""

from millstream.jetstream.archive.entries import EntryBuffer
from millstream.store.frozen import Frozen
from millstream.store.record import Record


def fill(buffer: EntryBuffer, frozen: Frozen, record: Record, most: int) -> bool:
    """Add messages of the segment that was entered until there are `most` bytes; False if it has no more."""
    while buffer.size < most:
        if not frozen.next(record):
            return False
        buffer.add_record(record)
    return True
