"""The resources of this process: memory, processor time, cores."""

import os
import resource
import time
from pathlib import Path
from typing import Final

_STATM: Final = Path("/proc/self/statm")
_WINDOW_S: Final = 1.0  # seconds; a shorter interval is too noisy


def resident_bytes() -> int:
    """Return the resident memory; on systems without /proc, its maximum so far."""
    try:
        pages = int(_STATM.read_bytes().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def cores() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class ProcessorLoad:
    """The load in percent of one processor, averaged since the last call and at least over a second."""

    def __init__(self) -> None:
        self._measured_at = time.monotonic()
        self._used = time.process_time()
        self._percent = 0.0

    def percent(self) -> float:
        now = time.monotonic()
        elapsed = now - self._measured_at
        if elapsed >= _WINDOW_S:
            used = time.process_time()
            self._percent = round(100 * (used - self._used) / elapsed, 1)
            self._measured_at = now
            self._used = used
        return self._percent


processor_load: Final = ProcessorLoad()
