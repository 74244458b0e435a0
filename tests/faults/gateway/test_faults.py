"""Faults around the gateway: the link to NATS, the gateway itself, and readers that do not read."""

import asyncio
import base64
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from millstream.gateway.link import CallerLink
from millstream.gateway.settings import Nats
from tests.kits.fault_proxy import FaultProxy
from tests.kits.gateway.v1 import (
    PATIENCE_S,
    Gateway,
    GatewayProcess,
    Lab,
    Lines,
    MakeGateway,
    eventually,
    is_ready,
    payload_of,
)
from tests.kits.reference import ServerKind, ServerProcess

SECOND_NS = 1_000_000_000
StartServer = Callable[..., ServerProcess]


async def is_not_ready(gateway: Gateway) -> bool:
    return not await is_ready(gateway)


async def test_the_link_goes_away_and_comes_back(own_server: StartServer, start_gateway: MakeGateway) -> None:
    server = own_server(jetstream=True)
    gateway = await start_gateway(server.client_url)
    lab = Lab(gateway)
    await lab.create()
    await lab.consumer(max_inflight=10)
    async with lab.subscribed(max_msg_inflight=0) as lines:
        await lab.publish("before")
        await lab.ack(await lines.next())
        server.stop()
        await eventually(lambda: is_not_ready(gateway), "the gateway did not notice")
        assert await gateway.refused("GET", "/v1/data/ready") == (500, 500, "not ready")
        assert await gateway.refused("GET", "/v1/admin/ready") == (500, 500, "not ready")
        await gateway.good("GET", "/v1/data/alive")
        refused = await gateway.refused("POST", f"/v1/data/subject/{lab.subject()}", b"eA==")
        assert refused == (400, 500, f"Unable to publish message to {lab.subject()}")
        assert (await gateway.refused("GET", "/v1/admin/stream"))[0] == 500
        server.start()
        await eventually(lambda: is_ready(gateway), "the gateway did not come back")

        async def can_publish() -> bool:
            return (await gateway.call("POST", f"/v1/data/subject/{lab.subject()}", b"YWZ0ZXI="))[0] == 200

        await eventually(can_publish, "publishing did not come back")
        line = await lines.next()
        while payload_of(line) != "after":  # its acknowledgement may have died with the server
            line = await lines.next()
        assert (await lab.ack(line))["acked"] is True


