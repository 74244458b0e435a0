"""`/stacksz`, `/ipqueuesz` and `/debug/vars`: internals of the process, for debugging."""

from __future__ import annotations

import asyncio
import gc
import io
import sys
import threading
import traceback
from typing import Any, Final

from millstream.server.monitor import process

_SECRET_FLAGS: Final = frozenset({"-user", "-pass", "-auth"})
_REDACTED: Final = "[REDACTED]"


def stacks() -> bytes:
    """Return the stacks of all threads and of all running tasks of the loop."""
    out = io.StringIO()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        out.write(f"thread {ident} [{names.get(ident, 'unknown')}]:\n")
        traceback.print_stack(frame, file=out)
        out.write("\n")
    current = asyncio.current_task()
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        out.write(f"task {task.get_name()} [{'running' if task is current else 'waiting'}]:\n")
        task.print_stack(file=out)
        out.write("\n")
    return out.getvalue().encode(errors="replace")


def queues() -> dict[str, Any]:
    """Return the queues between goroutines, of which this server has none."""
    return {}


def variables() -> dict[str, Any]:
    """Return the command line without its secrets, and the use of memory."""
    collections = gc.get_stats()
    return {
        "cmdline": redacted(sys.argv),
        "memstats": {
            "Sys": process.resident_bytes(),
            "NumGC": sum(generation["collections"] for generation in collections),
            "Frees": sum(generation["collected"] for generation in collections),
            "HeapObjects": sum(gc.get_count()),
        },
    }


def redacted(arguments: list[str]) -> list[str]:
    """Return the arguments with credentials such as ``--pass x`` or ``-pass=x`` replaced."""
    shown: list[str] = []
    hide_next = False
    for argument in arguments:
        flag, equals, _ = argument.partition("=")
        is_secret = flag.startswith("-") and f"-{flag.lstrip('-')}" in _SECRET_FLAGS
        if hide_next:
            shown.append(_REDACTED)
        elif is_secret and equals:
            shown.append(f"{flag}={_REDACTED}")
        else:
            shown.append(argument)
        hide_next = is_secret and not equals and not hide_next
    return shown
