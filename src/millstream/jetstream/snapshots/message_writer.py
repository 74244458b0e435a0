"""Copy messages from a stream's log to the entries of an archive; compiled."""

from millstream.archive.entries import EntryBuffer
from millstream.store.frozen import Frozen
from millstream.store.record import Record


def fill(buffer: EntryBuffer, frozen: Frozen, record: Record, most: int) -> bool:
    """Add messages of the current segment up to `most` bytes; return False if it has no more."""
    while buffer.size < most:
        if not frozen.next(record):
            return False
        buffer.add_record(record)
    return True
