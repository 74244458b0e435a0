"""The endpoint of a server, and its answers to requests that are right and wrong."""

import asyncio
import http.client
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.js.api import StorageType, StreamConfig

from millstream import Server
from millstream.config.load import load
from millstream.server.reload import reload_configuration
from millstream.store.layout import layout
from tests.kits.arrow.endpoint import ask, fill, publish, read
from tests.kits.patience import PATIENCE_S


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(store_dir=tmp_path) as running:
        yield running


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[Client]:
    client = await nats.connect(server.client_url)
    yield client
    await client.close()


async def refusal(url: str, stream: str, query: str = "", authorization: str = "") -> tuple[int, str]:
    with pytest.raises(HTTPError) as caught:
        await read(url, stream, query, authorization)
    with caught.value as error:
        document = json.loads(error.read())
    assert document["error"]["code"] == error.code
    return error.code, document["error"]["description"]


async def raw(url: str, request: bytes) -> bytes:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_stream_is_a_table(server: Server, connection: Client) -> None:
    await fill(connection, "S", 25)
    answer = await read(server.arrow_url, "S")
    assert answer.column("seq") == list(range(1, 26))
    assert answer.column("subject")[:3] == ["S.1", "S.2", "S.3"]
    assert set(answer.column("stream")) == {"S"}
    assert answer.about[-1] == {"millstream.through": "25", "millstream.end": "25"}


async def test_the_answer_says_what_it_covers(server: Server, connection: Client) -> None:
    await fill(connection, "S", 25)
    await connection.jetstream().purge_stream("S", seq=4)
    info = await connection.jetstream().stream_info("S")
    answer = await read(server.arrow_url, "S", "?from=2&to=100")
    about = answer.metadata
    assert (about["millstream.version"], about["millstream.stream"]) == ("1", "S")
    assert (about["millstream.first"], about["millstream.last"]) == ("2", "25")
    assert (about["millstream.stream_first"], about["millstream.stream_last"]) == ("4", "25")
    raw_info = json.loads((await connection.request("$JS.API.STREAM.INFO.S", timeout=PATIENCE_S)).data)
    assert about["millstream.created"] == raw_info["created"]
    assert info.state.first_seq == 4
    assert answer.column("seq") == list(range(4, 26))


async def test_columns_subjects_and_sequences_are_chosen(server: Server, connection: Client) -> None:
    await fill(connection, "S", 25)
    answer = await read(server.arrow_url, "S", "?from=3&to=20&subjects=S.1,S.2&columns=data,seq")
    assert answer.schema.names == ["data", "seq"]
    assert answer.column("seq") == [6, 7, 11, 12, 16, 17]
    assert answer.column("data")[0] == b"6 "


@pytest.mark.parametrize("query", ["?from=26", "?subjects=none", "?from=1000&to=2000"])
async def test_a_range_with_nothing_in_it_ends_as_others_do(
    server: Server, connection: Client, query: str
) -> None:
    await fill(connection, "S", 25)
    answer = await read(server.arrow_url, "S", query)
    assert answer.table.num_rows == 0
    assert answer.about[-1]["millstream.end"] == "0"


async def test_a_stream_in_memory_is_read_too(server: Server, connection: Client) -> None:
    await fill(connection, "M", 40, storage=StorageType.MEMORY)
    assert (await read(server.arrow_url, "M")).column("seq") == list(range(1, 41))


async def test_a_compressed_stream_is_read_too(server: Server, connection: Client) -> None:
    config = {"name": "Z", "subjects": ["Z.>"], "compression": "s2"}
    reply = await connection.request(
        "$JS.API.STREAM.CREATE.Z", json.dumps(config).encode(), timeout=PATIENCE_S
    )
    assert "error" not in json.loads(reply.data)
    for _ in range(3):
        await publish(connection, "Z", 60, size=100_000)
    answer = await read(server.arrow_url, "Z", "?columns=seq,size")
    assert answer.column("seq") == list(range(1, 181))


async def test_what_was_acknowledged_is_in_the_next_answer(server: Server, connection: Client) -> None:
    await fill(connection, "S", 1)
    for number in range(2, 40):
        acknowledged = await connection.jetstream().publish("S.x", b"")
        assert acknowledged.seq == number
        assert (await read(server.arrow_url, "S", f"?from={number}")).column("seq") == [number]