async def test_a_link_that_is_cut_while_it_is_mended_is_mended(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    async with FaultProxy(js_server.port) as proxy:
        gateway = await start_gateway(f"nats://127.0.0.1:{proxy.port}")
        lab = Lab(gateway)
        await lab.create()
        await lab.consumer(max_inflight=100)
        async with lab.subscribed(max_msg_inflight=0) as lines:
            for round_number in range(5):
                for _ in range(10):
                    proxy.cut_all()
                    await asyncio.sleep(0.01)
                await eventually(lambda: is_ready(gateway), "the gateway did not come back")

                async def is_published(text: str = str(round_number)) -> bool:
                    body = base64.b64encode(text.encode())
                    return (await gateway.call("POST", f"/v1/data/subject/{lab.subject()}", body))[0] == 200

                await eventually(is_published, "publishing did not come back")
                line = await lines.next()
                while (await lab.ack(line))["acked"] is False:
                    line = await lines.next()
        await lab.remove()


async def test_a_link_that_is_closed_leaves_no_tasks(js_server: ServerProcess) -> None:
    before = asyncio.all_tasks()
    link = CallerLink(Nats.at(js_server.client_url))
    await link.connect()
    asking = asyncio.create_task(link.request("nobody.answers.this.in.time"))
    await link.close()
    await asyncio.gather(asking, return_exceptions=True)

    async def is_over() -> bool:
        return asyncio.all_tasks() == before

    await eventually(is_over, "a task of the closed link is still there")


async def test_a_gateway_without_nats_starts_and_waits(
    own_server: StartServer, start_gateway: MakeGateway
) -> None:
    server = own_server(jetstream=True)
    url = server.client_url
    server.stop()
    gateway = await start_gateway(url, wait=False)
    assert await gateway.refused("GET", "/v1/data/ready") == (500, 500, "not ready")
    assert (await gateway.refused("POST", "/v1/data/subject/x", b"eA=="))[:2] == (400, 500)
    server.start()
    await eventually(lambda: is_ready(gateway), "the gateway did not find NATS")


async def test_a_broker_without_jetstream_is_not_ready(
    shared_server: StartServer, start_gateway: MakeGateway
) -> None:
    gateway = await start_gateway(shared_server().client_url, wait=False)

    async def is_connected() -> bool:
        return gateway.server.core.links.own.is_up

    await eventually(is_connected, "no connection")
    assert await gateway.refused("GET", "/v1/admin/ready") == (500, 500, "not ready")


async def test_what_a_killed_gateway_had_out_comes_back_through_another(
    js_server: ServerProcess, gateway: Gateway, lab: Lab
) -> None:
    await lab.consumer(max_inflight=10, ack_wait=SECOND_NS)
    sent = [str(number) for number in range(10)]
    for text in sent:
        await lab.publish(text)
    process = GatewayProcess("--server", js_server.client_url)
    try:
        await process.started()
        path = f"{process.url}/v1/data/stream/{lab.stream}/consumer/c"
        query = {"subject_name": lab.subject(), "max_msg_inflight": "5"}
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:

            async def subscribe() -> bool:
                async with client.stream("GET", path, params=query) as answer:
                    if answer.status_code != 200:
                        return False  # it is not connected yet
                    lines = Lines(answer)
                    assert [await lines.text() for _ in range(5)] == sent[:5]
                    process.signal(signal.SIGKILL)
                    with pytest.raises(httpx.HTTPError):
                        await lines.ended()
                    return True

            await eventually(subscribe, "the gateway did not deliver")
    finally:
        process.close()
    got: set[str] = set()
    async with lab.subscribed(max_msg_inflight=0) as lines:
        while len(got) < len(sent):
            line = await lines.next()
            await lab.ack(line)
            got.add(payload_of(line))
    assert got == set(sent)


async def test_a_gateway_that_is_stopped_says_goodbye(
    js_server: ServerProcess, lab: Lab, server_kind: ServerKind
) -> None:
    number = {ServerKind.MILLSTREAM: signal.SIGTERM, ServerKind.NATS_SERVER: signal.SIGINT}[server_kind]
    await lab.consumer(max_inflight=10, ack_wait=SECOND_NS)
    await lab.publish("unacknowledged")
    process = GatewayProcess("--server", js_server.client_url)
    try:
        await process.started()
        path = f"{process.url}/v1/data/stream/{lab.stream}/consumer/c"
        async with httpx.AsyncClient(timeout=PATIENCE_S) as client:

            async def subscribe() -> bool:
                query = {"subject_name": lab.subject()}
                async with client.stream("GET", path, params=query) as answer:
                    if answer.status_code != 200:
                        return False
                    lines = Lines(answer)
                    assert await lines.text() == "unacknowledged"
                    process.signal(number)
                    last = await lines.next()
                    while last["success"]:  # it comes again once a second
                        last = await lines.next()
                    assert last["error"] == {
                        "code": 500,
                        "message": "Server stopping",
                        "detail": "terminating PUSH subscription on server stop",
                    }
                    assert last["request_id"] == answer.headers["httpmq-request-id"]
                    return await lines.ended()

            await eventually(subscribe, "the gateway did not deliver")
        assert await process.ended() == 0
    finally:
        process.close()
    async with lab.subscribed() as lines:  # when its time to be acknowledged is over
        assert await lines.text() == "unacknowledged"


async def stalled_reader(gateway: Gateway, lab: Lab) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A subscription whose caller reads the head of the answer, and then nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=64 * 1024)
    path = f"/v1/data/stream/{lab.stream}/consumer/c?subject_name={lab.subject()}&max_msg_inflight=0"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    return reader, writer


async def test_a_slow_reader_pushes_back_and_loses_nothing(gateway: Gateway, lab: Lab) -> None:
    await lab.consumer(max_inflight=20_000)
    link = gateway.server.core.links.own
    payload = b"x" * 20_000
    total = 1500  # 30 MB: far more than the sockets and the gateway hold
    reader, writer = await stalled_reader(gateway, lab)
    try:
        for _ in range(total // 50):
            await asyncio.gather(*(link.store(lab.subject(), payload) for _ in range(50)))

        async def is_stalled() -> bool:
            before = (await lab.info())["delivered"]["consumer_seq"]
            await asyncio.sleep(0.3)
            return bool(before == (await lab.info())["delivered"]["consumer_seq"])

        await eventually(is_stalled, "the consumer still delivers")
        out = (await lab.info())["num_ack_pending"]
        assert out < total // 2
        seen: set[int] = set()

        async def read() -> None:
            marker = b'"sequence":{"stream":'
            while len(seen) < total:
                text = await reader.readuntil(b"\n")
                if marker in text:
                    seen.add(int(text.split(marker)[1].split(b",")[0]))

        async with asyncio.timeout(PATIENCE_S):
            await read()
        assert seen == set(range(1, total + 1))
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_reader_that_vanishes_while_it_is_stalled_frees_the_consumer(
    gateway: Gateway, lab: Lab
) -> None:
    await lab.consumer(max_inflight=20_000, ack_wait=SECOND_NS)
    link = gateway.server.core.links.own
    _, writer = await stalled_reader(gateway, lab)
    for _ in range(10):
        await asyncio.gather(*(link.store(lab.subject(), b"x" * 50_000) for _ in range(20)))
    writer.transport.abort()
    seen: set[int] = set()
    async with lab.subscribed(max_msg_inflight=0) as lines:
        while len(seen) < 200:
            line: dict[str, Any] = await lines.next()
            seen.add(line["sequence"]["stream"])
    assert seen == set(range(1, 201))
