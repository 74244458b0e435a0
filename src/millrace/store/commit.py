"""One group commit: bytes that gathered in memory, written and synced together.

Built on the thread that appends, run on any other.  A segment that was sealed since the last commit
gets its summary here, and files of segments that are no longer needed go, after everything that
says so is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millrace.store import summary
from millrace.store.segment import file_header

if TYPE_CHECKING:
    from millrace.store.fs import FileSystem
    from millrace.store.record import RecordBuffer
    from millrace.store.segment import Segment


def segment_path(folder: str, number: int) -> str:
    return f"{folder}/{number:010d}.log"


def summary_path(folder: str, number: int) -> str:
    return f"{folder}/{number:010d}.sum"


class Commit:
    """What to make durable."""

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        changed: list[Segment],
        doomed: list[Segment],
        last_seq: int,
    ) -> None:
        self._fs = fs
        self._folder = folder
        self.last_seq = last_seq
        self.doomed = doomed
        self._parts: list[tuple[Segment, RecordBuffer]] = [
            (segment, segment.take_pending()) for segment in changed
        ]
        # The tables of a sealed segment do not change any more, so they can be read elsewhere.
        self._to_summarize = [each for each in changed if each.sealed and not each.summarized]

    def run(self, *, sync: bool = True) -> None:
        """Write, and return when it is durable; StoreError if that fails."""
        created = False
        for segment, buffer in self._parts:
            if segment.file is None:
                path = segment_path(self._folder, segment.number)
                file = self._fs.open(path, create=True)
                if file.size() == 0:
                    file.append(file_header(segment.base_seq))
                segment.file = file
                created = True
            buffer.seal()
            segment.file.append(buffer.peek())
            if sync:
                segment.file.sync()
        if created and sync:
            self._fs.sync_folder(self._folder)
        for segment in self._to_summarize:
            self._fs.replace(
                summary_path(self._folder, segment.number), summary.encode(segment, segment.all_bytes)
            )
            segment.summarized = True
        for segment in self.doomed:
            if segment.file is not None:
                segment.file.close()
                segment.file = None
            self._fs.remove(summary_path(self._folder, segment.number))
            self._fs.remove(segment_path(self._folder, segment.number))

    def give_back(self) -> None:
        """After a failed run: put the bytes in front of what gathered since."""
        for segment, buffer in self._parts:
            segment.return_pending(buffer)
