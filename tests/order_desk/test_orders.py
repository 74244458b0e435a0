"""What `make run` runs, as a user sees it: starts, works, shows itself, stops, goes on."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import pytest
from examples.orders.figures import ConsumerFigures, Figures, Watcher, archived
from examples.orders.shop import open_shop
from examples.orders.view import line, picture
from rich.console import Console

import millstream
from millstream.testing.ports import free_ports

ROOT = Path(__file__).parents[2]
PATIENCE_S = 100
SPARK_PATIENCE_S = 600


class Run:
    """`python -m examples.orders` on ports of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        port, monitor, gateway = free_ports(3)
        self.folder = folder
        self.gateway = f"http://127.0.0.1:{gateway}"
        self.url = f"nats://127.0.0.1:{port}"
        self.output = folder / "output"
        folder.mkdir(exist_ok=True)
        addresses = ["--port", str(port), "--monitor-port", str(monitor), "--gateway-port", str(gateway)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.orders", "--data", str(folder), *addresses, *flags],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def until(self, true: Callable[..., bool], patience_s: float = PATIENCE_S) -> str:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            text = self.output.read_text()
            if true(text):
                return text
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise AssertionError(f"it did not happen; the output:\n{self.output.read_text()}")

    def stop(self) -> str:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0
        return self.output.read_text()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    running: list[Run] = []

    def run(*flags: str) -> Run:
        running.append(Run(tmp_path / "data", *flags))
        return running[-1]

    yield run
    for each in running:
        if each.process.poll() is None:
            each.process.terminate()
            each.process.wait(60)


def messages(text: str) -> int:
    """Of the last line that tells."""
    found = [each for each in text.splitlines() if each.startswith("messages=")]
    return int(found[-1].split()[0].removeprefix("messages=")) if found else 0


def test_orders_flow_and_a_second_start_goes_on(start: Callable[..., Run]) -> None:
    first = start("--no-spark", "--orders-per-second", "30")
    before = messages(first.until(lambda text: messages(text) > 20))
    with urllib.request.urlopen(f"{first.gateway}/v2/streams/ORDERS") as answer:
        assert json.load(answer)["config"]["subjects"] == ["ORDERS.*"]
    assert "stopped" in first.stop()
    second = start("--no-spark", "--orders-per-second", "0")
    assert messages(second.until(lambda text: messages(text) > 0)) >= before
    second.stop()


def test_a_port_of_the_broker_in_use_is_told_in_one_line(start: Callable[..., Run]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = start("--no-spark", "--port", str(port))
        assert run.process.wait(60) == 1
    told = run.output.read_text().splitlines()
    assert told[1:] == [f"port {port} is in use; choose another: make run RUN_FLAGS=--port={port + 1}"]


def test_other_ports_in_use_are_told_and_the_rest_goes_on(start: Callable[..., Run]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web, socket.create_server(("127.0.0.1", 0)) as monitor:
        ports = ["--gateway-port", str(web.getsockname()[1]), "--monitor-port", str(monitor.getsockname()[1])]
        run = start("--no-spark", "--orders-per-second", "30", *ports)
        text = run.until(lambda text: messages(text) > 20 and "gateway ended" in text)
        assert f"no monitoring: port {monitor.getsockname()[1]} is in use" in text
        told = [each for each in text.splitlines() if each.startswith("gateway ended")]
        assert "address already in use" in told[0].lower()
    assert "Traceback" not in run.stop()


def test_a_pipeline_that_cannot_start_is_told_and_the_rest_goes_on(
    start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    run = start("--orders-per-second", "30")
    text = run.until(lambda text: "pipeline ended" in text and messages(text) > 20)
    assert "Spark needs Java 17 or later, and there is none" in text
    before = messages(text)
    run.until(lambda text: messages(text) > before)
    run.stop()


BODIES = [
    b"hello",
    b"",
    b"null",
    b"[1]",
    b'"lamp"',
    b"{}",
    b'{"order": "x"}',
    b'{"order": true}',
    b'{"order": 1e400}',
    b'{"order": -1}',
    b'{"order": ' + b"9" * 5000 + b"}",
    b"[" * 100_000,
    b"\xff\xfe\x00",
    b'{"order": 7, "item": "a b\\r\\n", "quantity": "many", "price": null}',
    b'{"order": 8, "item": ">"}',
    b'{"order": 9}',
    b"x" * 1_000_000,
]
SUBJECTS = [
    "ORDERS.received",
    "ORDERS.processed",
    "ORDERS.completed",
    "ORDERS.lost",
    "monitor.ORDERS",
    "revenue.lamp",
    "dlq.ORDERS.NEW",
    "$JS.EVENT.METRIC.CONSUMER.ACK.ORDERS.NEW",
    "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.ORDERS.NEW",
    "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.ORDERS.NEW",
]


async def send_everything(url: str) -> None:
    """Publish every kind of body to every subject that the example listens to."""
    connection = await nats.connect(url)
    for subject in SUBJECTS:
        for body in BODIES:
            await connection.publish(subject, body, headers={"X-Junk": "1"} if len(body) % 2 else None)
            await connection.flush(60)
    await connection.close()


async def dead_letters(url: str) -> int:
    connection = await nats.connect(url)
    info = await connection.jetstream(timeout=60).stream_info("ORDERS_DLQ", subjects_filter="dlq.ORDERS.>")
    await connection.close()
    return sum((info.state.subjects or {}).values())


def test_messages_of_every_kind_end_nothing_and_bad_orders_become_dead_letters(
    start: Callable[..., Run],
) -> None:
    for _ in range(2):  # what was sent is still there at the second start
        run = start("--no-spark", "--orders-per-second", "30")
        before = messages(run.until(lambda text: messages(text) > 0))
        asyncio.run(send_everything(run.url))
        count = before + len(BODIES) * 4
        run.until(
            lambda text, count=count: messages(text) > count + 30 and last_consumers(text)["NEW"] == (0, 0)
        )
        text = run.stop()
        assert "Traceback" not in text
    server = start("--no-spark", "--orders-per-second", "0")
    server.until(lambda text: messages(text) > 0)
    own = 17  # published to dlq.ORDERS.NEW above
    assert asyncio.run(dead_letters(server.url)) >= 2 * (own + 2 * 12)
    server.stop()


def last_consumers(text: str) -> dict[str, tuple[int, int]]:
    """Pending and unacknowledged messages of each consumer, by the last line that tells."""
    last = [each for each in text.splitlines() if each.startswith("messages=")][-1]
    found = re.findall(r"(\w+)=\d+/(\d+)\+(\d+)", last)
    return {name: (int(pending), int(unacked)) for name, pending, unacked in found}


async def test_a_shop_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path) -> None:
    async with millstream.Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        jetstream = connection.jetstream(timeout=60)
        await jetstream.add_stream(name="REVENUE", subjects=["revenue.*"])
        await open_shop(jetstream)
        await open_shop(jetstream)  # and again, with nothing to change
        assert (await jetstream.stream_info("REVENUE")).config.duplicate_window == 600
        await connection.close()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_pipeline_archives_what_flows_whatever_it_is(start: Callable[..., Run]) -> None:
    """For minutes, twice: the second start meets everything that the first one left."""
    for _ in range(2):
        run = start("--orders-per-second", "20")
        run.until(
            lambda text: "archive=" in text and "archive=0B" not in text.splitlines()[-1], SPARK_PATIENCE_S
        )
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
    last = [each for each in text.splitlines() if each.startswith("messages=")][-1]
    found = re.findall(r"([\w-]+)=(\d+) ", last.partition("jobs:")[2])
    return {name: int(count) for name, count in found}


FIGURES = Figures(
    messages=1_234_567,
    stored_bytes=2_500_000,
    rate=12.34,
    consumers=[
        ConsumerFigures(name, "pull", 1_005_000, 1000, 1_000_000, 3000, 1.25, 4080.5)
        for name in ("NEW", "DISPATCH", "MONITOR", "a-consumer-of-somebody-else")
    ],
    pipeline={
        job: {"state": "running", "rows": 900_000, "batches": 4000, "lag": {"ORDERS": 7}, "rate": 50}
        for job in ("archive", "revenue", "deliveries", "dead-letters")
    },
    archive_files=3,
    archive_bytes=1500,
)


def test_everything_is_on_a_picture_of_80_by_24() -> None:
    addresses = ["HTTP  http://127.0.0.1:3000/v2/docs", "NATS  nats://127.0.0.1:4222   monitoring  …"]
    troubles = ["gateway ended, next try in 2 s: port 3000 is in use " + "x" * 100, "another", "a third"]
    console = Console(record=True, width=80, file=io.StringIO())
    console.print(picture(FIGURES, addresses, ["curl …"] * 4, "", troubles))
    lines = console.export_text().splitlines()
    assert len(lines) <= 24
    assert all(len(each) <= 80 for each in lines)
    text = "\n".join(lines)
    for part in (
        "1,234,567 messages",
        "2.5 MB",
        "12.3/s",
        "NEW",
        "a-consum",
        "4,080.5 ms",
        "1,005,000",
        "archive",
    ):
        assert part in text
    for part in ("900,000", "nats://127.0.0.1:4222", "gateway ended", "another", "Ctrl-C stops everything"):
        assert part in text
    assert line(FIGURES, "").startswith("messages=1234567 NEW=1000000/1005000+1000")


def test_only_what_readers_of_the_archive_see_is_counted(tmp_path: Path) -> None:
    for name in (
        "stream=ORDERS/day=1/batch=b1/part-0.parquet",
        "_millstream/staging/part-1.parquet",
        "x/.part.parquet",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"1234")
    (tmp_path / "stream=ORDERS/gone.parquet").symlink_to(
        "nowhere"
    )  # as one that is moved while it is counted
    assert archived(tmp_path) == (1, 4)
    assert archived(tmp_path / "nowhere") == (0, 0)


async def test_the_view_goes_on_when_the_server_does_not_answer(tmp_path: Path) -> None:
    async with millstream.Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        watcher = Watcher(connection, tmp_path / "archive")
        figures = await watcher.look()  # there is no stream yet
        assert figures.trouble.startswith("no new figures: NotFoundError")
        await open_shop(connection.jetstream(timeout=60))
        assert (await watcher.look()).trouble == ""
        await connection.close()
        assert "ConnectionClosedError" in (await watcher.look()).trouble