async def test_a_long_range_comes_in_batches_that_say_how_far_they_go(
    server: Server, connection: Client
) -> None:
    await fill(connection, "S", 25_000)
    answer = await read(server.arrow_url, "S", "?columns=seq")
    assert [batch.num_rows for batch in answer.batches] == [10_000, 10_000, 5_000]
    assert [about["millstream.through"] for about in answer.about] == ["10000", "20000", "25000"]
    assert ["millstream.end" in about for about in answer.about] == [False, False, True]


async def test_ranges_are_read_side_by_side(server: Server, connection: Client) -> None:
    await fill(connection, "S", 5_000)
    answers = await asyncio.gather(
        *(read(server.arrow_url, "S", f"?from={start}&to={start + 499}") for start in range(1, 5_001, 500))
    )
    assert [seq for answer in answers for seq in answer.column("seq")] == list(range(1, 5_001))


async def test_what_is_wrong_with_a_request_is_told(server: Server, connection: Client) -> None:
    url = server.arrow_url
    assert await refusal(url, "NONE") == (404, "stream not found: NONE")
    code, text = await refusal(url, "S", "?colums=seq")
    assert (code, text) == (400, "unknown parameter 'colums'; did you mean columns?")
    assert (await refusal(url, "a/b"))[0] == 404


