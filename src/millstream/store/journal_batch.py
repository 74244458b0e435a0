"""A batch of the commit journal while it gathers: records of many logs, and where each of them belongs.

    batch:  mark | crc u32 | size u32 | count u32 | order u64 | entries | zeros up to a multiple of 4 KiB
    entry:  key length u16 | segment number u64 | base u64 | size u32 | key | bytes for the file at `base`

Records are copied once, from where they gathered to where they are written from.  Beside them grows a table
with a row for each entry, from which a thread writes it to the log's own file (``journal_writer``): the
descriptor, start and size of the bytes within the batch, their place in the file, and an error number.

Not here: reading batches (``commit_journal``), and what may go into one (``server.commit_journal``).
"""

import sys
from typing import Any

import cython

from millstream.base.buffer import GrowingBuffer
from millstream.base.checksum import crc_of
from millstream.store.record import RecordBuffer

if cython.compiled:
    from cython.cimports.libc.string import memcpy, memset

ALIGNMENT = 4096
HEADER_SIZE = 36
CHECKED = 20  # what lies before is not covered by the checksum
ENTRY_SIZE = 22  # without the key and the bytes
COLUMNS = 5
_ALIGNMENT = ALIGNMENT
_HEADER_SIZE = HEADER_SIZE
_CHECKED = CHECKED
_ENTRY_SIZE = ENTRY_SIZE
_CELL = 8
_ROW = COLUMNS * _CELL
_ERROR_AT = 4 * _CELL  # within a row
_KEPT = 8 * 1024 * 1024  # memory beyond that is given back


class JournalBatch(GrowingBuffer):
    """The entries of a batch; ``count`` is their number."""

    def __init__(self) -> None:
        GrowingBuffer.__init__(self)
        self.count = 0
        self.table = GrowingBuffer()
        self.clear()

    def clear(self) -> None:
        """Remove all entries."""
        if self._capacity > _KEPT:
            self._store = bytearray()
            self._capacity = 0
        self.count = 0
        self.table.size = 0
        self.size = 0
        self._put_zeros(_HEADER_SIZE)

    def add(
        self, key: bytes, segment: int, base: int, header: bytes, records: RecordBuffer, descriptor: int
    ) -> None:
        """Add the records of one log; `header` and then the records belong at `base` of the file."""
        key_size, header_size, records_size = len(key), len(header), records.size
        size = header_size + records_size
        self.reserve(_ENTRY_SIZE + key_size + size)
        self.table.reserve(_ROW)
        self.put_little(key_size, 2)
        self.put_little(segment, 8)
        self.put_little(base, 8)
        self.put_little(size, 4)
        self.put(key, 0, key_size)
        start = self.size
        self.put(header, 0, header_size)
        if cython.compiled:
            target: Any = self._store
            origin: Any = records._store
            memcpy(target + self.size, origin, records_size)
        else:
            self._store[self.size : self.size + records_size] = records._store[:records_size]
        self.size += records_size
        self._put_cell(descriptor)
        self._put_cell(start)
        self._put_cell(size)
        self._put_cell(base)
        self._put_cell(0)
        self.count += 1

    def finish(self, mark: bytes, order: int) -> None:
        """Fill in the header of the batch, and the zeros after the entries."""
        end = self.size
        self._put_zeros(-end % _ALIGNMENT)
        whole = self.size
        self.size = 0
        self.put(mark, 0, len(mark))
        self.put_little(0, 4)
        self.put_little(end, 4)
        self.put_little(self.count, 4)
        self.put_little(order, 8)
        self.size = len(mark)
        if cython.compiled:
            checked: Any = self._store
            crc = crc_of(checked, _CHECKED, end)
        else:
            crc = crc_of(bytes(self._store[:end]), _CHECKED, end)
        self.put_little(crc, 4)
        self.size = whole

    def error_of(self, row: int) -> int:
        """Return the error number of the write to the file of one entry, or 0 if it was written."""
        at = row * _ROW + _ERROR_AT
        return int.from_bytes(self.table.cut(at, _CELL), sys.byteorder)

    def _put_zeros(self, count: int) -> None:
        self.reserve(count)
        if cython.compiled:
            target: Any = self._store
            memset(target + self.size, 0, count)
        else:
            self._store[self.size : self.size + count] = bytes(count)
        self.size += count

    def _put_cell(self, value: int) -> None:
        """Append a number to the table in this machine's byte order; the space is already reserved."""
        table = self.table
        if cython.compiled:
            target: Any = table._store
            memcpy(target + table.size, cython.address(value), _CELL)
        else:
            table._store[table.size : table.size + _CELL] = value.to_bytes(_CELL, sys.byteorder, signed=True)
        table.size += _CELL
