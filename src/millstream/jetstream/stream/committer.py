"""Group commit: what all streams collected while input was processed becomes durable together.

A stream with something to commit calls ``dirty``.  When the current input is processed, each of them starts
one commit in a worker thread; what it collects meanwhile goes with the next.  Publishers get their acks and
readers are notified only when the commit has ended.

While the commit journal has enough for its next batch, streams wait with their commits: what they gather
meanwhile goes with the same one.  Publishers take turns, so that nobody waits for all streams that somebody
else publishes to.

Streams that do not wait for the disk (``sync`` is false) are written at once; a timer lets one of their
commits sync everything written since the last time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from millstream.base import guard
from millstream.jetstream.resources import Resources
from millstream.jetstream.stream.committed_log import TOLD_AT_ONCE, Committing
from millstream.jetstream.stream.compactor import Compactor
from millstream.jetstream.stream.eraser import Eraser
from millstream.jetstream.stream.fair_queue import FairQueue
from millstream.jetstream.stream.ticket import Ticket
from millstream.jetstream.stream.worker_job import WorkerJob

if TYPE_CHECKING:
    from millstream.jetstream.ports import Cancel, World
    from millstream.store.commit import Commit

_log = logging.getLogger("millstream.jetstream")

_STARTS_AT_ONCE: Final = 128  # commits that are begun before others have their turn
_STARTS_BETWEEN_LOOKS: Final = 8  # at the clock
_LONGEST_STEP_NS: Final = 1_500_000
_TELLING_NS: Final = 3_000_000  # longer than clients are read from, so that waiting requests get fewer
DEFAULT_SYNC_INTERVAL_S: Final = 120.0  # for what is not synced at every commit; nats-server's


class _Creating(WorkerJob):
    """The creation of a stream's folder."""

    def __init__(self, work: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        WorkerJob.__init__(self, work)
        self.failed = failed


class Committer:
    """The committer of all streams of an account."""

    def __init__(
        self, world: World, resources: Resources | None = None, sync_interval_s: float | None = None
    ) -> None:
        self._world = world
        self._interval_s = sync_interval_s if sync_interval_s is not None else DEFAULT_SYNC_INTERVAL_S
        self._dirty = FairQueue()
        self._running: dict[Committing, Ticket] = {}
        self._creating: dict[Committing, _Creating] = {}  # their commits wait
        self._held: dict[Committing, int] = {}  # their commits wait, too
        # They became dirty while a commit was under way: by whose messages.
        self._again: dict[Committing, int] = {}
        self._waiting = FairQueue()  # until the commit journal has room
        self._asked_for_room = False
        self._planned = False
        self._telling: set[Committing] = set()  # those with callbacks of durable commits left
        self._unsynced: dict[Committing, None] = {}  # written, and to be synced when the timer fires
        self._overdue: set[Committing] = set()  # the timer fired: the next commit syncs
        self._timer: Cancel | None = None
        self.stopping = False  # streams that are forgotten now stay on disk
        self.leaves_to_journal = False  # it syncs what it vouches for when it is closed
        self._untidy: dict[Committing, str] = {}  # why the last commit left something to do; empty if nothing
        self.compactor = Compactor(world, self.dirty)
        self.eraser = Eraser(world, resources or Resources(), self.compactor, self.dirty)

    def dirty(self, stream: Committing) -> None:
        """Schedule a commit of a stream that has something to commit, or acks that wait for one."""
        self._dirty.add(stream, self._world.publisher)
        if not self._planned:
            self._planned = True
            self._world.call_soon(self._run)

    def create(
        self, stream: Committing, work: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        """Run `work`, which makes the stream's folder, in a worker.  Commits of the stream wait for it."""
        creating = _Creating(work, failed)
        self._creating[stream] = creating
        self.dirty(stream)  # whoever waits for a commit waits for the folder
        try:
            self._world.run_in_worker(creating.run, lambda _: self._created(stream, creating))
        except Exception:  # no thread can be had
            creating.run()
            self._created(stream, creating)

    def creates(self, stream: Committing) -> bool:
        """Return True if the stream's folder is not made yet."""
        return stream in self._creating

    def _created(self, stream: Committing, creating: _Creating) -> None:
        if creating.settled:
            return
        creating.settled = True
        self._creating.pop(stream, None)
        again = self._again.pop(stream, None) is not None
        if creating.error is not None:
            creating.failed(creating.error)
        elif again:
            self.dirty(stream)

    def hold(self, stream: Committing) -> None:
        """Let commits of a stream wait until ``release`` was called as often as this."""
        self._held[stream] = self._held.get(stream, 0) + 1

    def release(self, stream: Committing) -> None:
        left = self._held.pop(stream, 0) - 1
        if left > 0:
            self._held[stream] = left
        elif stream not in self._running and self._again.pop(stream, None) is not None:
            self.dirty(stream)

    def wait(self, stream: Committing) -> None:
        """Wait until the stream is created, and no commit of it is being written.

        The end of the commit is processed later.
        """
        creating = self._creating.get(stream)
        if creating is not None:
            creating.finish()
            self._created(stream, creating)
        running = self._running.get(stream)
        if running is not None:
            running.finish()

    def forget(self, stream: Committing) -> None:
        """Stop writing this stream; return when nothing is being written."""
        self._dirty.discard(stream)
        self._waiting.discard(stream)
        self._again.pop(stream, None)
        self._unsynced.pop(stream, None)
        self._overdue.discard(stream)
        self._untidy.pop(stream, None)
        self._held.pop(stream, None)
        creating = self._creating.pop(stream, None)
        if creating is not None:
            creating.finish()
            creating.settled = True
        running = self._running.pop(stream, None)
        if running is not None:
            running.finish()
            running.settled = True
        if stream.journal_key and not self.stopping:
            self._world.journal.synced(stream.journal_key)  # nothing of it is needed any more
        self.compactor.forget(stream)
        self.eraser.forget(stream)

    def _run(self) -> None:
        """Begin commits, some at a time: there may be thousands, and others need their turn."""
        self._planned = False
        self._start_some(self._dirty, self._start_in_turn)
        if self._dirty and not self._planned:
            self._planned = True
            self._world.call_soon(self._run)

    def _start_some(self, queue: FairQueue, start: Callable[[Committing, int], bool]) -> None:
        """Call `start` with streams until it returns False or enough of them were started for now."""
        end = self._world.steady_ns() + _LONGEST_STEP_NS
        self._world.journal.expected = len(queue)
        count = 0
        while count < _STARTS_AT_ONCE:
            stream = queue.pop()
            if stream is None:
                return
            count += 1
            try:
                if not start(stream, queue.publisher):
                    return
            except Exception as error:
                guard.report("beginning a commit", error)
            # One may make a file, for one thing.
            if count % _STARTS_BETWEEN_LOOKS == 0 and self._world.steady_ns() > end:
                return

    def _start_in_turn(self, stream: Committing, publisher: int) -> bool:
        if stream in self._waiting:
            return True  # its turn comes
        if stream in self._running or not self._has_to_wait(stream, publisher):
            self._start(stream, publisher)
        return True

    def _has_to_wait(self, stream: Committing, publisher: int) -> bool:
        """Make a stream wait if its commit would wait in the journal; ``_use_room`` starts it later."""
        journal = self._world.journal
        if not stream.sync or not stream.journal_key or not journal.crowded or journal.has_place(publisher):
            return False
        stream.commit_waits()
        self._waiting.add(stream, publisher)
        self._ask_for_room()
        return True

    def _ask_for_room(self) -> None:
        if not self._asked_for_room:
            self._asked_for_room = True
            self._world.journal.when_room(self._use_room)

    def _use_room(self) -> None:
        """Begin commits until the journal has enough of them, some at a time."""
        self._asked_for_room = False
        self._start_some(self._waiting, self._start_with_room)
        if self._waiting:
            self._ask_for_room()

    def _start_with_room(self, stream: Committing, publisher: int) -> bool:
        self._start(stream, publisher)
        return not self._world.journal.crowded

    def _start(self, stream: Committing, publisher: int) -> None:
        """Begin a commit; `publisher` is the client that made the stream wait."""
        if stream in self._running or stream in self._creating or stream in self._held:
            self._again[stream] = publisher
            stream.commit_waits()
            return
        overdue = stream in self._overdue
        commit = stream.log.begin_commit(overdue)
        stream.commit_begins()
        if commit is None:
            self._overdue.discard(stream)
            stream.commit_durable()
            stream.commit_ended()
        elif stream.in_memory:
            commit.run(sync=False)
            stream.log.end_commit(commit)
            self.tidy(stream)
            stream.commit_durable()
            stream.commit_ended()
        else:
            self._hand_over(stream, commit, publisher)

    def sync_soon(self, stream: Committing) -> None:
        """Sync unsynced writes with the next commit, which is scheduled now."""
        if not self.stopping:
            self._overdue.add(stream)
            self.dirty(stream)

    def _hand_over(self, stream: Committing, commit: Commit, publisher: int) -> None:
        """Have a commit written elsewhere; if it cannot begin, it has failed and is retried."""
        overdue = stream in self._overdue
        try:
            if stream.prepares:
                commit.before = stream.before_commit()
            # The file that `before` writes refers to the log's messages: a power cut must not take them.
            commit.sync = stream.sync or overdue or commit.before is not None
            if stream.sync and commit.before is None and not overdue:
                commit.journal_key = stream.journal_key
            ticket = self._world.writers.start(commit, stream, publisher)
        except Exception as error:  # no thread, no descriptor
            stream.log.fail_commit(commit)
            stream.commit_failed(error)
            return
        self._running[stream] = ticket
        ticket.then(self._ended)

    def _ended(self, ticket: Ticket) -> None:
        if ticket.settled:
            return  # somebody could not wait
        stream = ticket.owner
        if self._waits_for_journal(stream, ticket):
            return
        durable = self._settle(stream, ticket)
        # The disk is kept busy: the next commit begins before the publishers of this one are answered.
        again = self._again.pop(stream, None)
        if again is not None or (durable and stream.log.has_uncommitted()):
            publisher = ticket.publisher if again is None else again
            if not self._has_to_wait(stream, publisher):
                self._start(stream, publisher)
        if durable:
            stream.commit_ended()

    def tell_rest(self, stream: Committing) -> None:
        """Call those who wait for a durable commit for a while, and the rest in the next rounds."""
        if stream in self._telling:
            return
        end = self._world.steady_ns() + _TELLING_NS
        while stream.waiters.tell_durable(TOLD_AT_ONCE):
            if self._world.steady_ns() > end:
                self._telling.add(stream)
                self._world.call_soon(lambda: self._tell_more(stream))
                return

    def _tell_more(self, stream: Committing) -> None:
        self._telling.discard(stream)
        stream.tell_waiters()

    def _waits_for_journal(self, stream: Committing, ticket: Ticket) -> bool:
        """Delay the end of a commit that erased content while the journal has a copy of it."""
        if ticket.error is not None or not ticket.commit.work.overwrites:
            return False
        journal, key = self._world.journal, stream.journal_key
        if not journal.holds(key):
            return False
        journal.synced(key)
        journal.when_released(key, lambda: self._world.call_soon(lambda: self._ended(ticket)))
        return True

    def _settle(self, stream: Committing, ticket: Ticket) -> bool:
        """Settle a commit; return True if it is durable, and then call ``commit_ended``."""
        ticket.settled = True
        self._running.pop(stream, None)
        if ticket.error is not None:
            stream.log.fail_commit(ticket.commit)
            if stream.journal_key:
                self._world.journal.failed(stream.journal_key)
            stream.commit_failed(ticket.error)
            return False
        self._end(stream, ticket.commit)
        stream.commit_durable()
        return True

    def _end(self, stream: Committing, commit: Commit) -> None:
        stream.log.end_commit(commit)
        self._tell_untidy(stream, commit)
        if commit.synced:
            self._overdue.discard(stream)
            self._unsynced.pop(stream, None)
            if stream.journal_key:
                self._world.journal.synced(stream.journal_key)
        elif not commit.journaled:
            self._sync_later(stream)
        if not (commit.only_appends and stream.log.is_whole()):
            self.tidy(stream)

    def tidy(self, stream: Committing) -> None:
        """Remove deleted content of the stream from disk, gradually."""
        self.compactor.consider(stream)
        self.eraser.watch(stream)

    def _tell_untidy(self, stream: Committing, commit: Commit) -> None:
        """Log why a durable commit is not tidied up, if the reason is new; every commit retries it."""
        if commit.untidy is None and not self._untidy:
            return
        reason = str(commit.untidy) if commit.untidy is not None else ""
        if reason != self._untidy.get(stream, ""):
            self._untidy[stream] = reason
            if reason:
                _log.warning("a commit is durable, but its cleanup failed: %s", reason)

    def flush(self, stream: Committing) -> None:
        """Make everything durable in this thread, for shutdown; raise StoreError if that fails."""
        creating = self._creating.get(stream)
        if creating is not None:
            creating.finish()
            self._created(stream, creating)
            if creating.error is not None:
                raise creating.error
        running = self._running.get(stream)
        if running is not None:
            running.finish()
            if self._settle(stream, running):
                stream.commit_ended()
        self._again.pop(stream, None)
        vouched = self.leaves_to_journal and self._world.journal.holds(stream.journal_key)
        commit = stream.log.begin_commit(not vouched)
        stream.commit_begins()
        if commit is not None:
            commit.before = stream.before_commit() if stream.prepares else None
            try:
                commit.run(sync=not stream.in_memory)
            except Exception as error:
                stream.log.fail_commit(commit)
                if stream.journal_key:
                    self._world.journal.failed(stream.journal_key)
                stream.commit_failed(error)
                raise
            self._end(stream, commit)
        stream.commit_durable()
        stream.commit_ended()
        stream.waiters.tell_durable()  # there may be no next round of the loop

    # -- syncing by a timer -----------------------------------------------------------------------

    def _sync_later(self, stream: Committing) -> None:
        self._unsynced[stream] = None
        if self._timer is None:
            self._timer = self._world.call_later(self._interval_s, self._sync_all)

    def _sync_all(self) -> None:
        self._timer = None
        unsynced, self._unsynced = self._unsynced, {}
        for stream in unsynced:
            self._overdue.add(stream)
            self.dirty(stream)

    def stop(self) -> None:
        self.compactor.stop()
        self.eraser.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
