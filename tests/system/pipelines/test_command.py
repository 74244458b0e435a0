"""`millstream pipeline` as a process: bad files, a clean stop, and kill -9 of the driver in the middle."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from millstream.spark.jobs.files import LocalFiles
from millstream.spark.jobs.table import ParquetTable

# Generous, since Spark is slow on a busy machine; and one JVM for all of them.
pytestmark = [pytest.mark.timeout(600)]

MESSAGES = 2400
LIMIT_S = 300


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "millstream", "pipeline", *arguments]


class Driver:
    """A run of a pipeline as a process with a group of its own."""

    def __init__(self, file: Path, *flags: str) -> None:
        self.log = file.with_suffix(".log")
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command("run", str(file), *flags),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until(self, happened: object) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not happened():  # type: ignore[operator]
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.005)

    def end(self, number: signal.Signals) -> int:
        """Send a signal: to the driver alone, or to everything it started if it is SIGKILL."""
        if number is signal.SIGKILL:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.send_signal(number)
        return self.process.wait(LIMIT_S)


@pytest.fixture
def pipeline(millstream, tmp_path: Path) -> tuple[Path, Path]:
    """A file with an archive of a filled stream in small batches, and its table."""
    millstream.create("LONG", "long.>")
    millstream.fill("long", MESSAGES)
    table = tmp_path / "table"
    file = tmp_path / "long.toml"
    file.write_text(
        f"""
[nats]
servers = ["{millstream.server.client_url}"]
[spark]
master = "local[2]"
conf = {{ "spark.driver.memory" = "1g" }}
[progress]
interval = "100ms"
[[job]]
kind = "archive"
name = "long"
streams = ["LONG"]
table = "{table}"
trigger = "100ms"
max_rows = 150
compact_folders = 4
"""
    )
    return file, table


def sequences(table: Path) -> list[int]:
    return sorted(pq.read_table(table, columns=["seq"]).column("seq").to_pylist())


def batches(table: Path) -> int:
    return len(ParquetTable(LocalFiles(str(table)), ("stream", "day")).manifests())


def is_writing(table: Path) -> bool:
    """Return whether files of a batch are being written at this moment."""
    return any((table / "_millstream" / "staging").glob("*/**/*.parquet"))


def finish(file: Path) -> None:
    """Run until all that is there is archived."""
    done = subprocess.run(command("run", str(file), "--once"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "long (archive): done" in done.stdout


@pytest.mark.soak
def test_a_killed_driver_goes_on_exactly(pipeline: tuple[Path, Path]) -> None:
    file, table = pipeline
    driver = Driver(file)
    driver.wait_until(lambda: table.exists() and batches(table) >= 3 and is_writing(table))
    driver.end(signal.SIGKILL)
    rows = sequences(table)
    assert 0 < len(rows) < MESSAGES
    assert len(set(rows)) == len(rows)
    finish(file)
    assert sequences(table) == list(range(1, MESSAGES + 1))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_stopped_driver_says_so_and_goes_on_exactly(pipeline: tuple[Path, Path]) -> None:
    file, table = pipeline
    driver = Driver(file, "--json")
    driver.wait_until(lambda: table.exists() and batches(table) >= 3)
    assert driver.end(signal.SIGTERM) == 0
    lines = [json.loads(line) for line in driver.log.read_text().splitlines() if line.startswith("{")]
    assert [line["state"] for line in lines if line["state"] != "running"] == ["starting", "stopped"]
    assert lines[-1]["state"] == "stopped"
    assert any(line["lag"].get("LONG", 0) > 0 for line in lines)
    assert batches(table) < MESSAGES // 150
    assert not is_writing(table)
    finish(file)
    assert sequences(table) == list(range(1, MESSAGES + 1))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_kills_at_any_moment_lose_and_double_nothing(pipeline: tuple[Path, Path]) -> None:
    file, table = pipeline
    for batch in range(1, 11, 2):
        driver = Driver(file)
        driver.wait_until(lambda wanted=batch: table.exists() and batches(table) >= wanted)
        time.sleep(0.1 * (batch % 4))  # somewhere else in the cycle of batches each time
        driver.end(signal.SIGKILL)
        rows = sequences(table)
        assert len(set(rows)) == len(rows)
    finished = subprocess.run(
        command("run", str(file), "--once"), capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert sequences(table) == list(range(1, MESSAGES + 1))


def told(*arguments: str, **environment: str) -> tuple[int, str, list[str]]:
    """Run the command without servers in the environment: code, standard output, lines of standard error."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, check=False, env=ours | environment
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


def test_a_wrong_file_is_refused_with_all_its_problems(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[[job]]\nkind = "archive"\nname = "a"\nstrems = ["A"]\ntable = "t"\ntriger = "1s"\n')
    assert told("check", str(file)) == (
        1,
        "",
        [
            f'millstream: {file}:4: job "a": unknown key "strems"; did you mean "streams"?',
            f'millstream: {file}:6: job "a": unknown key "triger"; did you mean "trigger"?',
        ],
    )
    file.write_text('[[job]]\nkind = "archive"\nname = "a"\nstreams = ["A"]\ntable = "t"\n')
    code, output, lines = told("check", str(file))
    assert (code, output) == (0, f"{file}: 1 jobs, no problems\n")
    nobody = "the server was not asked: the file has no [nats] servers, and NATS_URL is not set"
    assert lines == [f"millstream: {file}: {nobody}"]
    missing = f'millstream: {file}: [nats] key "servers" is missing, and so is NATS_URL'
    assert told("run", str(file)) == (1, "", [missing])
    other = told("run", str(file), "--job", "b", NATS_URL="nats://127.0.0.1:1")
    assert other == (2, "", [f'millstream: {file}: there is no job "b"; there are a'])


@pytest.mark.xdist_group("spark")  # one JVM at a time
def test_a_job_that_fails_is_one_line_and_the_stacks_are_in_a_file(millstream, tmp_path: Path) -> None:
    millstream.create("ORDERS", "orders.>")
    millstream.publish([("orders.new", b"no json", {})])
    file = tmp_path / "fails.toml"
    file.write_text(
        f"""
checkpoint = "{tmp_path}/checkpoint"
[nats]
servers = ["{millstream.server.client_url}"]
[spark]
master = "local[1]"
conf = {{ "spark.driver.memory" = "1g" }}
[[job]]
kind = "transform"
name = "large"
trigger = "once"
sql = "select value.id from orders"
input.orders = {{ streams = ["ORDERS"], json = "id long" }}
output = {{ subject = "orders.large" }}
"""
    )
    log = tmp_path / "spark.log"
    code, output, lines = told("run", str(file), "--spark-log", str(log))
    reason = "stream ORDERS, sequence 1: the payload is not JSON of the form id long"
    assert lines == [
        f"starting Spark, which takes a while; its output goes to {log}",
        f'millstream: {file}:8: job "large": {reason} (output of Spark: {log})',
    ]
    assert (code, output) == (1, "large (transform): starting\nlarge (transform): failed\n")
    assert "\tat org.apache.spark" in log.read_text()
