"""Consumers that were given up, until they are certainly deleted.

Nobody waits for it while reading goes on.  What can not be deleted now, since the server is away, is tried
again with the next consumer; what is left in the end expires on the server, as unused consumers do.
"""

import asyncio

from millstream.client.line import Line


class Releases:
    """Lines to be released, and the tasks that do it."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, line: Line) -> None:
        self._lines[line.name] = line

    def start(self) -> None:
        """Begin to delete all that are left."""
        for name, line in self._lines.items():
            if name not in self._tasks:
                self._tasks[name] = asyncio.get_running_loop().create_task(self._release(line))

    async def ended(self) -> None:
        """Return when every attempt under way has ended, well or not."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _release(self, line: Line) -> None:
        try:
            if await line.release():
                del self._lines[line.name]
        finally:
            del self._tasks[line.name]
