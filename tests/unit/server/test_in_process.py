"""The server inside a program, with an event loop and without one, and as a pytest fixture."""

import json
import logging
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import nats
import pytest

import millstream
from millstream.base.errors import MillstreamError
from millstream.broker.protocol_trace import TRACE
from millstream.config.options import LogOptions
from millstream.server import logs
from millstream.store.errors import StoreError
from tests.kits.patience import PATIENCE_S


async def greet(url: str) -> bytes:
    connection = await nats.connect(url)

    async def answer(message: nats.aio.msg.Msg) -> None:
        await message.respond(b"hello " + message.data)

    await connection.subscribe("greet", cb=answer)
    reply = await connection.request("greet", b"world", timeout=PATIENCE_S)
    await connection.close()
    return reply.data


async def test_a_server_serves_the_loop_it_was_started_in() -> None:
    async with millstream.Server() as server:
        assert await greet(server.client_url) == b"hello world"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)


async def test_a_server_can_be_entered_again_and_is_stopped_each_time(tmp_path: Path) -> None:
    server = millstream.Server(store_dir=tmp_path, monitor=True)
    for _ in range(3):
        async with server:
            assert await greet(server.client_url) == b"hello world"
            with pytest.raises(MillstreamError, match="runs already"):
                await server.start()
            assert await greet(server.client_url) == b"hello world"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), timeout=1)


def test_a_blocking_server_can_be_entered_again(tmp_path: Path) -> None:
    server = millstream.BlockingServer(store_dir=tmp_path)
    for _ in range(2):
        with server:
            with pytest.raises(MillstreamError, match="runs already"):
                server.start()
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S).close()


@pytest.mark.parametrize("stored", [True, False])
async def test_a_server_without_jetstream_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stored: bool
) -> None:
    caplog.set_level(logging.INFO, "millstream")
    async with millstream.Server(store_dir=tmp_path if stored else None):
        pass
    assert ("JetStream is off: switch it on with -js" in caplog.text) is not stored


def test_what_there_is_can_be_seen() -> None:
    assert {"Server", "BlockingServer", "client", "BUILD"} <= set(dir(millstream))
    assert all(hasattr(millstream, name) for name in dir(millstream))


def test_the_client_is_there_in_a_program_that_imports_nothing_else() -> None:
    program = "import millstream; print(millstream.client.connect.__name__)"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "connect\n"


async def test_servers_run_beside_each_other_without_hearing_each_other() -> None:
    async with millstream.Server() as one, millstream.Server() as other:
        assert one.port != other.port
        left, right = await nats.connect(one.client_url), await nats.connect(other.client_url)
        heard = await right.subscribe("news")
        await left.publish("news", b"x")
        await left.flush()
        await right.flush()
        assert heard.pending_msgs == 0
        await left.close()
        await right.close()


async def test_a_port_that_is_taken_is_an_error_that_leaves_nothing_behind() -> None:
    async with millstream.Server() as server:
        other = millstream.Server(port=server.port, monitor=True)
        with pytest.raises(OSError, match="in use"):
            await other.start()
        assert other.monitor is not None
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", other.monitor.port), timeout=1)


async def test_addresses_that_are_not_there_are_lookup_errors() -> None:
    async with millstream.Server() as server:
        with pytest.raises(LookupError):
            _ = server.monitor_url
        with pytest.raises(LookupError):
            _ = server.websocket_url


async def test_streams_outlive_the_server(tmp_path: Path) -> None:
    async with millstream.Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        stream = connection.jetstream(timeout=PATIENCE_S)
        await stream.add_stream(name="ORDERS", subjects=["orders.>"])
        assert (await stream.publish("orders.new", b"one")).seq == 1
        await connection.close()
    async with millstream.Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        assert (await connection.jetstream(timeout=PATIENCE_S).get_msg("ORDERS", 1)).data == b"one"
        await connection.close()


async def test_a_store_has_one_server_at_a_time(tmp_path: Path) -> None:
    async with millstream.Server(store_dir=tmp_path):
        with pytest.raises(StoreError, match="another server uses"):
            await millstream.Server(store_dir=tmp_path).start()


def test_a_blocking_server_needs_no_event_loop() -> None:
    with millstream.BlockingServer(monitor=True) as server:
        with urllib.request.urlopen(f"{server.monitor_url}/varz", timeout=PATIENCE_S) as answer:
            assert json.load(answer)["port"] == server.port
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
            assert client.recv(5) == b"INFO "


async def test_the_fixture_is_a_server_for_one_test(millstream_server: millstream.BlockingServer) -> None:
    assert await greet(millstream_server.client_url) == b"hello world"


async def test_the_factory_makes_servers_with_arguments(
    make_millstream_server: Callable[..., millstream.BlockingServer],
) -> None:
    first, second = make_millstream_server(monitor=True), make_millstream_server()
    assert first.monitor_url.startswith("http://127.0.0.1:")
    assert first.port != second.port


# -- logs -------------------------------------------------------------------------------------------


def record(level: int, text: str) -> logging.LogRecord:
    return logging.LogRecord("millstream.server", level, __file__, 1, text, None, None)


@pytest.mark.parametrize(
    ("level", "label"),
    [
        (TRACE, "TRC"),
        (logging.DEBUG, "DBG"),
        (logging.INFO, "INF"),
        (logging.WARNING, "WRN"),
        (logging.ERROR, "ERR"),
    ],
)
def test_a_line_has_the_form_that_tools_read(level: int, label: str) -> None:
    line = logs.LineFormatter(with_time=True, utc=True, color=False).format(record(level, "Server is ready"))
    pid, date, time_of_day, rest = line.split(" ", 3)
    assert pid.startswith("[")
    assert (len(date), len(time_of_day)) == (10, 15)
    assert rest == f"[{label}] Server is ready"


def test_a_json_line_is_one_object() -> None:
    entry = json.loads(logs.JsonFormatter().format(record(logging.INFO, "two\nlines")))
    assert (entry["level"], entry["message"]) == ("info", "two\nlines")


def test_a_log_file_that_was_moved_away_is_opened_anew(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "server.log"
    handler = logs.set_up(LogOptions(file=str(path)))
    try:
        logging.getLogger("millstream.server").info("before")
        path.rename(tmp_path / "old.log")
        logs.reopen(handler)
        logging.getLogger("millstream.server").info("after")
    finally:
        logs.take_down(handler)
    assert "before" in (tmp_path / "old.log").read_text()
    assert path.read_text().endswith("after\n")
