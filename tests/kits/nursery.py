"""A process that has imported our commands once and forks a new process for each command of a test.

Imports are most of the cost of starting ``millstream serve`` or ``millstream backup``, and a test suite
starts hundreds.  A forked process is like any other: it has a command line, a log and a process id, and can
be killed with -9::

    nursery = Nursery()
    process = nursery.start(["serve", "-p", "-1"])  # like Popen: pid, stdout, poll, wait, kill, …
    done = nursery.run(["backup", "folder"])        # like subprocess.run, with its output
    nursery.close()                                 # ends running processes; so does the death of its owner

The two sides use a pair of sockets: one request for each process, with the files for its output; one line for
each process that was forked, and one for each that has ended.

Not here: flags, ports and logs of servers (`reference`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import queue
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import IO, Final

from millstream.base.errors import MillstreamError
from tests.kits.paths import ROOT

_SIZE_BYTES: Final = 4
_NONE: Final = 0  # in place of a process id: there is none
_BEGUN: Final = 1000  # in place of an exit code: the process was forked
_IMPORTED: Final = (
    "millstream.cli.serve",
    "millstream.server.app",
    # Modules that a server imports only if its configuration or a client needs them.
    "millstream.broker.websocket",
    "millstream.config.schema",
    "millstream.jetstream.snapshots.api",
    "millstream.jetstream.engine",
    "millstream.server.arrow.clients",
    "millstream.server.jetstream_view",
    "millstream.server.jetstream_world",
    "millstream.server.monitor.endpoint",
    "millstream.server.system.answers",
    "millstream.server.workers",
    "uvloop",
    "millstream.cli.app",
)  # the imports of commands


class ForkedProcess:
    """The counterpart of `Popen` for a process that another process has forked."""

    def __init__(self, pid: int, arguments: Sequence[str], stdout: IO[bytes]) -> None:
        self.pid = pid
        self.arguments = ["millstream", *arguments]
        self.stdout = stdout
        self.returncode: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, but the message has not arrived
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def has_ended(self, code: int) -> None:
        """Record the exit code; called by the nursery."""
        self.returncode = code
        self._ended.set()


class Nursery:
    """The side that requests processes, from any thread.  The first request starts the nursery."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._asking = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._pids: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._changing = threading.Lock()
        self._running: dict[int, ForkedProcess] = {}
        self._early: dict[int, int] = {}  # exit codes of processes that ended before they were known here

    def start(self, arguments: Sequence[str]) -> ForkedProcess:
        """Start `millstream` in this process's directory; all its output is in `stdout`."""
        reading, writing = os.pipe()
        stdout = os.fdopen(reading, "rb")
        try:
            return self._fork(arguments, {}, stdout, [writing, writing])
        except BaseException:
            stdout.close()
            raise
        finally:
            os.close(writing)

    def run(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `millstream` to its end; `environment` is added to that of this process."""
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            files = [stdout.fileno(), stderr.fileno()]
            process = self._fork(arguments, {**os.environ, **(environment or {})}, stdout, files)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            told = [os.pread(file, os.fstat(file).st_size, 0).decode() for file in files]
        return subprocess.CompletedProcess(process.arguments, code, *told)

    def _fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], stdout: IO[bytes], files: list[int]
    ) -> ForkedProcess:
        """Request a process whose output goes to two files; an empty `environment` means the nursery's."""
        wanted = {"arguments": list(arguments), "environment": dict(environment), "folder": os.getcwd()}
        request = json.dumps(wanted).encode()
        with self._asking:
            line = self._socket or self._open()
            socket.send_fds(line, [len(request).to_bytes(_SIZE_BYTES, "big")], files)
            line.sendall(request)
            pid = self._pids.get()
        if pid == _NONE:
            raise MillstreamError("the nursery has ended: see what it wrote to stderr")
        process = ForkedProcess(pid, arguments, stdout)
        with self._changing:
            code = self._early.pop(pid, None)
            if code is None:
                self._running[pid] = process
        if code is not None:
            process.has_ended(code)
        return process

    def close(self) -> None:
        line, self._socket = self._socket, None
        if line is None or self._reader is None or self._process is None:
            return
        with contextlib.suppress(OSError):  # it may have ended first
            line.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        line.close()
        self._process.wait()

    def _open(self) -> socket.socket:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kits.nursery", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd=ROOT,  # where Python finds `tests`; each forked process goes to the folder of its request
                env=self._environment,
            )
        self._reader = threading.Thread(target=self._read, args=(self._socket,), daemon=True)
        self._reader.start()
        return self._socket

    def _read(self, line: socket.socket) -> None:
        # A nursery that dies before it has read our request resets the connection.
        with contextlib.suppress(ConnectionResetError), line.makefile("rb") as told:
            for news in told:
                pid, code = map(int, news.split())
                if code == _BEGUN:
                    self._pids.put(pid)
                else:
                    self._end(pid, code)
        for pid in list(self._running):  # the end of the nursery ends them
            self._end(pid, -signal.SIGKILL)
        if self._socket is line:  # we did not close it
            self._pids.put(_NONE)

    def _end(self, pid: int, code: int) -> None:
        with self._changing:
            process = self._running.pop(pid, None)
            if process is None:
                self._early[pid] = code
        if process is not None:
            process.has_ended(code)


class _Forking:
    """The forking side, in a process of its own without threads."""

    def __init__(self, owner: socket.socket) -> None:
        self._owner = owner
        self._running: set[int] = set()

    def run(self) -> list[str] | None:
        """Fork until the owner is gone; in each forked process, return the arguments of its command."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
        signal.signal(signal.SIGCHLD, self._reap)
        while True:
            size, files, _, _ = socket.recv_fds(self._owner, _SIZE_BYTES, 2)
            if not size:
                break
            request = json.loads(self._owner.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # report the end after the beginning
            pid = os.fork()
            if pid == 0:
                self._become(request["folder"], request["environment"], files)
                return list(request["arguments"])
            self._running.add(pid)
            for file in files:
                os.close(file)
            self._owner.sendall(b"%d %d\n" % (pid, _BEGUN))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)
        return None

    def _reap(self, number: int, frame: FrameType | None) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            self._running.discard(pid)
            try:
                self._owner.sendall(b"%d %d\n" % (pid, os.waitstatus_to_exitcode(status)))
            except OSError:
                break  # the owner is gone

    def _become(self, folder: str, environment: Mapping[str, str], files: list[int]) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        self._owner.close()
        for number, file in enumerate(files, 1):
            os.dup2(file, number)
        for file in files:
            os.close(file)
        if environment:
            os.environ.clear()
            os.environ.update(environment)
        os.chdir(folder)


def _main() -> None:
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):  # uvloop may be missing; a command reports anything else
            importlib.import_module(name)
    gc.freeze()
    arguments = _Forking(socket.socket(fileno=int(sys.argv[1]))).run()
    if arguments is not None:
        sys.argv = ["millstream", *arguments]
        runpy.run_module("millstream", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
