"""An answer is whole, or is seen not to be; and no reader stands in anybody's way."""

import asyncio
import contextlib
import http.client
import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import nats
import pyarrow as pa
import pytest

from millstream import Server
from millstream.jetstream.stream.stream import Stream
from millstream.server.arrow import conversation, reception
from millstream.store.layout import layout
from tests.kits.arrow.endpoint import fill, parse, publish, read, read_now
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess

LARGE = 1_000  # messages of 100 KB: far more than sockets hold, in several files


def stream_of(server: Server, name: str = "S") -> Stream:
    engine = server.jetstream.engine
    assert engine is not None
    return engine.accounts["$G"].streams[name]


def begin(url: str, query: str = "") -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """Ask for a range and take its beginning."""
    parts = urlsplit(url)
    client = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S)
    client.request("GET", f"/arrow/v1/streams/S{query}")
    response = client.getresponse()
    assert response.status == 200
    return client, response


async def until(reached: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if reached():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come to that")


def break_record(folder: Path, needle: bytes) -> None:
    """Change a bit in the only segment of a stream."""
    (file,) = folder.glob("jetstream/**/S/log/*.log")
    data = bytearray(file.read_bytes())
    data[data.index(needle)] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_ends_cuts_its_answers(tmp_path: Path, how: signal.Signals) -> None:
    async def prepare(url: str) -> None:
        client = await nats.connect(url)
        await fill(client, "S", 1)
        await publish(client, "S", LARGE, size=100_000)
        await client.close()

    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True) as server:
        asyncio.run(prepare(server.client_url))
        url = server.wait_for_log(r"Serving streams as Arrow on (\S+)").group(1)
        client, response = begin(url)
        try:
            if how == signal.SIGTERM:
                server.stop()
            else:
                server.kill()
            with pytest.raises((http.client.IncompleteRead, OSError)):
                parse(response)
        finally:
            response.close()
            client.close()


async def test_a_stream_that_is_deleted_ends_the_answer_with_a_word(tmp_path: Path) -> None:
    async with Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        await fill(connection, "S", 1)
        await publish(connection, "S", LARGE, size=100_000)
        client, response = await asyncio.to_thread(begin, server.arrow_url)
        await connection.jetstream().delete_stream("S")
        told: list[dict[bytes, bytes]] = []

        def go_on() -> None:
            reader = pa.ipc.open_stream(response)
            while True:
                _, about = reader.read_next_batch_with_custom_metadata()
                told.append(dict(about))

        with pytest.raises((http.client.IncompleteRead, OSError)):
            await asyncio.to_thread(go_on)
        assert told[-1] == {b"millstream.error": b"stream S was deleted"}
        assert not any(b"millstream.end" in about for about in told)
        response.close()
        client.close()
        await connection.close()


async def test_a_client_that_never_reads_keeps_nothing_from_going(tmp_path: Path) -> None:
    async with Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        await fill(connection, "S", 1)
        await publish(connection, "S", LARGE, size=100_000)
        stream = stream_of(server)
        assert len(layout(stream.log)) > 2
        parts = urlsplit(server.arrow_url)
        idle = socket.create_connection((str(parts.hostname), int(parts.port or 0)))
        idle.sendall(b"GET /arrow/v1/streams/S HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await asyncio.to_thread(idle.recv, 8) == b"HTTP/1.1"
        await until(lambda: not any(segment.held for segment in layout(stream.log)))
        await connection.jetstream().purge_stream("S")
        await connection.jetstream().publish("S.x", b"")  # whose commit removes the files
        assert len(layout(stream.log)) == 1
        assert (await read(server.arrow_url, "S")).table.num_rows == 1
        await connection.close()
        await asyncio.wait_for(server.stop(), PATIENCE_S)
        idle.close()


async def test_a_client_that_takes_nothing_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "WRITE_S", 0.1)
    async with Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        await fill(connection, "S", 1)
        await publish(connection, "S", LARGE, size=100_000)
        client, response = await asyncio.to_thread(begin, server.arrow_url)
        endpoint = server._arrow
        assert endpoint is not None
        clients = endpoint._clients
        assert clients is not None
        await until(lambda: not clients._conversations)
        with pytest.raises((http.client.IncompleteRead, OSError)):
            await asyncio.to_thread(parse, response)
        response.close()
        client.close()
        await connection.close()


