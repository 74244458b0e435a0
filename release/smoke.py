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
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
def server(folder: Path, *more: str) -> Iterator[str]:
    """Run a server with JetStream; the value is its address."""
    flags = [
        *more,
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


def try_modules(*names: str) -> None:
    """Import what an extra brings for tasks of Spark, which need more than this environment."""
    for name in names:
        import_module(name)


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


def try_mcp(address: str) -> None:
    """Say hello as an assistant does, and get the list of streams."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "smoke", "version": "0"},
    }
    said = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "list_streams", "arguments": {}},
        },
    ]
    with subprocess.Popen(
        [MILLSTREAM, "mcp", "-s", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in said:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
        answers = (json.loads(line) for line in process.stdout)
        answer = next(answer for answer in answers if answer.get("id") == 2)
        assert "ORDERS" in json.dumps(answer), answer
        process.stdin.close()
        assert process.wait(WAIT_S) == 0


def try_configured(extra: str) -> None:
    """Check a configuration that needs an extra."""
    millstream("serve", "-c", f"{extra}.conf", "-t")


def try_otel(address: str) -> None:
    """Start a server that sends metrics, and wait for some."""
    try_configured("otel")
    with HTTPServer(("127.0.0.1", 0), Collector) as collector, tempfile.TemporaryDirectory() as folder:
        collector.timeout = WAIT_S
        config = Path(folder) / "server.conf"
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        config.write_text(f'millstream {{ otel {{ endpoint: "{endpoint}", interval: "1s" }} }}')
        with server(Path(folder), "-c", str(config)):
            collector.handle_request()
    assert Collector.paths[:1] == ["/v1/metrics"], Collector.paths


class Collector(BaseHTTPRequestHandler):
    """Accepts what is sent over OTLP, and remembers its paths."""

    paths: Final[list[str]] = []

    def do_POST(self) -> None:
        """Accept spans or metrics."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.paths.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


# What shows that an extra is there, and the command that names it if it is not.
TRIES: Final[dict[str, Callable[[str], None]]] = {
    "sql": try_sql,
    "gateway": try_gateway,
    "lake": lambda address: try_modules("pyiceberg.catalog.sql", "millstream.lake.table"),
    "spark": try_spark,
    "avro": lambda address: try_modules("fastavro"),
    "protobuf": lambda address: try_modules("google.protobuf.descriptor_pb2"),
    "mcp": try_mcp,
    "callout": lambda address: try_configured("callout"),
    "oidc": lambda address: try_configured("oidc"),
    "otel": try_otel,
}
NAMES_IT: Final = {
    "gateway": ["gateway"],
    "sql": ["sql", "select 1"],
    "spark": ["pipeline", "run", "pipeline.toml"],
    "mcp": ["mcp"],
    "callout": ["serve", "-c", "callout.conf", "-t"],
    "oidc": ["serve", "-c", "oidc.conf", "-t"],
    "otel": ["serve", "-c", "otel.conf", "-t"],
}
BROUGHT_BY: Final = {"oidc": ["mcp"]}  # other extras bring all that these need
FILES: Final = {
    "callout.conf": """
        authorization {
          users: [{user: "callout", password: "secret"}]
          auth_callout {
            issuer: "AAAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB776S"
            auth_users: ["callout"]
            xkey: "XAAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB7QO7"
          }
        }""",
    "oidc.conf": 'authorization { oidc { issuer: "https://login.example.com", audience: "millstream" } }',
    "otel.conf": 'millstream { otel { endpoint: "http://127.0.0.1:4318" } }',
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
    for name, text in {"pipeline.toml": PIPELINE, **FILES}.items():
        Path(name).write_text(text)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as address:
        publish_and_consume(address)
        for extra, attempt in TRIES.items():
            if extra in installed:
                attempt(address)
            elif extra in NAMES_IT and not set(BROUGHT_BY.get(extra, ())) & set(installed):
                shown = millstream(*NAMES_IT[extra], fails=True)
                assert f"millstream[{extra}]" in shown, shown
    print("ok")


if __name__ == "__main__":
    main(sys.argv[1:])
