"""The examples of docs/ecosystem.md do what the page says."""

import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

import millstream
import millstream.client
from tests.kits.paths import ROOT
from tests.kits.patience import PATIENCE_S

EXAMPLES = ROOT / "examples" / "ecosystem"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with millstream.BlockingServer(store_dir=tmp_path / "store") as server:
        yield server.client_url


async def test_fastapi_sends_events_and_continues_behind_the_last(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from examples.ecosystem import live_orders

    monkeypatch.setattr(live_orders, "SERVER", server)
    config = uvicorn.Config(live_orders.app, port=0, log_config=None, lifespan="on")
    web = uvicorn.Server(config)
    running = asyncio.create_task(web.serve())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not web.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
        port = web.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as http:
            for body in (b"one", b"two", b"three\nlines"):
                answer = await http.post("/orders/eu", content=body)
            assert answer.json() == {"stored": 3}
            assert await events(http, 1, 0) == ["id: 1", "event: live.eu", "data: one", ""]
            assert await events(http, 2, 1) == [
                *("id: 2", "event: live.eu", "data: two", ""),
                *("id: 3", "event: live.eu", "data: three", "data: lines", ""),
            ]
            assert (await http.get("/orders", headers={"Last-Event-ID": "x"})).status_code == 422
    finally:
        web.should_exit = True
        await running


async def events(http: httpx.AsyncClient, count: int, after: int) -> list[str]:
    """Return the lines of so many events behind one."""
    found: list[str] = []
    async with http.stream("GET", "/orders", headers={"Last-Event-ID": str(after)}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            found.append(line)
            if found.count("") == count:
                break
    return found


async def test_faststream_packs_and_terminates_what_it_cannot_read(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", server)
    sys.modules.pop("examples.ecosystem.parcels", None)
    from examples.ecosystem import parcels

    async with parcels.broker:
        await parcels.broker.start()
        await parcels.broker.publish({"number": "none"}, "shipping.ordered")
        await parcels.broker.publish({"number": 7, "items": ["a", "b"]}, "shipping.ordered")
        async with (
            await millstream.client.connect(server) as client,
            client.ordered("SHIPPING", subjects="shipping.packed") as packed,
        ):
            async with asyncio.timeout(PATIENCE_S):
                message = await anext(aiter(packed))
            assert message.data == b"parcel 7: 2 items"


async def test_taskiq_runs_a_job_and_keeps_its_result(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from taskiq.api import run_receiver_task

    monkeypatch.setenv("NATS_URL", server)
    sys.modules.pop("examples.ecosystem.invoices", None)
    from examples.ecosystem import invoices

    await invoices.broker.startup()
    worker = asyncio.create_task(run_receiver_task(invoices.broker))
    try:
        job = await invoices.total.kiq([1.5, 2.25])
        result = await job.wait_result(timeout=PATIENCE_S)
        assert result.return_value == 3.75
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await invoices.broker.shutdown()


async def test_a_sensor_finds_what_came_before_and_what_comes_later(server: str) -> None:
    from examples.ecosystem.sensor import StreamTrigger

    async with await millstream.client.connect(server) as client:
        await client.connection.api("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.>"]})
        await client.publish("orders.new", b"one")
        await client.publish("orders.paid", b"two")
        trigger = StreamTrigger("ORDERS", "orders.paid", server=server)
        assert [event async for event in trigger.run()] == [{"sequence": 2, "data": "two"}]
        trigger.after = 2
        name, arguments = trigger.serialize()
        assert name == "examples.ecosystem.sensor.StreamTrigger"
        later = aiter(StreamTrigger(**json.loads(json.dumps(arguments))).run())
        waiting = asyncio.ensure_future(anext(later))
        await client.publish("orders.paid", b"three")
        async with asyncio.timeout(PATIENCE_S):
            assert await waiting == {"sequence": 3, "data": "three"}
        with pytest.raises(StopAsyncIteration):
            await anext(later)


def test_the_fixtures_work_in_a_project_of_somebody_else(tmp_path: Path) -> None:
    for file in (EXAMPLES / "packing").glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


async def test_the_notebook_groups_and_plots(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", server)
    notebook: dict[str, Any] = json.loads((EXAMPLES / "ovens.ipynb").read_text())
    cells = ["".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        code = compile(cell, f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if (begun := eval(code, names)) is not None:  # it awaits something
            await begun
    assert all(not each.get("outputs") for each in notebook["cells"])
    groups = eval(cells[-2], names)
    assert groups.rows() == [("a", 60, 182.9), ("b", 60, 202.9)]
    plotted = names["chart"].to_dict()
    assert plotted["encoding"]["x"]["field"] == "minute"
    [rows] = plotted["datasets"].values()
    assert len(rows) == 120
