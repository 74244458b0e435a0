"""Waiting for nats-py without harm to it when the wait is given up.

nats-py loses its connection, and with it what everybody else of a link waits for, when somebody stops waiting
for a PONG that then comes.  Callers go away at any time, so whatever they wait for goes on without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

_PATIENCE_S: Final = 2.0
_working: Final[set[asyncio.Task[Any]]] = set()


async def undisturbed(work: Coroutine[Any, Any, Any]) -> None:
    """Wait for `work`, but not for ever, and let it go on when the wait is over or cancelled."""
    task = asyncio.get_running_loop().create_task(work)
    _working.add(task)
    task.add_done_callback(_ended)
    await asyncio.wait((task,), timeout=_PATIENCE_S)


def _ended(task: asyncio.Task[Any]) -> None:
    _working.discard(task)
    if not task.cancelled():
        task.exception()  # the connection is gone: whoever has to know is told by the link
