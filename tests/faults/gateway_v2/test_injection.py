"""Names, subjects and headers that try to be more than that."""

import asyncio
import json

import httpx
import pytest

from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import Group, Listener, Nats, Settings
from tests.kits.gateway.v2 import PATIENCE_S, Gateway, is_up

_SUBJECTS = [
    "a%20b",
    "a%09b",
    "a%0D%0AUNSUB%201",
    "a%0D%0APUB%20x%201%0D%0Ax",
    "a%00b",
    "a..b",
    ".a",
    "a.",
    "a.*",
    "*",
    ">",
    "a.%3E",
    "%2A",
    "%20",
    "%ff",
]


@pytest.mark.parametrize("subject", _SUBJECTS)
@pytest.mark.parametrize("resource", ["subjects", "requests"])
async def test_a_subject_that_is_none_is_refused(gateway: Gateway, resource: str, subject: str) -> None:
    answer = await gateway.http.post(f"/v2/{resource}/{subject}", content=b"x")
    assert answer.status_code == 400, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["a%20b", "a.b", "*", "%3E", "a%0D%0Ab", "a%2Fb", "%2e%2e", "a%5Cb", "%00"])
async def test_a_name_that_is_none_is_refused(gateway: Gateway, name: str) -> None:
    await gateway.add_stream()
    for method, path in (
        ("GET", f"/v2/streams/{name}"),
        ("DELETE", f"/v2/streams/{name}"),
        ("GET", f"{gateway.path}/consumers/{name}"),
        ("POST", f"{gateway.path}/consumers/{name}/fetch"),
        ("GET", f"{gateway.path}/consumers/{name}/live"),
    ):
        answer = await gateway.http.request(method, path)
        assert answer.status_code == 400, (path, answer.text)


async def test_names_in_bodies_are_held_to_the_same(gateway: Gateway) -> None:
    await gateway.add_stream()
    for name in ("a b", "a.b", "*", ">", "a\r\nb", ""):
        answer = await gateway.http.post("/v2/streams", json={"name": name})
        assert answer.status_code == 400, answer.text
    for name in ("a b", "a.b", "*", ">", "a\r\nb"):
        answer = await gateway.http.post(f"{gateway.path}/consumers", json={"durable_name": name})
        assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    "line",
    [
        '{"subject":"a b"}',
        '{"subject":"a\\r\\nUNSUB 1"}',
        '{"subject":"a.*"}',
        '{"subject":">"}',
        '{"subject":""}',
        '{"subject":"a..b"}',
        '{"subject":"ok","headers":{"a\\r\\nb":"c"}}',
        '{"subject":"ok","headers":{"a":"b\\r\\nNats-Rollup: all"}}',
        '{"subject":"ok","headers":{"a":["b\\nc"]}}',
        '{"subject":"ok","headers":{"":"x"}}',
        '{"subject":"ok","msg_id":"a\\r\\nb"}',
        '{"subject":"ok","headers":{"Nats-Batch-Id":"x"}}',
    ],
)
async def test_lines_of_a_batch_are_held_to_the_same(gateway: Gateway, line: str) -> None:
    answer = await gateway.http.post("/v2/messages", content=line.encode())
    (result,) = answer.text.splitlines()
    assert '"ok":false' in result
    assert '"status":400' in result


async def test_headers_of_an_envelope_can_not_add_lines(gateway: Gateway) -> None:
    await gateway.add_stream(allow_rollup_hdrs=True)
    for headers in ({"a": "b\r\nNats-Rollup: all"}, {"a\r\nNats-Rollup": "all"}, {"a:b": "c"}):
        answer = await gateway.http.post(
            f"/v2/subjects/{gateway.subject}.a",
            json={"headers": headers},
            headers={"Content-Type": "application/vnd.millstream.message+json"},
        )
        assert answer.status_code == 400, answer.text


async def test_an_ack_id_reaches_nothing_but_acks_of_its_consumer(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer()
    ids = [
        "1.1.1.1.1 x",
        "1.1.1.1.1\r\nPUB x 1",
        "a.b",
        "*.1.1.1.1",
        "1.1.1.1.>",
        "",
        "1.1.1.1.1.1",
        "hub.acc.1.1.1.1",
    ]
    ids += ["hub.acc.1.1.1.1.1.*", "hub.acc.1.1.1.1.1.", "hub.acc.1.1.1.1.1.x y"]
    answer = await gateway.http.post(f"{consumer}/acks", json={"acks": [{"ack_id": each} for each in ids]})
    assert [result["status"] for result in answer.json()["results"]] == ["refused"] * len(ids)


async def test_a_raw_line_end_in_a_header_does_not_get_through(gateway: Gateway) -> None:
    await gateway.add_stream()
    reader, writer = await asyncio.open_connection(*gateway.address)
    path = f"/v2/subjects/{gateway.subject}.a"
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nMillstream-Header-A: b\nNats-Rollup: all\r\n"
    writer.write(head.encode() + b"Content-Length: 1\r\nConnection: close\r\n\r\nx")
    await writer.drain()
    answer = await reader.read()
    writer.close()
    # It is refused, or the second line is a header of its own, as HTTP reads it: JetStream then says no.
    assert answer.split()[1] in (b"400", b"422"), answer


async def test_a_gateway_of_the_data_plane_does_not_administrate(gateway: Gateway) -> None:
    await gateway.add_stream()
    settings = Settings(
        nats=Nats.at(gateway.nats.client_url),
        listeners=(Listener(host="127.0.0.1", port=0, groups=frozenset([Group.DATAPLANE])),),
    )
    delete = f"$JS.API.STREAM.DELETE.{gateway.stream}"
    async with GatewayServer(settings) as server:
        await is_up(server)
        host, port = server.addresses[0]
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=PATIENCE_S) as http:
            for path in (
                f"/v2/requests/{delete}",
                f"/v2/subjects/{delete}",
                f"/v2/subjects/{delete}?ack=none",
            ):
                assert (await http.post(path)).status_code == 403
            assert (await http.post(f"/v2/messages?subject={delete}", content=b"{}")).status_code == 403
            lines = b"".join(json.dumps({"subject": delete, "data": data}).encode() + b"\n" for data in "ab")
            told = (await http.post("/v2/messages", content=lines)).text.splitlines()
            assert [json.loads(line)["error"]["status"] for line in told] == [403, 403]
            assert (await http.post(f"/v2/subjects/{gateway.subject}.a")).status_code == 200
    assert (await gateway.http.get(gateway.path)).status_code == 200
