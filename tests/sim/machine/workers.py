"""The server's threads: simulated work that begins and ends when the seed says.

Implements what ``server.workers.Workers`` offers to JetStream.  A job runs in one piece, somewhere between
its submission and its end; the loop goes on before and after.  A commit takes the ways of the real one: a
writer that only writes and syncs, the loop itself, the real commit journal, or a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from millstream.jetstream.ports import JournalOfCommits, NoJournal
from millstream.jetstream.stream.ticket import Ticket
from millstream.server.commit_journal import CommitJournal
from millstream.store.record import RecordBuffer
from tests.kits.store.plain_write import write_plainly
from tests.sim.machine.disk import SimDisk
from tests.sim.machine.journal import SIZE, SimJournalDisk
from tests.sim.machine.loop import ServerLoop, SimLoop

_NO_JOURNAL = NoJournal()


class DiskPace:
    """Speed of the disk; drawn from the seed for each run."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._usual_s = random.choice((0.000_1, 0.002, 0.02))
        self.stalls = random.choice((0.0, 0.02))
        self.slow_s = 0.0  # more, while a fault lasts

    def draw_s(self) -> float:
        took = self._usual_s * self._random.random() * 2
        if self.slow_s:
            took += self.slow_s * self._random.random()
        return took + (self._random.random() * 4.0 if self._random.random() < self.stalls else 0.0)


class _PlainWrite:
    """A commit that is one write and one sync."""

    def __init__(
        self, disk: SimDisk, ticket: Ticket, descriptor: int, buffer: RecordBuffer, *, ahead: bool
    ) -> None:
        self.ticket = ticket
        self._file = disk.file(descriptor)
        self._buffer = buffer
        self._ahead = ahead
        self._outcome: tuple[int, int] | None = None  # error numbers of write and sync

    def run(self) -> None:
        if self._outcome is None:
            self._outcome = write_plainly(self._file, self._buffer, ahead=self._ahead)

    def end(self) -> None:
        assert self._outcome is not None
        self.ticket.plain_ended(*self._outcome)


class SimWorkers:
    """The threads of one life of the server."""

    def __init__(
        self,
        loop: ServerLoop,
        sim: SimLoop,
        disk: SimDisk,
        random: Random,
        pace: DiskPace,
        turn: Callable[..., None],
    ) -> None:
        self._loop = loop
        self._sim = sim
        self._disk = disk
        self._random = random
        self._pace = pace
        self._turn = turn
        self.journal: JournalOfCommits = _NO_JOURNAL
        self._commits: CommitJournal | None = None
        self.plain = 0
        self.journaled = 0
        self.on_loop = 0
        self._quick = random.random() < 0.3  # the loop writes commits itself
        self._fills = random.random() < 0.7
        self._direct = random.random() < 0.8  # commits are written without the interpreter
        self._writing: dict[Ticket, _PlainWrite] = {}

    def use_journal(self, folder: str, first_number: int, erase_within_s: float) -> None:
        """Use the commit journal, and much earlier than the real one would."""
        self._fills = False  # as with many commits: files with zeros ahead take no part
        disk = SimJournalDisk(self._disk, self._later, self._loop.readable)
        self.journal = self._commits = CommitJournal(
            self._loop,  # type: ignore[arg-type]
            folder,
            first_number,
            self.submit,
            self._turn,
            size=SIZE,
            worth=self._random.choice((1, 1, 3)),
            erase_within_s=lambda: erase_within_s,
            disk=disk,
        )

    def _later(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._sim.after(self._loop.owner, self._pace.draw_s(), callback, *arguments)

    @property
    def ending_many(self) -> bool:
        return self._commits is not None and self._commits.ending

    def submit(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._sim.after(self._loop.owner, self._pace.draw_s(), self._run, work, done)

    def _run(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        problem: Exception | None = None
        try:
            work()
        except Exception as error:
            problem = error
        self._sim.after(self._loop.owner, self._pace.draw_s() / 4, self._turn, "end of work", done, problem)

    def start(self, commit: Any, owner: Any, publisher: int) -> Ticket:
        ticket = Ticket(commit, owner, publisher)
        journal = self._commits
        if journal is not None and (journal.busy or self._random.random() < 0.8) and journal.take(ticket):
            self.journaled += 1
            return ticket
        plain = commit.begin_plain() if self._direct and len(self._writing) < 4 else None
        if plain is None:
            self.submit(ticket.run, ticket.tell)
        else:
            write = _PlainWrite(self._disk, ticket, *plain, ahead=self._fills)
            if self._quick and not self._writing and self._random.random() < 0.5:
                self.on_loop += 1
                ticket.begun(lambda _: None)
                write.run()
                write.end()
                ticket.tell(None)
            else:
                self.plain += 1
                self._writing[ticket] = write
                ticket.begun(self._wait)
                self._sim.after(self._loop.owner, self._pace.draw_s(), self._begin, write)
        return ticket

    def _begin(self, write: _PlainWrite) -> None:
        """Write in the thread; the loop learns of it later."""
        write.run()
        self._sim.after(self._loop.owner, self._pace.draw_s() / 4, self._readable, write)

    def _readable(self, write: _PlainWrite) -> None:
        if self._writing.pop(write.ticket, None) is not None:
            write.end()
            self._turn("commit ended", write.ticket.tell, None)

    def _wait(self, ticket: Ticket) -> None:
        """End at once the write of a commit that somebody cannot wait for."""
        write = self._writing.pop(ticket, None)
        if write is not None:
            write.run()
            write.end()
            self._loop.call_soon(self._turn, "commit ended", ticket.tell, None)

    def shutdown(self) -> None:
        if self._commits is not None:
            self._commits.close()
            self._commits = None
            self.journal = _NO_JOURNAL
        for ticket in list(self._writing):
            self._wait(ticket)
