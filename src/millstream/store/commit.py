"""One group commit: bytes collected in memory, written and synced together.

Built on the thread that appends, run on any other.  The order ensures that a crash between any two steps
leaves a log that opens with everything that was committed and nothing that was removed:

    1  records, segment by segment: write, sync; then the folder, if a file is new or was exchanged
    2  secure erasures: overwrite, sync
    ─────────────── from here on the commit is durable; the rest is retried if it fails ───────────
    3  summaries of sealed segments
    4  remove files of segments that are no longer needed

Without `sync`, and with nothing to do in steps 2 to 4, records are only written.

Most commits take the fast path: they append records to one existing file.  Another thread may write and sync
those (``disk_writer``) and then report the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, cast

import msgspec

from millstream.store import summary, unsynced
from millstream.store.block_file import open_segment_file, overwrite_all
from millstream.store.disk_writer import allocate_ahead
from millstream.store.errors import StoreError
from millstream.store.fs import RealFile, store_error
from millstream.store.record import RecordBuffer
from millstream.store.segment import FILE_HEADER_SIZE, file_header

if TYPE_CHECKING:
    from millstream.store.fs import File, FileSystem
    from millstream.store.journal_batch import JournalBatch
    from millstream.store.segment import Segment
    from millstream.store.segment_job import SegmentJob

_MOST_COPIED: Final = 64 * 1024  # bytes that are copied behind the header of a file, to be written with it


def segment_path(folder: str, number: int) -> str:
    return f"{folder}/{number:010d}.log"


def summary_path(folder: str, number: int) -> str:
    return f"{folder}/{number:010d}.sum"


class Overwrite(msgspec.Struct):
    """Content to be overwritten in place."""

    segment: Segment
    offset: int
    data: bytes


class Work:
    """The work of a commit besides the collected records."""

    def __init__(
        self,
        unsynced: list[Segment] | None = None,
        overwrites: list[Overwrite] | None = None,
        unsummarized: list[Segment] | None = None,
        doomed: list[Segment] | None = None,
        folder_changed: bool = False,
        jobs: list[SegmentJob] | None = None,
    ) -> None:
        self.unsynced = unsynced or []  # written by commits without sync
        self.overwrites = overwrites or []
        self.unsummarized = unsummarized or []  # sealed, their tables loaded
        self.doomed = doomed or []  # in the order they were given up
        self.folder_changed = folder_changed  # a file was made or exchanged, and the folder not synced since
        self.jobs = jobs or []  # that wait for what was removed to be durable

    def is_nothing(self) -> bool:
        return not (
            self.unsynced
            or self.folder_changed
            or self.overwrites
            or self.unsummarized
            or self.doomed
            or self.jobs
        )

    def needs_sync(self) -> bool:
        """Return True if something must not happen before the records are durable."""
        return bool(self.overwrites or self.unsummarized or self.doomed or self.jobs)


def is_first(buffer: RecordBuffer) -> bool:
    """Return True if the records are the first of their file."""
    first: bool = buffer.base == FILE_HEADER_SIZE
    return first


def needs_note(segment: Segment, end: int) -> bool:
    """Return True if a note must be left before the segment is synced up to `end`."""
    return unsynced.is_due(segment.synced, end, noted=segment.noted)


class Commit:
    """One commit: what to make durable."""

    def __init__(
        self, fs: FileSystem, folder: str, changed: list[Segment], newest: Segment, work: Work, last_seq: int
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._newest = newest
        self.last_seq = last_seq
        self.work = work
        self.running = False
        self.only_appends = False  # it takes nothing away and seals nothing
        self.stores = True  # it uses sequences that none before it did
        # How it is to be written; ``Log.begin_commit`` leaves that to its caller:
        self.sync = True  # it is only done when it is on disk
        self.before: Callable[[], None] | None = None  # called where it is written; if it raises, it fails
        self.journal_key = b""  # what the commit journal calls the log; empty: it must not go there
        self.synced = False  # whether ``run`` did more than write
        self.journaled = False  # durable by a commit journal, and only written to its own file
        self._plain: tuple[Segment, RecordBuffer] | None = None
        # Segments learn of it when the commit ends: until then readers take their bytes from its memory, so
        # that no smaller file may take their place.
        self.summarized: Sequence[Segment] = ()
        self.removed: Sequence[Segment] = ()  # doomed segments whose files are gone
        self.untidy: StoreError | None = None  # why a step that may wait was not done
        self.folder_changed = work.folder_changed  # and not synced since
        self.parts: list[tuple[Segment, RecordBuffer]] = [
            (segment, segment.take_pending()) for segment in changed
        ]

    def run(self, *, sync: bool | None = None) -> None:
        """Write, and return when it is durable; raise StoreError if that fails.

        `sync` counts instead of the field, if it is given.
        """
        self.running = True
        try:
            if self.before is not None:
                self.before()
            self._run((self.sync if sync is None else sync) or self.work.needs_sync())
        finally:
            self.running = False

    def _run(self, sync: bool) -> None:
        try:
            if sync:
                for segment in self.work.unsynced:
                    self._restore(segment, segment.size)
                    self._sync(segment, segment.size)
            for segment, buffer in self.parts:  # one after the other: no hole before what is on disk
                if sync and self.folder_changed and is_first(buffer):
                    # The names of files before it must be durable: a file whose name is lost looks like one
                    # that was dropped, and the commit journal only vouches for the newest.
                    self._fs.sync_folder(self._folder)
                    self.folder_changed = False
                self._write(segment, buffer)
                if sync:
                    self._sync(segment, buffer.base + buffer.size)
            if not sync:
                return
            if self.folder_changed:
                self._fs.sync_folder(self._folder)
                self.folder_changed = False
            self._overwrite()
        except StoreError as error:
            if error.full:
                self._make_room()
            if not (error.full and self.work.doomed and self._fs.spend_reserve()):
                raise
            self._run(sync)  # it frees more than it writes
            return
        self.synced = True
        try:
            self._summarize()
            self._remove_doomed()
        except StoreError as error:
            self.untidy = error

    def _open(self, segment: Segment, *, create: bool) -> File:
        if segment.file is None:
            path = segment_path(self._folder, segment.number)
            segment.file = self._fs.open(path, create=True) if create else open_segment_file(self._fs, path)
        file: File = segment.file
        return file

    def _write(self, segment: Segment, buffer: RecordBuffer) -> None:
        is_new = is_first(buffer)
        file = self._open(segment, create=is_new)
        self._restore(segment, buffer.base)
        buffer.seal()
        if isinstance(file, RealFile):
            allocate_ahead(file.descriptor(), buffer)
        start = buffer.base
        with buffer.view() as view:
            data: bytes | memoryview = view
            if is_new:
                self.folder_changed = True
                header = file_header(segment.start_seq)
                if len(view) > _MOST_COPIED:
                    self._put(file, 0, header)
                else:
                    start, data = 0, header + view
            self._put(file, start, data)

    def _put(self, file: File, start: int, data: bytes | memoryview) -> None:
        """Write `data` at `start`: the end of the file, or before it after a commit that failed.

        Bytes of the failed commit may be lost although they can be read.  They are written again, never cut
        off first: the next file may already exist.
        """
        _unfill(file)
        before = file.size() - start
        if before > 0:
            file.overwrite(start, bytes(data[:before]))
            data = data[before:]
        if len(data):
            file.append(data)

    def _restore(self, segment: Segment, end: int) -> None:
        """Write again, after a failed sync, what earlier commits had written without a sync."""
        if segment.doubtful and segment.synced < end:
            file = self._open(segment, create=False)
            file.overwrite(segment.synced, file.read(segment.synced, end - segment.synced))

    def _sync(self, segment: Segment, end: int) -> None:
        file = self._open(segment, create=False)
        if needs_note(segment, end):
            unsynced.note(self._fs, self._folder, segment.number, segment.synced)
            segment.noted = True
        try:
            file.sync()
        except StoreError:
            self._doubt(segment)
            raise
        if segment.doubtful:
            unsynced.clear(self._fs, self._folder, segment.number)
            segment.noted = False
        segment.doubtful = False
        segment.synced = end

    def _doubt(self, segment: Segment) -> None:
        segment.doubtful = segment.noted = True
        unsynced.try_to_note(self._fs, self._folder, segment.number, segment.synced)

    def _overwrite(self) -> None:
        places: dict[Segment, list[tuple[int, bytes]]] = {}
        for each in self.work.overwrites:
            places.setdefault(each.segment, []).append((each.offset, each.data))
        for segment, parts in places.items():
            overwrite_all(self._open(segment, create=False), parts)

    def _summarize(self) -> None:
        self.summarized = summarized = []
        for segment in self.work.unsummarized:
            _unfill(segment.file)  # a summary is believed if it gives the size of the file
            self._fs.replace(
                summary_path(self._folder, segment.number), summary.encode(segment, segment.all_bytes)
            )
            summarized.append(segment)
            if segment.noted:
                unsynced.clear(self._fs, self._folder, segment.number)
                segment.noted = False

    def _remove_doomed(self) -> None:
        unsynced = False
        for segment in self.work.doomed:
            if unsynced and _speaks_of_others(segment):
                self._fs.sync_folder(self._folder)  # what it says was removed must not come back
                unsynced = False
            self._remove(segment)
            unsynced = True
        if unsynced:
            self._fs.sync_folder(self._folder)
        self.removed = self.work.doomed

    def _remove(self, segment: Segment) -> None:
        if segment in self.work.unsynced:
            self.work.unsynced.remove(segment)
        if segment.noted:
            unsynced.clear(self._fs, self._folder, segment.number)
        self._fs.remove(summary_path(self._folder, segment.number))
        self._fs.remove(segment_path(self._folder, segment.number))

    def _make_room(self) -> None:
        """Free space on a full disk: remove files whose messages were all removed, before that is written.

        Excludes files that record removals in other files, and requires a later file that surely exists,
        because the last file records which sequences were used.  Removes nothing if the commit has messages:
        they may have displaced the others, and are not durable yet.
        """
        if self.stores or self.folder_changed or not self._newest.synced:
            return
        try:
            for segment in self.work.doomed:
                if not _speaks_of_others(segment):
                    self._remove(segment)
        except StoreError as error:
            self.untidy = error

    # -- plain commits ----------------------------------------------------------------------------

    def begin_plain(self) -> tuple[int, RecordBuffer] | None:
        """Return the open file and the records for its end, if a write and a sync are all that is to do.

        The commit counts as running until ``plain_ended``.
        """
        work = self.work
        if self.before is not None or not self.sync:
            return None
        if len(self.parts) + len(work.unsynced) != 1 or work.needs_sync() or work.folder_changed:
            return None
        if self.parts:
            segment, buffer = self.parts[0]
        else:  # a sync is all
            segment, buffer = work.unsynced[0], RecordBuffer()
            buffer.base = segment.size
        file = segment.file
        if segment.doubtful or not isinstance(file, RealFile) or file.size() != buffer.base:
            return None
        if needs_note(segment, buffer.base + buffer.size):
            return None
        self.running = True
        self._plain = segment, buffer
        buffer.filled = file.filled
        buffer.next_seq = self.last_seq + 1
        return file.descriptor(), buffer

    def plain_ended(self, failed_write: int, failed_sync: int) -> None:
        """End a commit that another thread wrote; raise StoreError for these error numbers."""
        self.running = False
        assert self._plain is not None
        segment, buffer = self._plain
        file = segment.file
        assert isinstance(file, RealFile)  # see ``begin_plain``
        file.filled = buffer.filled
        if failed_write:
            raise store_error("write", file.path, OSError(failed_write, ""))
        file.appended(buffer.size)
        if failed_sync:
            self._doubt(segment)
            raise store_error("sync", file.path, OSError(failed_sync, ""))
        segment.synced = buffer.base + buffer.size
        self.synced = True

    def size(self) -> int:
        """Return the size of the records for the first file, which is all that a journal writes."""
        if not self.parts:
            return 0
        buffer = self.parts[0][1]
        return buffer.size

    def begin_journaled(self, batch: JournalBatch, device: int) -> bool:
        """Add the records to a batch of the commit journal; return False if that is impossible.

        It is possible if the commit only appends to one file on the journal's disk, which has this `device`
        number. The file may be the first of the log; then it is created here, and its name is durable with
        the next sync. The commit counts as running until ``journaled_ended``.
        """
        work = self.work
        if len(self.parts) != 1 or work.unsynced or work.needs_sync():
            return False
        segment, buffer = self.parts[0]
        if segment.doubtful:
            return False
        base = buffer.base
        if segment.file is None and segment.number == 1 and base == FILE_HEADER_SIZE:
            try:
                self._open(segment, create=True)
            except StoreError:
                return False  # the other way tells why
            self.folder_changed = True
        file = segment.file
        if not isinstance(file, RealFile) or file.device != device:
            return False
        size = file.size()
        if file.filled > size:
            return False  # a journal writes no end marks
        header = b""
        if base == FILE_HEADER_SIZE and size == 0:
            base, header = 0, file_header(segment.start_seq)
        elif size != base:
            return False
        buffer.seal()
        batch.add(self.journal_key, segment.number, base, header, buffer, file.descriptor())
        self.running = True
        return True

    def journaled_ended(self) -> None:
        """End a commit whose records are durable in a journal, and in their file without a sync."""
        self.running = False
        segment, buffer = self.parts[0]
        file = cast(RealFile, segment.file)
        file.appended(buffer.base + buffer.size - file.size())
        self.journaled = True

    def give_back(self) -> None:
        """Put the bytes of a failed commit before those collected since."""
        for segment, buffer in self.parts:
            segment.return_pending(buffer)


def _unfill(file: File | None) -> None:
    """Cut off zeros that were written ahead, if there are any."""
    if isinstance(file, RealFile):
        file.unfill()


def _speaks_of_others(segment: Segment) -> bool:
    return segment.removals.count > 0 or segment.floor > 0