async def test_other_methods_and_versions_are_refused(server: Server) -> None:
    path = b"/arrow/v1/streams/S"
    answer = await raw(
        server.arrow_url, b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    )
    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"Allow: GET, HEAD\r\n" in answer
    assert (await raw(server.arrow_url, b"GET " + path + b" HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 505 ")
    assert (await raw(server.arrow_url, b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert (await raw(server.arrow_url, b"GET /" + b"x" * 100_000)).startswith(b"HTTP/1.1 431 ")


async def test_a_head_request_has_the_headers_alone(server: Server, connection: Client) -> None:
    await fill(connection, "S", 7)
    answer = await raw(server.arrow_url, b"HEAD /arrow/v1/streams/S?from=2 HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert body == b""
    assert b"\r\nMillstream-First: 2\r\n" in head
    assert b"\r\nMillstream-Last: 7\r\n" in head
    assert b"\r\nContent-Type: application/vnd.apache.arrow.stream\r\n" in head


async def test_a_client_that_goes_away_leaves_nothing_behind(server: Server, connection: Client) -> None:
    await fill(connection, "S", 100)
    await publish(connection, "S", 200, size=100_000)  # more than sockets hold

    def leave() -> None:
        parts = urlsplit(server.arrow_url)
        client = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE_S)
        client.request("GET", "/arrow/v1/streams/S")
        assert client.getresponse().read(100)
        client.close()

    await asyncio.to_thread(leave)
    assert (await read(server.arrow_url, "S", "?to=3")).column("seq") == [1, 2, 3]
    log = server.jetstream.engine.accounts["$G"].streams["S"].log  # type: ignore[union-attr]
    deadline = time.monotonic() + PATIENCE_S
    while any(segment.held for segment in layout(log)):  # a closed socket is noticed later
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_the_endpoint_is_announced_over_nats(server: Server, connection: Client) -> None:
    await fill(connection, "S", 3)
    info = await ask(connection)
    assert info["version"] == 1
    assert info["urls"] == [server.arrow_url]
    answer = await read(info["urls"][0], "S", authorization=f"Bearer {info['ticket']}")
    assert answer.table.num_rows == 3
    assert server.ports()["arrow"] == [server.arrow_url]


async def test_a_server_without_jetstream_has_no_endpoint() -> None:
    async with Server() as plain:
        with pytest.raises(LookupError):
            _ = plain.arrow_url
        client = await nats.connect(plain.client_url)
        with pytest.raises(NoRespondersError):
            await ask(client)
        await client.close()


async def test_it_can_be_switched_off_and_put_elsewhere(tmp_path: Path) -> None:
    base = f'listen: "127.0.0.1:-1", jetstream {{ store_dir: "{tmp_path}" }}'
    config = tmp_path / "server.conf"
    config.write_text(f"{base}, millstream {{ arrow: false }}")
    async with Server(options=load(config)) as off:
        assert "arrow" not in off.ports()
    config.write_text(f"{base}, millstream {{ arrow {{ port: -1, advertise: data.example.com }} }}")
    async with Server(options=load(config)) as on:
        client = await nats.connect(on.client_url)
        port = urlsplit(on.arrow_url).port
        assert (await ask(client))["urls"] == [f"http://data.example.com:{port}"]
        await client.close()


async def test_on_all_interfaces_a_client_is_told_the_address_it_came_by(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        f'listen: "127.0.0.1:-1", jetstream {{ store_dir: "{tmp_path}" }}, '
        'millstream { arrow { listen: "0.0.0.0:-1" } }'
    )
    async with Server(options=load(config)) as wide:
        client = await nats.connect(wide.client_url)
        await fill(client, "S", 2)
        info = await ask(client)
        assert urlsplit(info["urls"][0]).hostname == "127.0.0.1"
        assert (await read(info["urls"][0], "S")).table.num_rows == 2
        await client.close()


async def test_more_clients_than_are_served_at_a_time_wait(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        f'listen: "127.0.0.1:-1", jetstream {{ store_dir: "{tmp_path}" }}, '
        "millstream { arrow { max_clients: 2 } }"
    )
    async with Server(options=load(config)) as narrow:
        client = await nats.connect(narrow.client_url)
        await fill(client, "S", 50)
        answers = await asyncio.gather(*(read(narrow.arrow_url, "S") for _ in range(12)))
        assert [answer.table.num_rows for answer in answers] == [50] * 12
        await client.close()


async def test_an_account_is_not_told_of_streams_of_another(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(
        f"""listen: "127.0.0.1:-1", jetstream {{ store_dir: "{tmp_path}" }}
        accounts {{
            A {{ jetstream: enabled, users: [{{user: a, password: a}}] }}
            B {{ jetstream: enabled, users: [{{user: b, password: b}}] }}
            C {{ users: [{{user: c, password: c}}] }}
        }}"""
    )
    async with Server(options=load(config)) as shared:
        clients: dict[str, Any] = {
            name: await nats.connect(shared.client_url, user=name, password=name) for name in "abc"
        }
        for name in "ab":
            await clients[name].jetstream().add_stream(StreamConfig(name="S", subjects=["s"]))
            await clients[name].jetstream().publish("s", name.encode())
        for name in "ab":
            info = await ask(clients[name])
            answer = await read(shared.arrow_url, "S", authorization=f"Bearer {info['ticket']}")
            assert answer.column("data") == [name.encode()]
        with pytest.raises(NoRespondersError):
            await ask(clients["c"])
        for client in clients.values():
            await client.close()


async def test_it_follows_jetstream_when_the_configuration_is_read_again(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    base = 'listen: "127.0.0.1:-1"\n'
    on = f'{base}jetstream {{ store_dir: "{tmp_path}/store" }}\n'
    config.write_text(base)
    async with Server(options=load(config)) as server:
        config.write_text(on)
        reload_configuration(server)
        client = await nats.connect(server.client_url)
        await fill(client, "S", 4)
        url = server.arrow_url
        assert (await ask(client))["urls"] == [url]
        assert (await read(url, "S")).table.num_rows == 4
        config.write_text(base)
        reload_configuration(server)
        assert await refusal(url, "S") == (503, "JetStream is not enabled")
        with pytest.raises(NoRespondersError):
            await ask(client)
        config.write_text(on)
        reload_configuration(server)
        assert (await ask(client))["urls"] == [url]
        assert (await read(url, "S")).table.num_rows == 4
        await client.close()


async def test_a_stream_that_takes_its_name_again_is_another_one(server: Server, connection: Client) -> None:
    await fill(connection, "S", 4)
    before = await read(server.arrow_url, "S")
    await connection.jetstream().delete_stream("S")
    await fill(connection, "S", 2)
    after = await read(server.arrow_url, "S")
    assert before.metadata["millstream.created"] != after.metadata["millstream.created"]
    assert after.column("seq") == [1, 2]
