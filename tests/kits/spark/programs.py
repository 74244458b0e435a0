"""Spark's own programs on loopback: a master, a worker, a Connect server, and commands."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.kits.spark import short_jvm

BIN = Path(pyspark.__file__).parent / "bin"
LIMIT_S = 600


def environment(**more: str) -> dict[str, str]:
    """All on loopback, with our Python, and with what its JVMs need for short lives."""
    return {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(BIN.parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "JDK_JAVA_OPTIONS": short_jvm.OPTIONS,
        **more,
    }


class Program:
    """A process with a log; it and what it started end with the block."""

    def __init__(self, folder: Path, name: str, *command: str, env: Mapping[str, str] | None = None) -> None:
        self.log_file = folder / f"{name}.log"
        self._command = [str(BIN / command[0]), *command[1:]]
        self._folder = folder
        self._environment = environment(**(env or {}))

    def __enter__(self) -> Self:
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def wait_for_log(self, text: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while text not in self.log:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")[-20000:]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()


def run(folder: Path, *command: str, **env: str) -> str:
    """Run a command to its end and return what it printed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    return done.stdout
