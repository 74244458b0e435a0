"""The commit journal on the simulated disk: the real ``CommitJournal``, with simulated system calls."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import Any

from millstream.server.journal_files import JournalDisk
from millstream.store.commit_journal import START, encode_header
from millstream.store.errors import StoreError
from tests.sim.machine.disk import DEVICE, SimDisk

SIZE = 160 * 1024
_ROW = struct.Struct("=5q")  # of a batch's table: descriptor, start, size, place in the file, error
_ERROR = struct.Struct("=q")
_WRITER = 1  # its number for ``add_reader``

Later = Callable[..., object]  # calls back after a time of the disk


class SimJournalDisk(JournalDisk):
    """Implements the system calls of the journal; `later` runs what threads would do."""

    def __init__(self, disk: SimDisk, later: Later, readable: Callable[[int], None]) -> None:
        self._disk = disk
        self._later = later
        self._readable = readable

    def device_of(self, folder: str) -> int:
        return DEVICE

    def make(self, path: str, size: int, mark: bytes) -> int:
        try:
            file = self._disk.open(path, create=True)
            file.append(encode_header(mark))
            file.append(bytes(size - START))
            file.sync()
            self._disk.sync_folder(path.rsplit("/", 1)[0])
        except StoreError as error:
            self._disk.remove(path)
            raise OSError(errno.EIO, str(error)) from error
        return self._disk.number(file)

    def clear(self, descriptor: int, end: int) -> None:
        file = self._disk.file(descriptor)
        try:
            file.write_at(START, bytes(end - START))
            file.sync()
        except StoreError as error:
            raise OSError(errno.EIO, str(error)) from error

    def sync_file_system(self, descriptor: int) -> int:
        return self._disk.sync_since(descriptor)

    def close(self, descriptor: int) -> None:
        self._disk.file(descriptor).close()

    def discard(self, path: str, descriptor: int) -> None:
        self.close(descriptor)
        self._disk.remove(path)

    def new_writer(self, name: str) -> Any:
        return SimJournalWriter(self._disk, self._later, self._readable)

    def start_thread(self, work: Callable[[], None], name: str) -> SimThread:
        return SimThread(self._later, work)


class SimThread:
    """Work that runs after a while, or when somebody waits for it."""

    def __init__(self, later: Later, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        later(self.join)

    def join(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work()


class SimJournalWriter:
    """Replace ``store.journal_writer.JournalWriter`` in a simulation."""

    def __init__(self, disk: SimDisk, later: Later, readable: Callable[[int], None]) -> None:
        self._disk = disk
        self._later = later
        self._readable = readable
        self._batch: Any = None
        self._descriptor = 0
        self._position = 0
        self._written = False
        self.failed = 0

    def fileno(self) -> int:
        return _WRITER

    def begin(self, descriptor: int, batch: Any, position: int) -> None:
        assert self._batch is None, "the last batch has not ended"
        self._batch, self._descriptor, self._position = batch, descriptor, position
        self._written = False
        self._later(self._run, batch)

    def _run(self, batch: Any) -> None:
        """Write the batch as the thread does, unless somebody waited for it."""
        if self._batch is batch and not self._written:
            self._write()
            self._later(self._readable, _WRITER)

    def _write(self) -> None:
        self._written = True
        data, rows = self._batch.peek(), self._batch.table.peek()
        errors = []
        for row in _ROW.iter_unpack(rows):
            descriptor, start, size, base, _ = row
            try:
                self._disk.file(descriptor).write_at(base, data[start : start + size])
                errors.append(0)
            except StoreError:
                errors.append(errno.EIO)
        with self._batch.table.view() as table:
            for number, error in enumerate(errors):
                _ERROR.pack_into(table, number * _ROW.size + _ROW.size - _ERROR.size, error)
        self.failed = 0
        journal = self._disk.file(self._descriptor)
        try:
            journal.write_at(self._position, data)
            journal.sync()
        except StoreError:
            self.failed = errno.EIO

    def collect(self) -> bool:
        if self._batch is None or not self._written:
            return False
        self._batch = None
        return True

    def wait(self) -> bool:
        if self._batch is None:
            return False
        if not self._written:
            self._write()
        return self.collect()

    def close(self) -> None:
        self.wait()
