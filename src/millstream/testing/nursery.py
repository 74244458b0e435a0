"""A process that has imported the server once, and forks a new one whenever a test wants one.

Importing is most of what a start of ``millstream serve`` costs, and a test suite starts hundreds.  What is
forked is a process like any other: it has a command line, a log, a process id and can be killed with -9::

    nursery = Nursery()
    process = nursery.start(["-p", "-1"])       # as Popen: pid, stdout, poll, wait, kill, …
    nursery.close()                             # ends what still runs; so does the death of its owner

The two sides talk over a pair of sockets: one request for each server, with the end of the pipe that its
output goes to; one line for each that was forked, and one for each that has ended.

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
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import IO, Final

from millstream.base.errors import MillstreamError

_SIZE_BYTES: Final = 4
_NONE: Final = 0  # instead of a process id: there will be none
_BEGUN: Final = 1000  # where the code of an end would be
_IMPORTED: Final = (
    "millstream.cli.serve",
    "millstream.server.app",
    "uvloop",
)  # what a server would begin with


class ForkedServer:
    """What `Popen` would be for a server that somebody else has forked."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ended = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(["millstream", "serve"], timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and the news is on its way
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def has_ended(self, code: int) -> None:
        """Called by the nursery."""
        self.returncode = code
        self._ended.set()


class Nursery:
    """The side of the one who wants servers; any thread may ask.  The process begins with the first."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._asking = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._pids: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._changing = threading.Lock()
        self._servers: dict[int, ForkedServer] = {}
        self._early: dict[int, int] = {}  # codes of servers that ended before they were known here

    def start(self, arguments: Sequence[str]) -> ForkedServer:
        """A new `millstream serve` with these arguments, in this process's directory."""
        request = json.dumps({"arguments": list(arguments), "folder": os.getcwd()}).encode()
        reading, writing = os.pipe()
        try:
            with self._asking:
                line = self._socket or self._open()
                socket.send_fds(line, [len(request).to_bytes(_SIZE_BYTES, "big")], [writing])
                line.sendall(request)
                pid = self._pids.get()
        finally:
            os.close(writing)
        if pid == _NONE:
            os.close(reading)
            raise MillstreamError("the nursery has ended: see what it wrote to stderr")
        server = ForkedServer(pid, os.fdopen(reading, "rb"))
        with self._changing:
            code = self._early.pop(pid, None)
            if code is None:
                self._servers[pid] = server
        if code is not None:
            server.has_ended(code)
        return server

    def close(self) -> None:
        line, self._socket = self._socket, None
        if line is None or self._reader is None or self._process is None:
            return
        with contextlib.suppress(OSError):  # it may have ended before us
            line.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        line.close()
        self._process.wait()

    def _open(self) -> socket.socket:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "millstream.testing.nursery", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
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
        for pid in list(self._servers):  # the nursery ends them when it ends
            self._end(pid, -signal.SIGKILL)
        if self._socket is line:  # not because we closed it
            self._pids.put(_NONE)

    def _end(self, pid: int, code: int) -> None:
        with self._changing:
            server = self._servers.pop(pid, None)
            if server is None:
                self._early[pid] = code
        if server is not None:
            server.has_ended(code)


class _Forking:
    """The side that forks, in a process of its own and without threads."""

    def __init__(self, owner: socket.socket) -> None:
        self._owner = owner
        self._running: set[int] = set()

    def run(self) -> list[str] | None:
        """Fork until the owner is gone; in each that was forked, the arguments it is to serve with."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
        signal.signal(signal.SIGCHLD, self._reap)
        while True:
            size, outputs, _, _ = socket.recv_fds(self._owner, _SIZE_BYTES, 1)
            if not size:
                break
            request = json.loads(self._owner.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # an end is told after the beginning
            pid = os.fork()
            if pid == 0:
                self._become_server(request["folder"], outputs[0])
                return list(request["arguments"])
            self._running.add(pid)
            os.close(outputs[0])
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

    def _become_server(self, folder: str, output: int) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        self._owner.close()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.chdir(folder)


def _main() -> None:
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):  # uvloop may be missing; a server says what else is
            importlib.import_module(name)
    gc.freeze()
    arguments = _Forking(socket.socket(fileno=int(sys.argv[1]))).run()
    if arguments is not None:
        sys.argv = ["millstream", "serve", *arguments]
        runpy.run_module("millstream", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
