"""The tables of sealed segments: loaded for passes over many messages, and dropped again.

All logs share a part of the memory budget.  While it is exceeded, a log that loads tables drops those it
loaded first, except for a few: readers at several positions need one each.  Tables that were not used for a
while are dropped in any case (``rest``), and those of a segment that was sealed and not read since when a few
others are (``keep``).  Files are opened when they are read; a log keeps a bounded number
of them open.  Used only by the thread that appends.
"""

from __future__ import annotations

from collections import OrderedDict

from millstream.base.budget import BUDGET
from millstream.base.slices import Pieces
from millstream.store.block_file import open_segment_file
from millstream.store.commit import segment_path, summary_path
from millstream.store.errors import StoreError
from millstream.store.fs import File, FileSystem
from millstream.store.scan import scan
from millstream.store.segment import Segment, start_in_header
from millstream.store.summary import Summary, decode, load_tables
from millstream.store.waypoints import STRIDE

FEW_LOADED = 4  # sealed segments
_DROPPED_AT_ONCE = 2  # more than come meanwhile, which is one
MOST_OPEN = 256  # files of segments without tables
_MESSAGES_OF_AN_ITEM = 100  # for which a waypoint is chosen, in the time that other items of a slice take


class Tables:
    """The segments of a log whose tables are in memory."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        self._loaded: dict[Segment, int] = {}  # sealed ones and their bytes, the latest loaded last
        self._opened: OrderedDict[Segment, None] = OrderedDict()  # to read single messages, the latest last
        self.stride = STRIDE

    def move(self, folder: str) -> None:
        """Use the new name of the folder."""
        self._folder = folder

    def file(self, segment: Segment) -> File:
        if segment.file is None:
            segment.file = self._open(segment_path(self._folder, segment.number))
            if not segment.loaded:
                self._opened[segment] = None
                self._opened.move_to_end(segment)  # it may have been closed since, with its tables
                if len(self._opened) > MOST_OPEN:
                    self._close_opened(1)
        file: File = segment.file
        return file

    def _open(self, path: str) -> File:
        try:
            return open_segment_file(self._fs, path)
        except StoreError as error:
            if not error.recoverable or not self._opened:
                raise
        self._close_opened(len(self._opened))  # too many files are open, perhaps: others can be opened again
        return open_segment_file(self._fs, path)

    def _close_opened(self, count: int) -> None:
        for _ in range(count):
            segment, _ = self._opened.popitem(last=False)
            if not segment.pins and not segment.loaded:
                segment.close()

    def keep(self, segment: Segment) -> None:
        """Keep the tables of a segment that was sealed; drop some of earlier ones that nobody reads."""
        self._count(segment)
        segment.touched = False
        unread = [each for each in list(self._loaded)[:-FEW_LOADED] if not each.touched]
        for each in unread[:_DROPPED_AT_ONCE]:
            self._unload(each)

    def drop(self, segment: Segment) -> None:
        """Stop counting a segment that is gone or has no tables any more."""
        BUDGET.tables.take(-self._loaded.pop(segment, 0))

    def drop_all(self) -> None:
        """Drop all tables when the log is closed."""
        for segment in list(self._loaded):
            self.drop(segment)

    def _count(self, segment: Segment) -> None:
        self.drop(segment)
        size = segment.table_bytes()
        self._loaded[segment] = size
        segment.touched = True
        BUDGET.tables.take(size)

    def load(self, segment: Segment) -> Segment | None:
        """Load the segment's tables.

        If summary and file disagree, return a segment that describes the file.
        """
        summary = self._summary(segment)
        scanned = None
        if summary is not None:
            load_tables(segment, summary)
        else:
            scanned = self._scan(segment)
            segment.summarized = False
            same = scanned.count == segment.count and scanned.all_bytes == segment.all_bytes
            if same and scanned.erased == segment.erased:
                segment.adopt_tables(scanned)
                scanned = None
        self._count(segment)
        self.trim()
        return scanned

    def _summary(self, segment: Segment) -> Summary | None:
        """Return the segment's summary, if it is unchanged since the log was opened."""
        try:
            data = self._fs.read_all(summary_path(self._folder, segment.number))
            found = decode(data, read_before=True)
        except StoreError:
            return None
        if found is None or found.number != segment.number or found.log_size != segment.size:
            return None
        return found if found.count == segment.count else None

    def _scan(self, segment: Segment) -> Segment:
        file = self.file(segment)
        data = file.read(0, segment.size)
        scanned = Segment(segment.number, segment.base_seq)
        found = scan(scanned, data, start_in_header(data) is not None)
        if found.end < segment.size:
            scanned.note_gap(segment.size)
        return scanned

    def trim(self) -> None:
        """Drop the tables loaded first, but a few, while all logs together exceed their budget."""
        spare = len(self._loaded) - FEW_LOADED
        if spare <= 0 or not BUDGET.tables.is_exceeded():
            return
        for segment in list(self._loaded)[:-1]:
            if spare <= 0 or not BUDGET.tables.is_exceeded():
                return
            spare -= self._unload(segment)

    def rest(self) -> Pieces[None]:
        """Drop the tables that were not used since the last call."""
        for segment in list(self._loaded):
            if segment in self._loaded and not segment.touched:
                self._unload(segment)
                yield 1 + segment.count // _MESSAGES_OF_AN_ITEM
            segment.touched = False

    def _unload(self, segment: Segment) -> bool:
        if segment.pins or not segment.summarized or segment.pending.size:
            return False  # they are needed, and exist nowhere else
        self.drop(segment)
        segment.unload(self.stride)
        segment.close()
        return True
