"""Keep the duplicate window of a stream in flat memory: write ids to files, merge these, drop the old ones.

    recent ids ──(too many, and their messages durable)──▶ a file ──(eight of a size)──▶ a larger file
                                                            └──(its newest id is too old)──▶ removed

A worker does one of these at a time.  A file has only ids of durable messages, and all ids of a range of
sequences, so a start reads the messages of the other sequences alone (``header_recovery``).  A file is never
believed if its checksums are wrong: at a start the ids are read again from the messages, and so are those of
a damaged part that is found later; until then, messages whose ids may be in it are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.base.slices import Pieces
from millstream.jetstream.dedupe.builder import ENTRY_SIZE
from millstream.jetstream.dedupe.files import GivenUp, IdFile, IdFiles
from millstream.jetstream.dedupe.generation import DamagedIds, Generation
from millstream.jetstream.stream.header_recovery import ids_between
from millstream.jetstream.stream.worker_job import WorkerJob
from millstream.store.errors import StoreError

if TYPE_CHECKING:
    from millstream.jetstream.dedupe.recent import RecentIds
    from millstream.jetstream.ports import Cancel
    from millstream.jetstream.stream.stream import Stream

_log = logging.getLogger("millstream.jetstream")

_NS: Final = 1_000_000_000
_RETRY_S: Final = 10.0  # between tries to write to a disk that failed
_SHORTEST_TIMER_S: Final = 1.0
_LONGEST_TIMER_S: Final = 60.0  # the clock may be set forward meanwhile
_MERGED_AT_ONCE: Final = 8  # files
_MOST_MERGED: Final = 16_000_000  # ids; such a file takes a worker about a second


class IdKeeper:
    """The files with the ids of one stream."""

    def __init__(self, stream: Stream, files: IdFiles) -> None:
        self._stream = stream
        self._dedupe = stream.dedupe
        self._files = files
        self._kept: list[IdFile] = []  # oldest first
        self._next = 1  # the number of the next generation
        self._work: WorkerJob | None = None
        self._settle: Callable[[], None] | None = None  # takes over what the work has done
        self._timer: Cancel | None = None
        self._failed = False  # the last work; it is tried again by the timer
        self._mending: dict[Generation, set[int]] = {}  # damaged buckets that are to be read again
        self._loaded = False  # the folder is the stream's own
        self._stopped = False

    def configure(self) -> None:
        """Apply the limits of memory, and the window of the stream."""
        resources = self._stream.resources
        self._dedupe.most = resources.ids_in_memory
        self._dedupe.least = resources.least_ids
        self._dedupe.damaged = self._notice_damage
        if self._kept and self._timer is not None and not self._failed:
            self._tend()

    # -- at a start -------------------------------------------------------------------------------

    def load(self, names: Sequence[str]) -> None:
        """Search the files with these names; nothing may have been added to the window yet."""
        self._loaded = True
        if not names:
            return
        found = self._files.load(names, self._stream.log.last_seq)
        for reason in found.damaged:
            _log.error(
                "stream %s: ids of messages are read from the messages again: %s", self._stream.name, reason
            )
        if found.files:
            self._dedupe.use_key(found.key)
            self._kept = found.files
            self._next = found.files[-1].last + 1
            self._search()

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the ranges of these sequences whose ids are in no file."""
        found = []
        for each in self._kept:
            generation = each.generation
            if first < generation.first_seq:
                found.append((first, min(last, generation.first_seq - 1)))
            first = max(first, generation.last_seq + 1)
            if first > last:
                return [gap for gap in found if gap[0] <= gap[1]]
        found.append((first, last))
        return [gap for gap in found if gap[0] <= gap[1]]

    def make_room(self) -> None:
        """Write recent ids if they are too many, at a start, which may take its time."""
        if self._loaded and self._dedupe.full and self._dedupe.older is None:
            self._dedupe.set_aside()
            self._write_now()

    def start(self) -> None:
        if not self._stream.in_memory:
            self._tend()

    # -- while it runs ----------------------------------------------------------------------------

    def write(self) -> None:
        """Write recent ids, because there are too many; called when a commit has ended."""
        dedupe = self._dedupe
        if self._stopped or self._work is not None or self._failed:
            dedupe.full = False  # until that has ended
            return
        ids = dedupe.older
        if ids is None:
            if not dedupe.recent.held():
                dedupe.full = False
                return
            ids = dedupe.set_aside()
        dedupe.full = ids.last_seq > self._stream.log.committed  # then the next commit comes back to it
        if not dedupe.full:
            self._run(*self._writing(ids))

    def _writing(self, ids: RecentIds) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return the work of writing ids, and what follows on the loop."""
        made: list[IdFile] = []
        number, key = self._next, self._dedupe.key
        reached = self._kept[-1].generation.last_seq if self._kept else 0
        first = min(max(ids.first_seq, reached + 1), ids.last_seq)

        def work() -> None:
            made.append(self._files.write(number, ids.entries(), first, ids.last_seq, ids.last_ns, key))

        def settle() -> None:
            self._next = number + 1
            self._kept += made
            self._search(written=True)

        return work, settle

    def _merging(self, files: list[IdFile]) -> tuple[Callable[[], None], Callable[[], None]]:
        made: list[IdFile] = []
        key = self._dedupe.key

        def work() -> None:
            made.append(self._files.merge(files, key, lambda: self._stopped))

        def settle() -> None:
            at = self._kept.index(files[0])
            self._kept[at : at + len(files)] = made
            self._search()
            self._removing(files)

        return work, settle

    def _removing(self, files: list[IdFile]) -> None:
        """Remove files that are not searched any more, in a worker: freeing large ones takes long."""

        def ended(error: Exception | None) -> None:
            if error is not None:
                _log.error(
                    "stream %s: ids cannot be removed before the next start: %s", self._stream.name, error
                )

        self._stream.world.run_in_worker(partial(self._files.remove, files), ended)

    def _search(self, *, written: bool = False) -> None:
        generations = [each.generation for each in reversed(self._kept)]
        self._dedupe.search(generations, written=written)

    def _tend(self) -> None:
        """Drop files that are too old, merge others, and plan when to look again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._failed = False
        if self._stopped or self._work is not None:
            return
        oldest_ns = self._stream.world.now_ns() - self._dedupe.window_ns
        old = [each for each in self._kept if each.generation.last_ns <= oldest_ns]
        if old:
            self._kept = [each for each in self._kept if each not in old]
            self._search()
            self._removing(old)
        files = self._to_merge()
        if files:
            self._run(*self._merging(files))
        elif self._kept:
            ends_s = (self._kept[0].generation.last_ns - oldest_ns) / _NS
            self._timer = self._stream.world.call_later(
                min(max(ends_s, _SHORTEST_TIMER_S), _LONGEST_TIMER_S), self._tend
            )

    def _to_merge(self) -> list[IdFile]:
        """Return the newest files if they are many of about the same size, without a gap between them."""
        bound = 2 * self._dedupe.most
        while bound < _MOST_MERGED * _MERGED_AT_ONCE:
            files: list[IdFile] = []
            for each in reversed(self._kept):
                end = each.generation.last_seq + 1
                if each.generation.count > bound or (files and files[0].generation.first_seq != end):
                    break
                files.insert(0, each)
            if len(files) >= _MERGED_AT_ONCE and sum(each.generation.count for each in files) <= _MOST_MERGED:
                return files
            bound *= _MERGED_AT_ONCE
        return []

    # -- work -------------------------------------------------------------------------------------

    def _run(self, work: Callable[[], None], settle: Callable[[], None]) -> None:
        job = self._work = WorkerJob(work)
        self._settle = settle
        try:
            self._stream.world.run_in_worker(job.run, lambda _: self._ended(job))
        except Exception as error:  # no thread can be had
            if job.take():
                job.error = error
                job.set_ended()
            self._ended(job)

    def _ended(self, job: WorkerJob) -> None:
        if job.settled:
            return
        job.settled = True
        self._work = None
        settle, self._settle = self._settle, None
        error = job.error
        if error is None and settle is not None:
            guard.alone("using a file of ids", settle)
            self._tend()
            return
        if self._stopped or isinstance(error, GivenUp):
            return
        if isinstance(error, DamagedIds):
            self._notice_damage(error)
        _log.error("stream %s: ids are not written: %s", self._stream.name, error)
        self._failed = self._dedupe.older is not None
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._stream.world.call_later(_RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        self._failed = False
        if self._dedupe.older is not None:
            self.write()
        else:
            self._tend()

    # -- damage -----------------------------------------------------------------------------------

    def _notice_damage(self, error: DamagedIds) -> None:
        """Read the entries of a damaged bucket again from the messages, in slices.

        A file is read for one time after the other, each for all buckets that are known to be damaged then.
        """
        generation, bucket = error.generation, error.bucket
        waiting = self._mending.get(generation, set())
        if self._stopped or bucket in waiting:
            return
        _log.error(
            "stream %s: ids of messages are read from the messages again: %s", self._stream.name, error
        )
        waiting.add(bucket)
        if generation not in self._mending:
            self._mending[generation] = waiting
            self._stream.world.in_slices("reading ids of messages", self._mend(generation, waiting))

    def _mend(self, generation: Generation, waiting: set[int]) -> Pieces[None]:
        try:
            while waiting:
                yield from self._mend_some(generation, list(waiting))
                waiting.difference_update(generation.mended)
                if self._stopped:
                    return
        except StoreError as error:
            _log.error("stream %s: ids of messages cannot be read: %s", self._stream.name, error)
        finally:
            del self._mending[generation]  # after an error, the next message that needs them tries again

    def _mend_some(self, generation: Generation, buckets: list[int]) -> Pieces[None]:
        found = {bucket: bytearray() for bucket in buckets}
        for seq, timestamp, message_id in ids_between(
            self._stream, generation.first_seq, generation.last_seq
        ):
            yield 1
            if self._stopped:
                return
            if not message_id:
                continue
            high, low = self._dedupe.hash_of(message_id)
            entries = found.get(((high >> 32) * generation.buckets) >> 32)
            if entries is not None:
                for number in (high, low, seq, timestamp % 2**64):
                    entries += number.to_bytes(8, "little")
        for bucket, entries in found.items():
            generation.mend(bucket, bytes(entries))
        _log.warning(
            "stream %s: %d ids were read again; ids of removed messages may be forgotten",
            self._stream.name,
            sum(map(len, found.values())) // ENTRY_SIZE,
        )

    # -- the end ----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Return when nothing is being written."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        job = self._work
        if job is not None:
            job.finish()
            self._ended(job)

    def keep(self) -> None:
        """Write the ids that are only in memory, if they are many, so that the next start reads no messages.

        Everything in the log is durable.  An error costs time at the next start and nothing else.
        """
        if self._stream.in_memory:
            return
        if self._dedupe.older is not None:
            self._write_now()
        recent = self._dedupe.recent
        if recent.held() >= self._dedupe.least:
            oldest_ns = self._stream.world.now_ns() - self._dedupe.window_ns
            if recent.last_ns > oldest_ns and self._dedupe.older is None:
                self._dedupe.set_aside()
                self._write_now()

    def _write_now(self) -> None:
        """Write the ids that were set aside."""
        if self._dedupe.older is not None:
            work, settle = self._writing(self._dedupe.older)
            try:
                work()
            except StoreError as error:
                _log.error("stream %s: ids are not written: %s", self._stream.name, error)
            else:
                settle()

    def close(self) -> None:
        """Close all files."""
        for each in self._kept:
            each.generation.file.close()
        self._kept = []
        self._search()
