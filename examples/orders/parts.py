"""The programs of the example, started one after the other and stopped in reverse.

Each is the command a user would type; nothing here knows more about them than their addresses.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.request import urlopen

_STOP_WITHIN_S: Final = 20
_START_WITHIN_S: Final = 60


class PartFailed(Exception):
    """A program ended although it should run; the text has the end of its log."""


class Part:
    """One running program; its errors go to a log file, its output to whoever asked for the lines."""

    def __init__(
        self, name: str, arguments: list[str], folder: Path, on_line: Callable[[str], None] | None = None
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._folder = folder
        self._arguments = arguments
        self._on_line = on_line
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self, **environment: str) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "millstream",
                *self._arguments,
                stdin=DEVNULL,
                stdout=log if self._on_line is None else PIPE,
                stderr=log,
                # Ctrl-C is for the example, which then stops the parts in their order.
                start_new_session=True,
                cwd=self._folder,
                env={**os.environ, **environment},
            )
        if self._on_line is not None:
            self._reading = asyncio.create_task(self._read(self._on_line))

    async def _read(self, on_line: Callable[[str], None]) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            on_line(line.decode(errors="replace").rstrip())

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def check(self) -> None:
        """Raise if it ended."""
        if not self.running:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise PartFailed(f"{self.name} ended; the end of {self.log}:\n{tail}")

    async def wait_for(self, url: str) -> None:
        """Until it answers over HTTP."""
        try:
            async with asyncio.timeout(_START_WITHIN_S):
                while not await asyncio.to_thread(_answers, url):
                    self.check()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise PartFailed(f"{self.name} does not answer at {url}; its log is {self.log}") from None

    async def stop(self) -> None:
        """Ask it to stop, and insist if it does not."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_WITHIN_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            await self._reading


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
