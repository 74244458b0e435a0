"""From the log of a stream to the entries of an archive: the loop over messages, compiled."""

from millrace.jetstream.archive.entries import EntryBuffer
from millrace.store.frozen import Frozen
from millrace.store.record import Record


def fill(buffer: EntryBuffer, frozen: Frozen, record: Record, most: int) -> bool:
    """Add messages of the segment that was entered until there are `most` bytes; False if it has no more."""
    while buffer.size < most:
        if not frozen.next(record):
            return False
        buffer.add_record(record)
    return True
