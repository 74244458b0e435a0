"""The programs of the example: started in order, started again when they end, stopped in reverse.

Each is the command a user would type; nothing here knows more about them than their addresses.  A program
that ends is named in one line (`Part.trouble`) and started again after a pause, while the others go on.
"""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.request import urlopen

_STOP_WITHIN_S: Final = 20
_START_WITHIN_S: Final = 60
_PAUSES_S: Final = (2, 5, 15, 30, 60)  # before the first, second, … new start; the last one repeats
_SETTLED_S: Final = 5  # a program that ran for so long is not in trouble any more
_STEADY_S: Final = 120  # a program that ran for so long begins with the first pause again
_LONGEST_LINE: Final = 1 << 20


class PartFailed(Exception):
    """A program that everything else needs cannot run; the text is one line."""


class Part:
    """One program that is kept running; its errors go to a log file, its output to `on_line`."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        folder: Path,
        on_line: Callable[[str], None] | None = None,
        *,
        needs: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.trouble = ""  # one line; empty while the program runs
        self.preparing = bool(needs)
        self._folder = folder
        self._arguments = [sys.executable, "-m", "millstream", *arguments]
        self._needs = list(needs)  # a command that must have succeeded before
        self._environment = {**os.environ, **(environment or {})}
        self._on_line = on_line
        self._process: Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._log_from = 0  # where the log of the present start begins

    def start(self) -> None:
        """Start the program, and start it again whenever it ends."""
        self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        failed = 0
        while True:
            began = loop.time()
            try:
                await self._run_once()
                reason = self.last_words()
            except OSError as error:
                reason = str(error)
            if loop.time() - began > _STEADY_S:
                failed = 0
            pause = _PAUSES_S[min(failed, len(_PAUSES_S) - 1)]
            failed += 1
            self.trouble = f"{self.name} ended, next try in {pause} s: {reason}"
            await asyncio.sleep(pause)

    async def _run_once(self) -> None:
        if self._needs:
            self.preparing = True
            if await self._execute(self._needs, None) != 0:
                return
            self._needs = []
            self.preparing = False
        await self._execute(self._arguments, self._on_line)

    async def _execute(self, command: Sequence[str], on_line: Callable[[str], None] | None) -> int:
        with self.log.open("ab") as log:
            self._log_from = log.tell()
            self._process = process = await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=log if on_line is None else PIPE,
                stderr=log,
                # Ctrl-C is for the example, which then stops the parts in their order.
                start_new_session=True,
                cwd=self._folder,
                env=self._environment,
                limit=_LONGEST_LINE,
            )
        settled = asyncio.get_running_loop().call_later(_SETTLED_S, self._settle)
        try:
            if on_line is not None:
                await self._read(process, on_line)
            return await process.wait()
        finally:
            settled.cancel()

    def _settle(self) -> None:
        self.trouble = ""

    async def _read(self, process: Process, on_line: Callable[[str], None]) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than any line that is meant for us
                continue
            if not line:
                return
            on_line(line.decode(errors="replace").rstrip())

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def last_words(self) -> str:
        """Return the last line that the program wrote to its log since it was started."""
        with self.log.open("rb") as log:
            log.seek(max(self._log_from, self.log.stat().st_size - 65536))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), f"it said nothing; see {self.log}")

    async def wait_for(self, url: str) -> None:
        """Return when the program answers over HTTP; raise PartFailed if it ends or stays silent."""
        try:
            async with asyncio.timeout(_START_WITHIN_S):
                while not await asyncio.to_thread(_answers, url):
                    if self.trouble:
                        raise PartFailed(f"{self.name} cannot start: {self.last_words()}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise PartFailed(f"{self.name} does not answer at {url}; its log is {self.log}") from None

    async def stop(self) -> None:
        """Ask the program to stop, and kill it if it does not."""
        process = self._process
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), _STOP_WITHIN_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # its own session, see start_new_session
                await process.wait()
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
