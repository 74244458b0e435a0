"""Work for a worker thread that its owner can run at once if it cannot wait."""

from __future__ import annotations

import threading
from collections.abc import Callable


class WorkerJob:
    """Work that is run by whoever takes it first."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.error: Exception | None = None
        self.settled = False  # its end is dealt with
        self._work: Callable[[], None] | None = work
        self._untaken = threading.Lock()
        self._unended = threading.Lock()  # held until it has ended; publishers wait, and an Event costs more
        self._unended.acquire()

    def run(self) -> None:
        if self.take() and self._work is not None:
            self.end(self._work)

    def take(self) -> bool:
        """Return True if the caller is the first, and must ``end`` it."""
        return self._untaken.acquire(blocking=False)

    def give_back(self) -> None:
        """Let another take work that its taker does not do."""
        self._untaken.release()

    def end(self, last_step: Callable[[], None]) -> None:
        """Run the last step and record the outcome."""
        try:
            last_step()
        except Exception as error:
            self.error = error
        finally:
            self.set_ended()

    def set_ended(self) -> None:
        """Let those go on who wait for its end."""
        # Often a method of a subclass: a job in such a cycle would keep all bytes of its commit until the
        # garbage collector comes by.
        self._work = None
        self._unended.release()

    def finish(self) -> None:
        """Return when the work has ended, wherever it runs."""
        self.run()
        with self._unended:
            pass
