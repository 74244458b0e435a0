"""A collector that is gone, refuses or does not answer holds up nobody, and memory stays bounded."""

import asyncio
import time
from pathlib import Path

import nats
import pytest

from millstream import Server
from millstream.config.load import load
from millstream.otel import sender
from tests.kits.collector import Collector
from tests.kits.patience import PATIENCE_S
from tests.kits.ports import reserve_port

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONFIG = """
listen: "127.0.0.1:-1"
jetstream {{ store_dir: {store} }}
millstream {{ otel {{
  endpoint: "{url}", metrics: {metrics}, interval: "1s", timeout: "60s", queue: 100
}} }}
"""
MESSAGES = 1000


async def published(
    folder: Path, url: str, collector: Collector | None, metrics: str = "true"
) -> tuple[int, int]:
    """Publish while the collector is in trouble; return how many spans were recorded and dropped."""
    path = folder / "server.conf"
    path.write_text(CONFIG.format(store=folder / "store", url=url, metrics=metrics))
    async with Server(options=load(path)) as server, await nats.connect(server.client_url) as connection:
        jetstream = connection.jetstream(timeout=PATIENCE_S)
        await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
        headers = {"traceparent": TRACEPARENT}
        await jetstream.publish("orders.new", b"", headers=headers)
        if collector is not None:  # it has the first request, and keeps it
            await asyncio.to_thread(collector.wait, lambda each: each.requests)
        for _ in range(MESSAGES):
            await jetstream.publish("orders.new", b"", headers=headers)
        assert server.spans is not None
        waiting = len(server.spans._waiting)
        assert waiting <= 100
        return server.spans.recorded, server.spans.dropped


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "STOP_S", 0.01)


async def test_a_collector_that_does_not_answer(tmp_path: Path) -> None:
    with Collector(holds=True) as collector:
        recorded, dropped = await published(tmp_path, collector.url, collector, metrics="false")
    assert recorded == MESSAGES + 1
    assert dropped == MESSAGES - 100  # the first one is on its way


async def test_a_collector_that_is_gone(tmp_path: Path) -> None:
    began = time.monotonic()
    with reserve_port() as holder:  # nobody listens there
        recorded, dropped = await published(tmp_path, f"http://127.0.0.1:{holder.getsockname()[1]}", None)
    assert recorded == MESSAGES + 1
    assert dropped >= MESSAGES - 2 * 100 - 128
    assert time.monotonic() - began < PATIENCE_S


async def test_a_collector_that_refuses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "STOP_S", PATIENCE_S)  # a refusal comes at once
    with Collector(status=401) as collector:
        await published(tmp_path, collector.url, collector, metrics="false")
    lines = [record.message for record in caplog.records if record.name == "millstream.otel"]
    assert lines[0] == "spans for OpenTelemetry are lost: the collector did not take them"
