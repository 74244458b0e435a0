"""A thread that writes one batch of a commit journal without the interpreter.

A batch contains the records of many logs.  The thread writes each log's records to its own file, without a
sync, then the batch to the journal, with one sync for all of them.

    loop      begin(descriptor, batch, position, table) ── byte ──▶  thread   pwrite…, pwrite, fdatasync
              collect()                                 ◀── byte ──

The table has a row for each log: descriptor, start and size of its records in the batch, their place in its
file, and the error number of that write, which the thread fills in.  One batch at a time.  ``disk_writer``
explains why this is not a Python thread; uncompiled it is one.
"""

from __future__ import annotations

import os
import select
import threading
from array import array
from typing import Any, Final

import cython

if cython.compiled:
    from cython.cimports.libc.errno import EINTR, errno
    from cython.cimports.posix.unistd import fdatasync, pwrite, read, write

COLUMNS: Final = 5
_DESCRIPTOR: Final = 0
_START: Final = 1
_SIZE: Final = 2
_BASE: Final = 3
_ERROR: Final = 4
_COLUMNS = COLUMNS
_GO: Final = b"g"
_QUIT: Final = b"q"
_GO_BYTE = _GO[0]


class JournalWriter:
    """A writer that is idle or busy with one batch; only the loop's thread calls it."""

    def __init__(self, name: str) -> None:
        self._wake_end, self._wake = os.pipe()
        try:
            self._done, self._done_end = os.pipe()
        except OSError:
            os.close(self._wake_end)
            os.close(self._wake)
            raise
        os.set_blocking(self._done, False)
        self._batch: bytes | None = None
        self._table: array[int] | None = None
        self._view: Any = None
        self._rows = 0
        self._descriptor = -1
        self._size = 0
        self._position = 0
        self.failed = 0  # the error number of the journal's write or sync; 0 if the batch is durable
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._close_pipes()
            raise

    def fileno(self) -> int:
        """Return the descriptor that is readable when a batch has ended."""
        return self._done

    @property
    def busy(self) -> bool:
        return self._batch is not None

    def begin(self, descriptor: int, batch: bytes, position: int, table: array[int]) -> None:
        """Start writing the batch at `position` of the journal, and its parts where the table says."""
        if self._batch is not None:
            raise RuntimeError("the last batch has not ended")
        self._batch = batch
        self._table = table
        self._descriptor = descriptor
        self._size = len(batch)
        self._position = position
        self._rows = len(table) // _COLUMNS
        if cython.compiled:
            self._view = table
            self._cells: Any = self._view
            self._cell: Any = cython.address(self._cells[0]) if self._rows > 0 else cython.NULL
        self._data: Any = batch  # compiled, the address; `_batch` keeps it where it is
        os.write(self._wake, _GO)

    def collect(self) -> bool:
        """Return True, once, if the batch has ended."""
        try:
            os.read(self._done, 1)
        except BlockingIOError:
            return False
        self._batch = None
        if cython.compiled:
            self._cells = None
        self._view = None
        return True

    def wait(self) -> bool:
        """Wait until the batch has ended; return False if ``collect`` has already reported it."""
        if self._batch is None:
            return False
        while not self.collect():
            select.select([self._done], [], [])
        return True

    def close(self) -> None:
        """End the thread and wait for it."""
        self.wait()
        os.write(self._wake, _QUIT)
        self._thread.join()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for descriptor in (self._wake_end, self._wake, self._done, self._done_end):
            os.close(descriptor)

    def _serve(self) -> None:
        if cython.compiled:
            byte = 0
            with cython.nogil:
                while True:
                    if read(self._wake_end, cython.address(byte), 1) < 0:
                        if errno == EINTR:
                            continue
                        break
                    if byte != _GO_BYTE:
                        break
                    self._write_batch()
                    while write(self._done_end, cython.address(byte), 1) < 0 and errno == EINTR:
                        pass
        else:
            while os.read(self._wake_end, 1) == _GO:
                self._write_batch()
                os.write(self._done_end, _GO)

    def _write_batch(self) -> None:
        row = 0
        if cython.compiled:
            while row < self._rows:
                at = row * _COLUMNS
                self._cell[at + 4] = self._write(
                    self._cell[at], self._cell[at + 1], self._cell[at + 2], self._cell[at + 3]
                )
                row += 1
            self.failed = self._write(self._descriptor, 0, self._size, self._position)
            if self.failed == 0 and fdatasync(self._descriptor) < 0:
                self.failed = errno
        else:
            table: Any = self._table
            while row < self._rows:
                at = row * _COLUMNS
                table[at + 4] = self._write(table[at], table[at + 1], table[at + 2], table[at + 3])
                row += 1
            self.failed = self._write(self._descriptor, 0, self._size, self._position)
            if not self.failed:
                try:
                    os.fdatasync(self._descriptor)
                except OSError as error:
                    self.failed = error.errno or 0

    def _write(self, descriptor: int, start: int, size: int, base: int) -> int:
        """Write a part of the batch to a file; return the error number, 0 if all is written."""
        written = 0
        if cython.compiled:
            while written < size:
                count = pwrite(descriptor, self._data + start + written, size - written, base + written)
                if count >= 0:
                    written += count
                elif errno != EINTR:
                    number: int = errno
                    return number
        else:
            data = memoryview(self._data)
            try:
                while written < size:
                    written += os.pwrite(descriptor, data[start + written : start + size], base + written)
            except OSError as error:
                return error.errno or 0
        return 0
