"""Try an installed Millstream, with something of each extra: ``python -I smoke.py [EXTRA …]``.

Imports nothing but the standard library and what was installed, so it runs in an environment that has only
Millstream.  An extra that was not installed must be named by the error of the command that needs it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MILLSTREAM: Final = str(Path(sys.executable).parent / "millstream")
WAIT_S: Final = 60.0


def millstream(*arguments: str, fails: bool = False) -> str:
    """Run a command and return what it printed; ``fails``: it must fail."""
    done = subprocess.run(
        [MILLSTREAM, *arguments], capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    output = done.stdout + done.stderr
    assert bool(done.returncode) is fails, f"millstream {' '.join(arguments)}: {output}"
    return output


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run a server with JetStream; the value is its address."""
    flags = [
        "-js",
        "-sd",
        str(folder / "store"),
        "-a",
        "127.0.0.1",
        "-p",
        "-1",
        "--ports_file_dir",
        str(folder),
    ]
    process = subprocess.Popen(
        [MILLSTREAM, "serve", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        yield _address(process, folder)
    finally:
        process.terminate()
        assert process.wait(WAIT_S) == 0, "the server did not end well"


def _address(process: subprocess.Popen[bytes], folder: Path) -> str:
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until and process.poll() is None:
        for file in folder.glob("*.ports"):
            found: list[str] = json.loads(file.read_text())["nats"]
            return found[0]
        time.sleep(0.02)
    raise AssertionError("the server did not start")


def publish_and_consume(address: str) -> None:
    """Store messages and read them back by the command line and by the client of the package."""
    millstream("stream", "add", "ORDERS", "--subjects", "orders.>", "-s", address)
    millstream("pub", "orders.eu", '{"order": {n}}', "--count", "10", "--jetstream", "-s", address)
    shown = json.loads(millstream("stream", "info", "ORDERS", "--json", "-s", address))
    assert shown["state"]["messages"] == 10, shown

    from millstream import BUILD
    from millstream.client import connect_blocking

    with connect_blocking(address) as connection, connection.ordered("ORDERS") as messages:
        read = [message.data for _, message in zip(range(10), messages, strict=False)]
    assert BUILD == "compiled", BUILD
    assert read[-1] == b'{"order": 10}', read


def try_gateway(address: str) -> None:
    """Publish over HTTP, and open the dashboard."""
    command = [MILLSTREAM, "gateway", "-s", address, "--host", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        base = "http://" + line.split("http://", 1)[1].split()[0].rstrip("/.,;")
        request = urllib.request.Request(f"{base}/v2/subjects/orders.eu", data=b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            assert json.loads(answer.read())["stream"] == "ORDERS"
        with urllib.request.urlopen(f"{base}/ui/", timeout=WAIT_S) as answer:
            assert b"<html" in answer.read()
    finally:
        process.terminate()
        process.wait(WAIT_S)


def try_sql(address: str) -> None:
    """Count the messages with SQL."""
    shown = millstream("sql", "select max(data->>'$.order') as last from ORDERS", "--json", "-s", address)
    assert '"9"' in shown, shown


def try_lake(address: str) -> None:
    """Import what commits to Iceberg tables."""
    for module in ("pyiceberg.catalog.sql", "millstream.lake.table"):
        import_module(module)


def try_spark(address: str) -> None:
    """Read the stream as a table, if there is a Java."""
    from pyspark.sql import SparkSession

    from millstream.spark.source import JetStreamDataSource

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session.dataSource.register(JetStreamDataSource)
    options = {"nats.servers": address, "subscribe": "ORDERS"}
    assert session.read.format("jetstream").options(**options).load().count() >= 10
    session.stop()


# What shows that an extra is there, and the command that names it if it is not.
TRIES: Final = {"sql": try_sql, "gateway": try_gateway, "lake": try_lake, "spark": try_spark}
NAMES_IT: Final = {
    "gateway": ["gateway"],
    "sql": ["sql", "select 1"],
    "spark": ["pipeline", "run", "pipeline.toml"],
}
PIPELINE: Final = """
checkpoint = "checkpoints"

[nats]
servers = ["nats://127.0.0.1:4222"]

[[job]]
kind = "archive"
name = "orders"
streams = ["ORDERS"]
table = "orders"
"""


def main(extras: list[str]) -> None:
    """Try the package with these extras."""
    installed = list(TRIES) if "all" in extras else extras
    assert millstream("version").startswith("millstream ")
    Path("pipeline.toml").write_text(PIPELINE)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as address:
        publish_and_consume(address)
        for extra, attempt in TRIES.items():
            if extra in installed:
                attempt(address)
            elif extra in NAMES_IT:
                shown = millstream(*NAMES_IT[extra], fails=True)
                assert f"millstream[{extra}]" in shown, shown
    print("ok")


if __name__ == "__main__":
    main(sys.argv[1:])
