"""Events in the system account of a server in this process, heard by nats-py."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import NoRespondersError

from millstream.server.monitor import formats
from millstream.server.server import Server
from millstream.server.system import events
from tests.kits.server.system import PATIENCE_S, System, running


@pytest_asyncio.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with running(tmp_path) as started:
        yield started


@pytest_asyncio.fixture
async def quiet_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[System]:
    """Run a server without its statistics, which would come between the events of a slow test."""
    monkeypatch.setattr(events, "_FIRST_STATSZ_S", 3600.0)
    async with running(tmp_path) as started:
        yield started


async def listen(client: Client, subject: str) -> Subscription:
    subscription = await client.subscribe(subject)
    await client.flush()
    return subscription


async def heard(subscription: Subscription) -> tuple[str, Any]:
    message = await subscription.next_msg(timeout=PATIENCE_S)
    return message.subject, json.loads(message.data)


async def test_client_that_comes_and_goes_is_told_in_order(quiet_system: System) -> None:
    told = await listen(await quiet_system.join("sys"), "$SYS.*.>")
    client = await quiet_system.join("a", name="visitor")
    cid = client._client_id
    await client.subscribe("foo")
    await client.publish("foo", b"12345")
    await client.flush()
    await client.close()
    seen = [await heard(told) for _ in range(6)]
    assert [subject for subject, _ in seen] == [
        "$SYS.SERVER.ACCOUNT.A.CONNS",
        "$SYS.ACCOUNT.A.SERVER.CONNS",
        "$SYS.ACCOUNT.A.CONNECT",
        "$SYS.SERVER.ACCOUNT.A.CONNS",
        "$SYS.ACCOUNT.A.SERVER.CONNS",
        "$SYS.ACCOUNT.A.DISCONNECT",
    ]
    documents = [document for _, document in seen]
    assert [each["conns"] for each in documents if "conns" in each] == [1, 1, 0, 0]
    assert documents[0]["id"] == documents[1]["id"] != documents[3]["id"]
    numbers = [each["server"]["seq"] for each in documents]
    assert numbers == sorted(set(numbers))
    connected, disconnected = documents[2], documents[5]
    assert connected["type"] == "io.nats.server.advisory.v1.client_connect"
    assert connected["client"].keys() >= {"start", "lang", "ver"}
    expected = {"id": cid, "acc": "A", "user": "a", "name": "visitor", "name_tag": "A"}
    expected |= {"host": "127.0.0.1", "kind": "Client", "client_type": "nats"}
    for document in (connected, disconnected):
        assert {key: document["client"][key] for key in expected} == expected
    assert disconnected["sent"] == disconnected["received"] == {"msgs": 1, "bytes": 5}
    assert disconnected["reason"] == "Client Closed"


async def test_refused_client_is_told_without_its_secret(quiet_system: System) -> None:
    told = await listen(await quiet_system.join("sys"), "$SYS.*.>")

    reader, writer = await asyncio.open_connection("127.0.0.1", quiet_system.server.port)
    writer.write(b'CONNECT {"auth_token":"hush","verbose":false}\r\n')
    assert (await reader.read()).endswith(b"-ERR 'Authorization Violation'\r\n")
    writer.close()
    await writer.wait_closed()
    subject, refused = await heard(told)
    assert subject == f"$SYS.SERVER.{quiet_system.server.broker.identity.server_id}.CLIENT.AUTH.ERR"
    assert refused["reason"] == "Authentication Failure"
    assert (refused["client"]["user"], refused["client"]["acc"]) == ("[REDACTED]", "$G")
    subject, gone = await heard(told)
    assert (subject, gone["reason"]) == ("$SYS.ACCOUNT.$G.DISCONNECT", "Authentication Failure")


async def test_nothing_is_encoded_that_nobody_hears(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []
    original = formats.compact

    def note(document: Any) -> bytes:
        encoded.append(document)
        return original(document)

    monkeypatch.setattr(formats, "compact", note)
    client = await system.join("a")
    await client.close()
    operator = await system.join("sys")
    assert encoded == []
    told = await listen(operator, "$SYS.ACCOUNT.A.CONNECT")
    await system.join("a")
    await heard(told)
    assert len(encoded) == 1


async def test_statistics_come_soon_after_the_start(system: System) -> None:
    told = await listen(await system.join("sys"), "$SYS.SERVER.*.STATSZ")
    subject, document = await heard(told)
    assert subject == f"$SYS.SERVER.{system.server.broker.identity.server_id}.STATSZ"
    assert document["statsz"]["connections"] == 1


async def test_count_of_an_account_is_repeated_while_it_has_clients(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_ACCOUNT_INTERVAL_S", 0.01)
    operator = await system.join("sys")
    told = await listen(operator, "$SYS.ACCOUNT.A.SERVER.CONNS")
    client = await system.join("a")
    assert [(await heard(told))[1]["conns"] for _ in range(3)] == [1, 1, 1]
    await client.close()
    while (await heard(told))[1]["conns"]:
        pass
    # The next beat finds the account empty and is the last: only accounts with clients go on.
    everything = await listen(operator, "$SYS.ACCOUNT.*.SERVER.CONNS")
    assert {(await heard(everything))[1]["acc"] for _ in range(5)} == {"SYS"}


async def test_going_away_is_told(tmp_path: Path) -> None:
    told: asyncio.Queue[Msg] = asyncio.Queue()
    async with running(tmp_path) as system:
        server_id = system.server.broker.identity.server_id
        operator = await system.join("sys")
        for name in ("LAMEDUCK", "SHUTDOWN"):
            await operator.subscribe(f"$SYS.SERVER.{server_id}.{name}", cb=told.put)
        await operator.flush()
        system.server.events.lame_duck()
        await system.server.stop()
        for name in ("LAMEDUCK", "SHUTDOWN"):
            message = await asyncio.wait_for(told.get(), PATIENCE_S)
            document = json.loads(message.data)
            assert message.subject == f"$SYS.SERVER.{server_id}.{name}"
            assert (document["id"], document["name"], document["ver"]) == (server_id, "probe", "2.15.1")


async def test_without_a_system_account_nothing_is_said(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text("host: 127.0.0.1\nport: -1\nno_system_account: true\n")
    async with Server(config=str(config)) as server:
        client = await nats.connect(server.client_url)
        try:
            with pytest.raises(NoRespondersError):
                await client.request("$SYS.REQ.USER.INFO", b"", timeout=PATIENCE_S)
        finally:
            await client.close()
        assert server.reload_listeners == []