@pytest.mark.parametrize(
    "head", [b"GET /arrow/v1/streams/S HTTP/1.1\r\nHost: ", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n"]
)
async def test_a_client_that_never_comes_to_an_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(reception, "HEAD_S", 0.3)
    monkeypatch.setattr(reception, "_LINGER_S", 0.3)
    async with Server(store_dir=tmp_path) as server:
        endpoint = server._arrow
        assert endpoint is not None
        parts = urlsplit(server.arrow_url)
        talkative = socket.create_connection((str(parts.hostname), int(parts.port or 0)))
        talkative.sendall(head)
        talkative.setblocking(False)
        await until(lambda: endpoint._clients is not None)
        clients = endpoint._clients
        assert clients is not None
        await until(lambda: bool(clients._strangers))
        while clients._strangers:
            with contextlib.suppress(OSError):  # it has hung up
                talkative.sendall(b"x")
            await asyncio.sleep(0.02)
        assert not clients._conversations
        talkative.close()


async def test_a_client_that_says_nothing_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.server.arrow.reception.HEAD_S", 10 * PATIENCE_S)
    async with Server(store_dir=tmp_path) as server:
        parts = urlsplit(server.arrow_url)
        silent = socket.create_connection((str(parts.hostname), int(parts.port or 0)))
        await asyncio.wait_for(server.stop(), PATIENCE_S)
        silent.close()


async def test_damage_is_left_out_named_and_counted(tmp_path: Path) -> None:
    async with Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        await fill(connection, "S", 50)
        break_record(tmp_path, b"17 ")
        answer = await read(server.arrow_url, "S")
        assert answer.column("seq") == [seq for seq in range(1, 51) if seq != 17]
        assert answer.about[-1]["millstream.damaged"] == "17"
        assert answer.about[-1]["millstream.end"] == "49"
        info = json.loads((await connection.request("$JS.API.STREAM.INFO.S", timeout=PATIENCE_S)).data)
        assert info["state"]["lost"]["msgs"] == [17]
        again = await read(server.arrow_url, "S")
        assert "millstream.damaged" not in again.about[-1]
        assert again.table.num_rows == 49
        await connection.close()


async def test_ranges_are_exact_while_messages_come_and_go(tmp_path: Path) -> None:
    async with Server(store_dir=tmp_path) as server:
        connection = await nats.connect(server.client_url)
        await fill(connection, "S", 3_000)
        done = asyncio.Event()

        async def disturb() -> None:
            number = 0
            while not done.is_set():
                number += 1
                await publish(connection, "S", 500, size=200)
                await connection.jetstream().purge_stream("S", seq=500 * number)

        disturbing = asyncio.create_task(disturb())
        for _ in range(15):
            answer = await read(server.arrow_url, "S", "?columns=seq,data")
            found = answer.column("seq")
            first, last = (
                int(answer.metadata["millstream.stream_first"]),
                int(answer.metadata["millstream.last"]),
            )
            # What was purged while it was read may be missing at the beginning, and only there; even all.
            assert found == list(range(last - len(found) + 1, last + 1))
            assert not found or found[0] >= first
            assert int(answer.about[-1]["millstream.end"]) == len(found)
        done.set()
        await disturbing
        await connection.close()


def test_after_a_crash_the_rows_are_those_that_were_acknowledged(tmp_path: Path) -> None:
    async def prepare(url: str) -> None:
        client = await nats.connect(url)
        await fill(client, "S", 1_000)
        await client.close()

    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True, store_dir=tmp_path) as server:
        asyncio.run(prepare(server.client_url))
        server.kill()
        server.start()
        url = server.wait_for_log(r"Serving streams as Arrow on (\S+)").group(1)
        answer = read_now(url, "S")
    assert answer.column("seq") == list(range(1, 1_001))
