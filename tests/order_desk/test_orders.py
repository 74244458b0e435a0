"""What `make run` runs, as a user sees it: starts, works, shows itself, stops, goes on."""

from __future__ import annotations

import io
import json
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
from examples.orders.figures import ConsumerFigures, Figures
from examples.orders.shop import open_shop
from examples.orders.view import line, picture
from rich.console import Console

import millstream
from millstream.testing.ports import free_ports

ROOT = Path(__file__).parents[2]
PATIENCE_S = 100


class Run:
    """`python -m examples.orders` on ports of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        port, monitor, gateway = free_ports(3)
        self.folder = folder
        self.gateway = f"http://127.0.0.1:{gateway}"
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

    def until(self, true: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE_S
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


def test_a_part_that_cannot_start_ends_everything_and_says_why(start: Callable[..., Run]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = start("--no-spark", "--port", str(taken.getsockname()[1]))
        assert run.process.wait(60) == 1
    assert "Address already in use" in run.output.read_text()


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
def test_the_pipeline_archives_what_flows(start: Callable[..., Run]) -> None:
    run = start("--orders-per-second", "20")
    run.until(lambda text: any("archive=0B" not in each for each in text.splitlines() if "archive=" in each))
    run.stop()


def test_everything_is_on_the_picture() -> None:
    figures = Figures(
        messages=1234,
        stored_bytes=2_500_000,
        rate=12.34,
        consumers=[ConsumerFigures("NEW", "pull", 5, 2, 1000, 3, 1.25, 80.5)],
        pipeline={
            "archive": {"state": "running", "rows": 900, "batches": 4, "lag": {"ORDERS": 7}, "rate": 50}
        },
        archive_files=3,
        archive_bytes=1500,
    )
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(picture(figures, {"NATS": "nats://127.0.0.1:4222"}, ["curl …"]))
    text = console.export_text()
    for part in (
        "1,234 messages",
        "2.5 MB",
        "12.3",
        "NEW",
        "80.5 ms",
        "archive",
        "900",
        "nats://127.0.0.1:4222",
    ):
        assert part in text
    assert line(figures).startswith("messages=1234 NEW=1000/5+2 jobs: archive=900")
