"""A signal at any moment of the start ends the server without a traceback."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kits.patience import PATIENCE_S

MOMENTS = 7  # of each signal, over the time that a start takes


def begin(folder: Path) -> subprocess.Popen[str]:
    """Start a server and return when our code runs: before, the interpreter has Ctrl-C to itself."""
    command = [sys.executable, "-m", "millstream", "serve", "-a", "127.0.0.1", "-p", "-1", "-js"]
    process = subprocess.Popen(
        [*command, "-sd", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell lets jobs in the background ignore Ctrl-C, and so would Python.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + PATIENCE_S
    while not _is_past_the_interpreter(process):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return process


def _is_past_the_interpreter(process: subprocess.Popen[str]) -> bool:
    """Return whether Ctrl-C no longer becomes an exception.

    The interpreter catches it before it loads the first extension, and our code is what gives it back.
    """
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
    extensions = ".cpython-" in Path(f"/proc/{process.pid}/maps").read_text()
    interrupt, terminate = (bool(caught & 1 << (number - 1)) for number in (signal.SIGINT, signal.SIGTERM))
    return extensions and (not interrupt or terminate)  # the server listens to both, as soon as it can


def start_time_s(folder: Path) -> float:
    began = time.monotonic()
    with begin(folder) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Server is ready" in line:
                break
        taken = time.monotonic() - began
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(PATIENCE_S) == 0
    return taken


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_ends_the_start_quietly(tmp_path: Path, number: signal.Signals) -> None:
    whole_s = start_time_s(tmp_path)
    assert os.listdir(tmp_path)
    for moment in range(MOMENTS):
        with begin(tmp_path) as process:
            time.sleep(whole_s * moment / (MOMENTS - 1))
            process.send_signal(number)
            said = process.communicate(timeout=PATIENCE_S)[0]
        assert "Traceback" not in said, said
        assert "[FTL]" not in said
        assert process.returncode in (0, -number), said
