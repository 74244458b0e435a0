"""Processes that a reader types into: a shell and a Python interpreter, both in the reader's folder.

Everything that is started here, and everything that it starts, ends with `close`.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final

PATIENCE_S: Final = 400  # for one block, on a machine that does much else
_END_S: Final = 30


class BlockFailed(AssertionError):
    """A block did not do what the page says; the text says what it did."""


def wait_for(happened: Callable[[], bool], what: Callable[[], str], patience_s: float = PATIENCE_S) -> None:
    """Return when it happened; raise BlockFailed with `what()` if it does not."""
    deadline = time.monotonic() + patience_s
    while not happened():
        if time.monotonic() > deadline:
            raise BlockFailed(f"nothing more came within {patience_s} s; {what()}")
        time.sleep(0.02)


class Shell:
    """One bash, so that `cd` and `export` hold for the commands that follow."""

    def __init__(self, folder: Path, environment: Mapping[str, str], notes: Path) -> None:
        self._notes = notes  # where commands and outputs are kept
        self._count = 0
        self._endless: list[int] = []
        notes.mkdir()
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> str:
        """Run a command to its end and return what it printed, or else its errors."""
        stem = self._write(command)
        self._type(f". {stem}.sh </dev/null >{stem}.out 2>{stem}.err; echo $? >{stem}.end")
        wait_for(lambda: self._ended(stem), lambda: self._told(stem))
        status = Path(f"{stem}.end").read_text().strip()
        errors = Path(f"{stem}.err").read_text(errors="replace")
        if status != "0" or "Traceback (most recent call last)" in errors:
            raise BlockFailed(f"exit status {status}; {self._told(stem)}")
        return Path(f"{stem}.out").read_text(errors="replace") or errors

    def start(self, command: str, ready: Callable[[str], bool], *, errors_too: bool = False) -> int:
        """Start a command that does not end, and return its process group when it is `ready`."""
        stem = self._write(command)
        where = "2>&1" if errors_too else f"2>{stem}.err"
        self._type(
            f"set -m; . {stem}.sh </dev/null >{stem}.out {where} & echo $! >{stem}.pid; set +m",
        )
        output = Path(f"{stem}.out")
        pid = Path(f"{stem}.pid")
        wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"), lambda: self._told(stem))
        group = int(pid.read_text())
        self._endless.append(group)

        def is_ready() -> bool:
            if output.exists() and ready(output.read_text(errors="replace")):
                return True
            if not _is_there(group):
                raise BlockFailed(f"the command ended; {self._told(stem)}")
            return False

        wait_for(is_ready, lambda: self._told(stem))
        return group

    def interrupt(self, group: int) -> None:
        """End a command as Ctrl-C does, or harder if that does not help."""
        self._endless.remove(group)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, number)
            with contextlib.suppress(BlockFailed):
                wait_for(lambda: not _is_there(group), lambda: "", patience_s=_END_S)
                return

    def close(self) -> None:
        for group in list(self._endless):
            self.interrupt(group)
        if self._process.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self._type("kill $(jobs -p); wait; exit")
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _write(self, command: str) -> Path:
        self._count += 1
        stem = self._notes / str(self._count)
        Path(f"{stem}.sh").write_text(command + "\n")
        return stem

    def _type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _ended(self, stem: Path) -> bool:
        end = Path(f"{stem}.end")
        if end.exists() and end.read_text().endswith("\n"):
            return True
        if self._process.poll() is not None:
            raise BlockFailed(f"the shell ended; {self._told(stem)}")
        return False

    def _told(self, stem: Path) -> str:
        kinds = (("output", "out"), ("errors", "err"))
        texts = ((name, Path(f"{stem}.{end}")) for name, end in kinds)
        return "\n".join(
            f"{name}:\n{path.read_text(errors='replace')[-6000:]}" for name, path in texts if path.exists()
        )


class Interpreter:
    """One Python, for a program: a block, and the blocks that continue it."""

    def __init__(self, folder: Path, environment: Mapping[str, str], notes: Path) -> None:
        self._output = Path(f"{notes}.out")
        self._errors = Path(f"{notes}.err")
        self._read = 0
        reader, writer = os.pipe()
        program = str(Path(__file__).parent / "interpreter.py")
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", program, str(writer)],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                text=True,
                pass_fds=[writer],
                start_new_session=True,
            )
        os.close(writer)
        self._answers: IO[str] = os.fdopen(reader)

    def run(self, text: str, page: str, line: int) -> str:
        """Run a block and return what it printed."""
        order = {"text": text, "page": page, "line": line}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        if not select.select([self._answers], [], [], PATIENCE_S)[0]:
            raise BlockFailed(f"the program did not end within {PATIENCE_S} s\n{self._said()}")
        answer = self._answers.readline()
        if not answer:
            raise BlockFailed(f"the interpreter ended\n{self._said()}")
        error = json.loads(answer)["error"]
        with self._output.open("rb") as output:
            output.seek(self._read)
            printed = output.read()
        self._read += len(printed)
        if error:
            raise BlockFailed(f"{error}\nit printed:\n{printed.decode(errors='replace')}")
        return printed.decode(errors="replace")

    def _said(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-6000:] for path in (self._output, self._errors))

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # the interpreter and what it has started
            self._process.wait()
        self._answers.close()


def _is_there(group: int) -> bool:
    """Tell whether a process of the group runs; one that ended and waits for its parent does not count."""
    pattern = re.compile(rf"^\d+ \(.*\) (\S) \d+ {group} ", re.DOTALL)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found = pattern.match(path.read_text(errors="replace"))
            if found and found[1] not in "ZX":
                return True
    return False
