"""Programs that run together: started in order, restarted when they end, stopped in reverse order.

Each program is a command and a check whether it answers.  A program that ends is reported in one line
(`StartedPart.trouble`) and restarted after a pause, while the others continue.  `millstream dev` and the
example of `make run` use them.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.request import urlopen

_STOP_WITHIN_S: Final = 40
_PAUSES_S: Final = (2, 5, 15, 30, 60)  # seconds before the first, second, … restart; the last one repeats
_SETTLED_S: Final = 5  # seconds after which a running program has recovered
_STEADY_S: Final = 120  # seconds after which the pauses begin anew
_ASK_EVERY_S: Final = 0.05
_LONGEST_LINE: Final = 1 << 20


class StartedPart:
    """One program that is kept running; its errors go to a log file, its output to `on_line`."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        folder: Path,
        *,
        answers: Callable[[], bool] = lambda: True,
        on_start: Callable[[], None] = lambda: None,
        on_line: Callable[[str], None] | None = None,
        needs: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.trouble = ""  # the last failure in one line; empty while the program runs
        self.ready = False  # the program runs and answers
        self.preparing = bool(needs)
        self._folder = folder
        self._arguments = [sys.executable, "-m", "millstream", *arguments]
        self._answers = answers
        self._on_start = on_start
        self._on_line = on_line
        self._needs = list(needs)  # a command that must succeed first
        self._environment = {**os.environ, **(environment or {})}
        self._process: Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._log_from = 0  # position in the log at the present start

    def start(self) -> None:
        """Start the program, and restart it whenever it ends."""
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Ask the program to stop, and kill it if it does not stop in time."""
        self._stopping.set()
        if self._keeping is not None:
            await self._keeping

    def kill(self) -> None:
        """Kill the program and its children at once."""
        self._stopping.set()
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # a session of its own, see start_new_session

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        failed = 0
        while not self._stopping.is_set():
            began = loop.time()
            try:
                await self._run_once()
                reason = self.last_words()
            except Exception as error:  # such as a full disk or a missing folder: the next try may work
                reason = str(error) or type(error).__name__
            if loop.time() - began > _STEADY_S:
                failed = 0
            pause = _PAUSES_S[min(failed, len(_PAUSES_S) - 1)]
            failed += 1
            what = f"{self.name} is not installed yet" if self.preparing else f"{self.name} ended"
            self.trouble = f"{what}, next try in {pause} s: {reason}"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            self.trouble = f"{what} and is started again: {reason}"

    async def _run_once(self) -> None:
        if self._needs:
            if await self._execute(self._needs, None) != 0:
                return
            self._needs = []
            self.preparing = False
        if not self._stopping.is_set():
            self._on_start()
            await self._execute(self._arguments, self._on_line)

    async def _execute(self, command: Sequence[str], on_line: Callable[[str], None] | None) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._log_from = log.tell()
            self._process = process = await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=log if on_line is None else PIPE,
                stderr=log,
                # Ctrl-C is for the parent process, which then stops the parts in order.
                start_new_session=True,
                cwd=self._folder,
                env=self._environment,
                limit=_LONGEST_LINE,
            )
        beside = [asyncio.create_task(self._end_when_asked(process)), asyncio.create_task(self._settle())]
        try:
            if on_line is not None:
                await self._read(process, on_line)
            return await process.wait()
        finally:
            self.ready = False
            for each in beside:
                each.cancel()

    async def _end_when_asked(self, process: Process) -> None:
        await self._stopping.wait()
        with contextlib.suppress(ProcessLookupError):
            if self.preparing:
                os.killpg(process.pid, signal.SIGTERM)
            else:
                process.terminate()
            await asyncio.sleep(_STOP_WITHIN_S)  # the task is cancelled when the program has ended
            os.killpg(process.pid, signal.SIGKILL)

    async def _settle(self) -> None:
        """Wait until the program answers, and clear the failure of earlier starts once it keeps running."""
        if self.preparing:
            return
        while not await asyncio.to_thread(self._answers):  # noqa: ASYNC110
            await asyncio.sleep(_ASK_EVERY_S)
        self.ready = True
        await asyncio.sleep(_SETTLED_S)
        self.trouble = ""

    async def _read(self, process: Process, on_line: Callable[[str], None]) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # a line above the limit is not meant for us
                continue
            if not line:
                return
            on_line(line.decode(errors="replace").rstrip())

    def last_words(self) -> str:
        """Return the last line of the program's log since its start."""
        with self.log.open("rb") as log:
            log.seek(max(self._log_from, self.log.stat().st_size - 65536))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
        # The last line of `make` only reports a failure; the line before has the cause.
        told = [line for line in lines if line and not line.startswith("make: ")]
        return told[-1] if told else f"it said nothing; see {self.log}"


def answers_http(url: str) -> bool:
    """Return whether a GET gets the status 200."""
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def accepts(port: int) -> bool:
    """Return whether connections to the port are accepted."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except OSError:
        return False
    return True


def is_taken(port: int) -> bool:
    """Return whether the port is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return True
    return False


def broker_part(folder: Path, port: int, monitor_port: int, arrow_port: int) -> StartedPart:
    """Return a broker with JetStream on loopback; with 0, the server chooses monitoring and Arrow port."""
    command = ["serve", "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", "broker", "-n", "dev"]
    if monitor_port:
        command += ["-m", str(monitor_port)]
    if arrow_port:
        command += ["--arrow_port", str(arrow_port)]
    return StartedPart("broker", command, folder, answers=partial(accepts, port))


def gateway_part(folder: Path, nats: str, port: int) -> StartedPart:
    """Return a gateway on loopback, in front of the server at `nats`."""
    command = ["gateway", "--server", nats, "--host", "127.0.0.1", "-p", str(port)]
    ready = f"http://127.0.0.1:{port}/v1/data/ready"
    return StartedPart("gateway", command, folder, answers=partial(answers_http, ready))
