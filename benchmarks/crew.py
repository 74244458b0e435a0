"""A few forked processes that start together, with the errors and figures of each brought home.

Each job runs in its own process, so no load generator shares an interpreter lock with another.  The
clock is CLOCK_MONOTONIC, the same for all of them.  Not here: what a job does (``load``, ``latency``).
"""

import gc
import multiprocessing
import multiprocessing.connection
import resource
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any, Final

_CONTEXT: Final = multiprocessing.get_context("fork")
_MEETING_S: Final = 60.0
RUN_LIMIT_S: Final = 180.0
_CLOCK_OF_PROCESS: Final = 2  # Linux: the clock of process `pid` has the number ~pid << 3 | 2


class CrewError(Exception):
    """A load generator failed; the text says which and why."""


@dataclass(slots=True)
class Stage:
    """The other jobs, as one job sees them."""

    meeting: Barrier
    server_pid: int | None
    _cpu_mark_s: float = 0.0
    _server_mark_s: float = 0.0

    def meet(self) -> None:
        """Wait until every job has come this far."""
        self.meeting.wait(_MEETING_S)

    def start(self) -> int:
        """Wait for the others, then start this job's clocks; returns the time in ns."""
        gc.collect()
        gc.disable()
        self._server_mark_s = self._server_cpu_s()
        self.meet()
        self._cpu_mark_s = _cpu_s()
        return time.monotonic_ns()

    def share(self, started_ns: int, latencies_ns: Sequence[int] = ()) -> "Share":
        """Stop the clocks."""
        return Share(
            started_ns=started_ns,
            ended_ns=time.monotonic_ns(),
            cpu_s=_cpu_s() - self._cpu_mark_s,
            server_cpu_s=self._server_cpu_s() - self._server_mark_s,
            latencies_ns=tuple(latencies_ns),
        )

    def _server_cpu_s(self) -> float:
        return 0.0 if self.server_pid is None else process_cpu_s(self.server_pid)


@dataclass(frozen=True, slots=True)
class Share:
    """The result of one job.  Times are CLOCK_MONOTONIC nanoseconds."""

    started_ns: int
    ended_ns: int
    cpu_s: float  # of this process
    server_cpu_s: float  # of the server meanwhile, to a hundredth of a second
    latencies_ns: tuple[int, ...] = ()


Job = Callable[[Stage], Share]


def run(jobs: Sequence[Job], *, server_pid: int | None = None) -> list[Share]:
    """Run every job in a process of its own and return their shares in the same order."""
    stage = Stage(_CONTEXT.Barrier(len(jobs)), server_pid)
    ends = []
    processes = []
    try:
        for job in jobs:
            ours, theirs = _CONTEXT.Pipe(duplex=False)
            process = _CONTEXT.Process(target=_work, args=(job, stage, theirs), daemon=True)
            process.start()
            theirs.close()
            ends.append(ours)
            processes.append(process)
        return _gather(ends)
    finally:
        for process in processes:
            process.join(0.5)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for end in ends:
            end.close()


def shared_counters(count: int) -> Any:
    """Unsigned 64-bit counters that all jobs see; each is written by one job only."""
    return _CONTEXT.RawArray("Q", count)


def _work(job: Job, stage: Stage, home: "multiprocessing.connection.Connection") -> None:
    try:
        answer: Share | str = job(stage)
    except BaseException:
        stage.meeting.abort()
        answer = traceback.format_exc()
    home.send(answer)
    home.close()


def _gather(ends: "Sequence[multiprocessing.connection.Connection]") -> list[Share]:
    shares: dict[int, Share] = {}
    trouble = ""
    deadline = time.monotonic() + RUN_LIMIT_S
    while len(shares) < len(ends):
        waiting = [end for index, end in enumerate(ends) if index not in shares]
        ready = multiprocessing.connection.wait(waiting, max(0.0, deadline - time.monotonic()))
        if not ready:
            raise CrewError(trouble or f"no end after {RUN_LIMIT_S:.0f} s")
        for index, end in enumerate(ends):
            if end not in ready:
                continue
            try:
                answer = end.recv()
            except EOFError:
                answer = "a load generator died without a word"
            if isinstance(answer, Share):
                shares[index] = answer
            elif "BrokenBarrierError" not in answer:
                raise CrewError(answer)
            else:  # another job broke the meeting off; its own report says why and is on its way
                trouble = answer
                shares[index] = Share(0, 0, 0.0, 0.0)
                deadline = min(deadline, time.monotonic() + 2.0)
    if trouble:
        raise CrewError(trouble)
    return [shares[index] for index in range(len(ends))]


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def process_cpu_s(pid: int) -> float:
    """Return the processor time that another process has used so far, all its threads together.

    The clock has nanoseconds, where ``/proc`` has hundredths of a second: a short round takes as much.
    """
    return time.clock_gettime(~pid << 3 | _CLOCK_OF_PROCESS)
