"""The next commit of a log besides its records: removals, and work on files.

A commit takes it all (``take``).  What it leaves undone is put back before what was gathered meanwhile
(``put_back``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.store.commit import Overwrite, Work

if TYPE_CHECKING:
    from millstream.store.commit import Commit
    from millstream.store.segment import Segment


class NextCommit:
    """The gathered removals and work of one log."""

    def __init__(self) -> None:
        self.removing: list[int] = []
        self.erasing: list[int] = []
        self.floor = 0
        self.doomed: list[Segment] = []
        self.doubt = False  # something that counts already may not survive a power cut
        self.renamed = False  # a compacted file took the place of another
        self.tidying = False  # a commit is worth it for summaries and files of the ones before alone
        self.work = Work()  # and what the commits before it left
        self._spare: Work | None = None  # for the next commit

    def is_nothing(self) -> bool:
        """Return True if no commit is needed for it."""
        return not (
            self.removing
            or self.erasing
            or self.floor
            or self.doomed
            or self.renamed
            or self.doubt
            or self.tidying
            or self.work.jobs
        )

    def raise_floor(self, seq: int) -> None:
        """Record that everything below `seq` is removed."""
        if seq > self.floor:
            self.floor = seq

    def doom(self, segment: Segment) -> None:
        """Remove the files of a segment that is no longer needed.

        What it says is synced before: until the next file is durable, it tells which sequences are used.
        """
        self.doomed.append(segment)
        if segment in self.work.unsummarized:
            self.work.unsummarized.remove(segment)

    def add_overwrite(self, segment: Segment, offset: int, data: bytes) -> None:
        """Overwrite bytes of a file."""
        segment.pins += 1  # its file stays open for the thread that will do it
        self.work.overwrites.append(Overwrite(segment, offset, data))

    def sync_again(self, segment: Segment) -> None:
        """Write and sync a segment that could not be synced."""
        segment.doubtful = True
        self.work.unsynced.append(segment)
        self.work.folder_changed = True
        self.doubt = True

    def was_synced(self) -> None:
        """Record that everything written so far, and the names of files, were synced by the caller."""
        if self.doubt or True in [each.doubtful for each in self.work.unsynced]:
            return  # the next commit with a sync finds out
        for segment in self.work.unsynced:
            segment.synced = segment.size - segment.pending.size
        self.work.unsynced = []
        self.work.folder_changed = False

    def take(self, changed: list[Segment]) -> Work:
        """Return the work for a commit that also writes the segments `changed`; removals are logged."""
        work, self.work = self.work, self._spare or Work()
        self._spare = None
        if work.unsynced:
            work.unsynced = [each for each in work.unsynced if each not in changed]
        if self.doomed:
            work.doomed += self.doomed
            self.doomed = []
        work.folder_changed = work.folder_changed or self.renamed
        self.renamed = False
        self.doubt = False
        self.tidying = False
        return work

    def put_back(self, commit: Commit, left: Work) -> None:
        """Put what a commit left undone before what was gathered since."""
        since = self.work
        if left.unsynced and True in [each.doubtful for each in left.unsynced]:
            self.doubt = True  # so that it is tried again although there is nothing else to commit
        # Publishers wait for this, and nearly always there is nothing.
        if commit.folder_changed or not (left.is_nothing() and since.is_nothing()):
            if since.is_nothing() and not (left.doomed or self.doomed or commit.removed):
                left.folder_changed = commit.folder_changed
                self.work, self._spare = left, since
            else:
                self.work = self._together(commit, left, since)

    def _together(self, commit: Commit, left: Work, since: Work) -> Work:
        gone = set(left.doomed) | set(self.doomed) | set(commit.removed)
        return Work(
            [each for each in dict.fromkeys(left.unsynced + since.unsynced) if each not in commit.removed],
            left.overwrites + since.overwrites,
            [each for each in dict.fromkeys(left.unsummarized + since.unsummarized) if each not in gone],
            left.doomed + since.doomed,
            commit.folder_changed or since.folder_changed,
            left.jobs + since.jobs,
        )
