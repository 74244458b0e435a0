"""Find objects of ours that outlive an operation: those in use for ever, and those in reference cycles.

    async with Server(...) as server:
        await nothing_stays(lambda: publish_and_leave(server))

The operation is repeated while the garbage collector is off, as on a server that is never quiet.  A type of
ours that has one more object for each repetition afterwards is reported, with a cycle through such an object
if there is one.  Objects of libraries are not counted, so a client of another project may be in the process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
import types
import weakref
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

REPETITIONS: Final = 6
_WARM_UP: Final = 2  # what is made once, such as a cache, is made now
_SETTLES_S: Final = 20.0  # timers of what has ended may take so long; only a failing test waits for it
_PACKAGES: Final = ("millstream.", "pyspark_jetstream.")
_FOLDERS: Final = tuple(f"/src/{each[:-1]}/" for each in _PACKAGES)
# What keeps a bounded number of objects, and is not full after a few repetitions.
BOUNDED: Final = frozenset(
    (
        "broker.history.ClosedConnection",  # the last 10,000, for monitoring
        "broker.session.ClientSession",
        "base.rarely.Sparingly",  # of such a session
        "broker.totals.Traffic",
        "broker.routes.SubjectRoute",  # cached subjects
        "broker.routes.Target",
        "base.wide_map.WideMap",  # the subscriptions of closed connections
        "broker.watchdog.LongStep",
    )
)


async def nothing_stays(
    operation: Callable[[], Awaitable[None]],
    *,
    settle: Callable[[], Awaitable[None]] | None = None,
    repetitions: int = REPETITIONS,
) -> None:
    """Fail if objects of ours stay for each repetition; `settle` ends what goes on for some time after it."""
    for _ in range(_WARM_UP):
        await operation()
    if settle is not None:
        await settle()
    await asyncio.sleep(0)
    enabled = gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()  # what is older is not looked at again: a test process has very many objects
    logging.disable()  # pytest keeps the arguments of each line
    try:
        for _ in range(repetitions):
            await operation()
        if settle is not None:
            await settle()
        deadline = time.monotonic() + _SETTLES_S
        pause_s = 0.02
        while left := _left(repetitions):
            if time.monotonic() > deadline:
                raise AssertionError(_described(left))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.5)
    finally:
        logging.disable(logging.NOTSET)
        gc.unfreeze()
        if enabled:
            gc.enable()


def _left(repetitions: int) -> dict[str, int]:
    """Return the types of ours with one new object for each repetition."""
    found = Counter(name for each in gc.get_objects() if (name := name_of(each)))
    return {name: count for name, count in found.items() if count >= repetitions and name not in BOUNDED}


def name_of(each: object) -> str:
    """Return the type of an object of ours, or the name of a function or coroutine; otherwise ''."""
    kind = type(each)
    if kind is weakref.ProxyType:
        return ""
    module = kind.__module__
    if isinstance(module, str) and module.startswith(_PACKAGES):
        return f"{module.partition('.')[2]}.{kind.__qualname__}"
    code = None
    if kind is types.FunctionType:
        code = each.__code__  # type: ignore[attr-defined]
    elif kind is types.GeneratorType:
        code = each.gi_code  # type: ignore[attr-defined]
    elif kind is types.CoroutineType:
        code = each.cr_code  # type: ignore[attr-defined]
    if code is not None and any(folder in code.co_filename for folder in _FOLDERS):
        return f"{kind.__name__} {code.co_qualname}"
    return ""


def _described(left: dict[str, int]) -> str:
    """Describe what is left: how many objects of each type, and cycles among them."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    trash, gc.garbage[:] = list(gc.garbage), []
    numbers = {id(each) for each in trash}
    lines = [f"{count} {name}" for name, count in sorted(left.items(), key=lambda item: -item[1])]
    examples: dict[str, object] = {}
    for each in trash:
        examples.setdefault(name_of(each), each)
    cycles = [_cycle_of(examples[name], numbers) for name in left if name in examples]
    lines += [f"a cycle: {cycle}" for cycle in cycles if cycle]
    if not any(cycles):
        lines.append("no cycle: something refers to them")
    return "\n".join(["left after each repetition:", *lines])


def _cycle_of(start: object, trash: set[int]) -> str:
    """Return the shortest cycle through an object, or ''."""
    before: dict[int, Any] = {}
    seen = {id(start)}
    queue: deque[Any] = deque([start])
    while queue:
        each = queue.popleft()
        for other in gc.get_referents(each):
            if other is start:
                path = [start]
                while each is not start:
                    path.insert(1, each)
                    each = before[id(each)]
                return " -> ".join(name_of(step) or type(step).__name__ for step in (*path, start))
            if id(other) in trash and id(other) not in seen:
                seen.add(id(other))
                before[id(other)] = each
                queue.append(other)
    return ""
