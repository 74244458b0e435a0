"""What this process takes of the machine: memory, processor time, cores."""

import os
import resource
import time
from pathlib import Path
from typing import Final

_STATM: Final = Path("/proc/self/statm")
_WINDOW_S: Final = 1.0  # a shorter interval says little about the load


def resident_bytes() -> int:
    """Memory in use; on systems without /proc the most that was ever in use."""
    try:
        pages = int(_STATM.read_bytes().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


class ProcessorLoad:
    """Percent of one processor, averaged since it was last asked for (but over a second at least)."""

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
