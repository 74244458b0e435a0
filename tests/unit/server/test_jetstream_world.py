"""JetStream in a real broker: the world it sees, through a real client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError

from millstream.base.clock import SystemClock
from millstream.jetstream.engine import Engine
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamOptions
from millstream.server.jetstream_world import AccountWorld
from millstream.server.server import Server
from millstream.server.workers import Workers
from tests.kits.patience import PATIENCE_S

ACCOUNTS = """
server_name: ref
authorization { timeout: 30 }
listen: "127.0.0.1:-1"
accounts {
  A { users: [{user: a, password: a}] }
  B { users: [{user: b, password: b}] }
}
"""


@asynccontextmanager
async def engine_in_server(folder: Path) -> AsyncIterator[tuple[Server, Engine]]:
    config = folder / "server.conf"
    config.write_text(ACCOUNTS)
    workers = Workers(asyncio.get_running_loop(), 2, "test")
    try:
        async with Server(config=str(config)) as server:
            broker = server.broker
            options = JetStreamOptions(
                enabled=True, store_dir=str(folder), accounts={"A": AccountJetStreamOptions()}
            )
            engine = Engine(
                options,
                lambda name: AccountWorld(broker, broker.accounts[name], SystemClock(), workers),
                server_name=broker.identity.server_name,
                server_id=broker.identity.server_id,
                server_version="2.15.1",
            )
            engine.start()
            engine.refuse("B")
            try:
                yield server, engine
            finally:
                engine.stop()
    finally:
        workers.shutdown()


async def connect(server: Server, user: str) -> Client:
    return await nats.connect(
        server.client_url,
        user=user,
        password=user,
        name="who",
        allow_reconnect=False,
        connect_timeout=PATIENCE_S,
    )


async def test_an_audit_says_who_asked(tmp_path: Path) -> None:
    async with engine_in_server(tmp_path) as (server, _):
        client = await connect(server, "a")
        audits = await client.subscribe("$JS.EVENT.ADVISORY.API")
        await client.request("$JS.API.INFO", b"", timeout=PATIENCE_S)
        event = json.loads((await audits.next_msg(PATIENCE_S)).data)
        await client.close()
    who = event["client"]
    assert who.pop("rtt") > 0
    assert who.pop("start")
    assert who.pop("id") > 0
    assert who.pop("ver") == nats.aio.client.__version__
    assert who == {
        "host": "127.0.0.1",
        "acc": "A",
        "user": "a",
        "name": "who",
        "lang": "python3",
        "server": "ref",
        "kind": "Client",
        "client_type": "nats",
    }
    assert event["server"] == "ref"


async def test_a_client_publishes_to_a_stream_and_reads_it_after_a_restart(tmp_path: Path) -> None:
    async with engine_in_server(tmp_path) as (server, _):
        client = await connect(server, "a")
        stream = client.jetstream(timeout=PATIENCE_S)
        await stream.add_stream(name="S", subjects=["s.>"])
        acks = await asyncio.gather(*(stream.publish("s.a", b"%d" % number) for number in range(100)))
        assert [ack.seq for ack in acks] == list(range(1, 101))
        await client.close()
    async with engine_in_server(tmp_path) as (server, _):
        client = await connect(server, "a")
        message = await client.jetstream(timeout=PATIENCE_S).get_msg("S", 100)
        assert message.data == b"99"
        await client.close()


async def test_an_account_without_jetstream_is_told_so(tmp_path: Path) -> None:
    async with engine_in_server(tmp_path) as (server, _):
        client = await connect(server, "b")
        answer = json.loads((await client.request("$JS.API.STREAM.NAMES", b"", timeout=PATIENCE_S)).data)
        assert answer["error"]["err_code"] == 10039
        with pytest.raises(NoRespondersError):
            await client.request("$JS.API.CONSUMER.MSG.NEXT.S.C", b"", timeout=PATIENCE_S)
        await client.close()


async def test_what_the_server_itself_asks_for_is_done_when_the_work_at_hand_is(tmp_path: Path) -> None:
    async with engine_in_server(tmp_path) as (server, engine):
        client = await connect(server, "a")
        heard = await client.subscribe("heard")
        await client.flush()
        world = engine.accounts["A"].world
        world.ask(b"$JS.API.INFO", b"", reply=b"heard")
        assert engine.accounts["A"].api_total == 0
        assert json.loads((await heard.next_msg(PATIENCE_S)).data)["type"] == (
            "io.nats.jetstream.api.v1.account_info_response"
        )
        await client.close()


async def test_what_the_server_itself_asks_for_is_not_done_by_one_who_stopped(tmp_path: Path) -> None:
    async with engine_in_server(tmp_path) as (_, engine):
        world = engine.accounts["A"].world
        asked: list[bytes] = []
        handle = world.serve(b"service", lambda request: asked.append(request.subject))
        world.ask(b"service", b"")
        world.release(handle)
        await asyncio.sleep(0)
        assert asked == []
