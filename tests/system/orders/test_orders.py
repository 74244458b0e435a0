"""The program of `make run`, as a user sees it: starts, works, names what fails, recovers, stops."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kits.order_junk import send_everything
from tests.kits.paths import ROOT
from tests.kits.ports import free_ports

PATIENCE_S = 100
SPARK_PATIENCE_S = 600
CTRL_C = b"\x03"


class Run:
    """`python -m examples.orders` on ports of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        port, monitor, gateway = free_ports(3)
        self.folder = folder
        self.gateway = f"http://127.0.0.1:{gateway}"
        self.url = f"nats://127.0.0.1:{port}"
        self.output = folder.parent / "output"
        ports = ["--port", str(port), "--monitor-port", str(monitor), "--gateway-port", str(gateway)]
        self.command = [sys.executable, "-m", "examples.orders", "--data", str(folder), *ports, *flags]

    def start(self, **environment: str) -> Run:
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*self.command, "--line-every", "0.2"],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )
        return self

    def until(self, true: Callable[[str], bool], patience_s: float = PATIENCE_S) -> str:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            text = self.output.read_text()
            if true(text):
                return text
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"it did not happen; the output:\n{self.output.read_text()}")

    def until_more_messages(self) -> None:
        before = messages(self.output.read_text())
        self.until(lambda text: messages(text) > before)

    def stop(self) -> str:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(PATIENCE_S) == 0
        return self.output.read_text()

    def parts(self) -> dict[str, int]:
        """Return the process of each part."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        commands = {
            int(child): Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0") for child in children
        }
        names = {b"serve": "broker", b"gateway": "gateway", b"pipeline": "pipeline"}
        return {
            names[command[3]]: child
            for child, command in commands.items()
            if command[3:] and command[3] in names
        }


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    made: list[Run] = []

    def make(*flags: str) -> Run:
        made.append(Run(tmp_path / "data", *flags))
        return made[-1]

    yield make
    for run in made:
        if run.process.poll() is None:
            run.process.terminate()
            run.process.wait(PATIENCE_S)


def messages(text: str) -> int:
    """Return the messages in the last line that tells."""
    found = re.findall(r"^messages=(\d+) ", text, re.MULTILINE)
    return int(found[-1]) if found else 0


def test_whatever_fails_is_told_in_a_line_while_the_rest_goes_on(
    desk: Callable[..., Run], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web, socket.create_server(("127.0.0.1", 0)) as monitor:
        ports = ["--gateway-port", str(web.getsockname()[1]), "--monitor-port", str(monitor.getsockname()[1])]
        run = desk("--orders-per-second", "30", *ports).start(JAVA_HOME=str(tmp_path))
        text = run.until(
            lambda text: messages(text) > 0 and "gateway ended" in text and "pipeline ended" in text
        )
        assert f"no monitoring: port {monitor.getsockname()[1]} is in use" in text
        [told, *_] = re.findall("^gateway ended.*", text, re.MULTILINE)
        assert "address already in use" in told.lower()
        assert "Spark needs Java 17 or later, and there is none" in text
        asyncio.run(send_everything(run.url))
        run.until_more_messages()
    assert "Traceback" not in run.stop()


def test_killed_parts_come_back_hints_work_and_a_second_start_goes_on(desk: Callable[..., Run]) -> None:
    run = desk("--no-spark", "--orders-per-second", "30").start()
    text = run.until(lambda text: "curl -N" in text and messages(text) > 0)
    assert "starting" not in text.partition("\n")[2]  # Spark is not
    for part in ("gateway", "broker"):
        os.kill(run.parts()[part], signal.SIGKILL)
        run.until(lambda text, part=part: f"{part} ended" in text)
        run.until(lambda text, part=part: part in run.parts())
        run.until_more_messages()
    for hint in re.findall("^curl -d.*", run.output.read_text(), re.MULTILINE):
        run.until(lambda text, hint=hint: answered(shlex.split(hint)))
    before = messages(run.output.read_text())
    left = run.parts().values()
    assert run.stop().splitlines()[-3:-1] == ["stopping the gateway", "stopping the broker"]
    assert not any(Path(f"/proc/{pid}").exists() for pid in left)
    run.command += ["--orders-per-second", "0"]
    run.start()
    assert messages(run.until(lambda text: messages(text) > 0)) >= before
    run.stop()


def answered(curl: list[str]) -> bool:
    """Do what a hint does; curl itself need not be installed."""
    assert curl[:2] == ["curl", "-d"]
    try:
        with urllib.request.urlopen(f"http://{curl[3]}", curl[2].encode(), timeout=10) as answer:
            return "seq" in json.load(answer)
    except OSError:  # the gateway is not back yet
        return False


def test_a_port_of_the_broker_in_use_is_told_in_one_line(desk: Callable[..., Run]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = desk("--no-spark", "--port", str(port)).start()
        assert run.process.wait(PATIENCE_S) == 1
    told = run.output.read_text().splitlines()
    assert told[1:] == [f"port {port} is in use; choose another: make run RUN_FLAGS=--port={port + 1}"]


def test_the_picture_is_in_a_terminal_and_ctrl_c_says_what_it_waits_for(desk: Callable[..., Run]) -> None:
    run = desk("--no-spark")
    shown = b""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(
            run.command[0], run.command, {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        )
    run.process = ForkedProcess(pid)  # type: ignore[assignment]
    try:
        while b"Ctrl-C stops everything" not in shown:
            shown += read(terminal)
        os.write(terminal, CTRL_C)
        while rest := read(terminal):
            shown += rest
    finally:
        os.close(terminal)
    text = shown.decode(errors="replace").rpartition("\x1b[?1049l")[2]  # behind the picture
    assert re.findall(r"(stopp\w+)", text) == ["stopping", "stopping", "stopped"]
    assert run.process.wait(PATIENCE_S) == 0


class ForkedProcess:
    """A child that is no Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def wait(self, patience_s: float) -> int:
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def poll(self) -> int | None:
        return self.returncode

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)


def read(terminal: int) -> bytes:
    """Return what the terminal shows next; nothing when its program has ended."""
    ready, _, _ = select.select([terminal], [], [], PATIENCE_S)
    assert ready, "the terminal is silent"
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_pipeline_archives_what_flows_whatever_it_is(desk: Callable[..., Run]) -> None:
    """It runs for minutes, twice: the second start meets everything that the first one left."""
    run = desk("--orders-per-second", "20")
    for _ in range(2):
        run.start()
        run.until(lambda text: len(job_rows(text)) == 4 and all(job_rows(text).values()), SPARK_PATIENCE_S)
        for _ in range(20):
            asyncio.run(send_everything(run.url))
        rows = job_rows(run.output.read_text())
        run.until(
            lambda text, rows=rows: all(count > rows[job] for job, count in job_rows(text).items()),
            SPARK_PATIENCE_S,
        )
        text = run.stop()
        assert "Traceback" not in text
        assert "ended" not in text


def job_rows(text: str) -> dict[str, int]:
    """Return the rows of the jobs that run, in the last line that tells."""
    lines = [each for each in text.splitlines() if each.startswith("messages=")]
    told = lines[-1].partition("jobs: ")[2].rpartition(" archive=")[0] if lines else ""
    return {name: int(count) for name, count in re.findall(r"([\w-]+)=(\d+)(?: |$)", told)}
