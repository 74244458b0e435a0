"""Publishing many messages in one request."""

import asyncio
import json
from typing import Any

import nats

from tests.kits.gateway.v2 import Gateway


def _lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


async def _results(gateway: Gateway, body: bytes, query: str = "") -> list[dict[str, Any]]:
    answer = await gateway.http.post(
        f"/v2/messages{query}", content=body, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_every_line_has_its_result_in_order(gateway: Gateway) -> None:
    await gateway.add_stream()
    subject = f"{gateway.subject}.a"
    body = _lines(
        {"subject": subject, "data": "text"},
        {"subject": subject, "json": {"a": 1}, "msg_id": "one"},
        {"subject": subject, "base64": "AP8=", "headers": {"h": ["1", "2"]}},
        {"subject": subject, "data": "again", "headers": {"Nats-Msg-Id": "one"}},
        {"subject": "nobody.stores.this", "data": "x"},
        {"subject": subject, "data": "x", "json": 1},
    )
    body += b"{not json\n\n" + _lines({"subject": subject, "unknown": 1}, {"subject": subject}).rstrip(b"\n")
    results = await _results(gateway, body)
    stored = {"ok": True, "stream": gateway.stream}
    assert results[:4] == [
        {**stored, "seq": 1},
        {**stored, "seq": 2},
        {**stored, "seq": 3},
        {**stored, "seq": 2, "duplicate": True},
    ]
    assert [(result["ok"], result["error"]["status"]) for result in results[4:8]] == [
        (False, 404),
        (False, 400),
        (False, 400),
        (False, 400),
    ]
    assert results[8:] == [{**stored, "seq": 4}]
    page = (await gateway.http.get(f"{gateway.path}/messages?payload=json")).json()["messages"]
    assert [(m.get("data"), m.get("json"), m.get("base64"), m.get("headers")) for m in page] == [
        ("text", None, None, None),
        (None, {"a": 1}, None, {"Nats-Msg-Id": "one"}),
        (None, None, "AP8=", {"h": ["1", "2"]}),
        ("", None, None, None),
    ]


async def test_lines_without_a_subject_have_that_of_the_request(gateway: Gateway) -> None:
    await gateway.add_stream()
    body = _lines({"data": "x"}, {"subject": f"{gateway.subject}.b"})
    results = await _results(gateway, body, f"?subject={gateway.subject}.a")
    assert [result["ok"] for result in results] == [True, True]
    subjects = (await gateway.http.get(f"{gateway.path}/subjects")).json()["subjects"]
    assert subjects == {f"{gateway.subject}.a": 1, f"{gateway.subject}.b": 1}


async def test_only_failures_and_a_sum_are_told_on_request(gateway: Gateway) -> None:
    await gateway.add_stream()
    good = {"subject": f"{gateway.subject}.a", "msg_id": "1"}
    body = _lines(good, {"subject": "a b"}, good, {"subject": f"{gateway.subject}.a"})
    failure, total = await _results(gateway, body, "?results=failures")
    assert (failure["line"], failure["error"]["status"]) == (2, 400)
    assert total == {"published": 3, "duplicates": 1, "failed": 1}


async def test_jetstreams_refusal_of_a_line_has_its_code(gateway: Gateway) -> None:
    await gateway.add_stream(max_msg_size=3)
    (result,) = await _results(gateway, _lines({"subject": f"{gateway.subject}.a", "data": "long"}))
    assert (result["error"]["status"], result["error"]["err_code"]) == (413, 10054)


async def test_a_large_body_keeps_its_order_and_flows_while_it_is_sent(gateway: Gateway) -> None:
    await gateway.add_stream()
    count = 30_000
    reader, writer = await asyncio.open_connection(*gateway.address)
    writer.write(b"POST /v2/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
    writer.write(b"Transfer-Encoding: chunked\r\n\r\n")
    first = json.dumps({"subject": f"{gateway.subject}.a", "data": "0"}).encode() + b"\n"
    writer.write(b"%x\r\n%b\r\n" % (len(first), first))
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    told = await reader.readuntil(b"\n") + await reader.readuntil(b"\n")
    assert b'"seq":1}' in told  # before the rest was sent

    async def send() -> None:
        for start in range(1, count, 500):
            lines = b"".join(
                b'{"subject":"%b.a","data":"%d"}\n' % (gateway.subject.encode(), number)
                for number in range(start, min(start + 500, count))
            )
            writer.write(b"%x\r\n%b\r\n" % (len(lines), lines))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    sending = asyncio.create_task(send())
    rest = await reader.read()
    await sending
    writer.close()
    assert rest.count(b'"ok":true') >= count - 1 - rest.count(b"\r\n")  # a chunk may end within a line
    connection = await nats.connect(gateway.nats.client_url)
    try:
        info = await connection.jetstream().stream_info(gateway.stream)
        assert info.state.last_seq == count
        for number in (0, 1, 499, 500, 17_123, count - 1):
            message = (await gateway.http.get(f"{gateway.path}/messages/{number + 1}")).json()
            assert message["data"] == str(number)
    finally:
        await connection.close()


async def test_another_media_type_is_415(gateway: Gateway) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await gateway.http.post("/v2/messages", content=b"", headers=headers)
    assert answer.status_code == 415


async def test_a_line_beyond_the_limit_ends_the_batch(start_gateway: Any, shared_server: Any) -> None:
    gateway: Gateway = await start_gateway(shared_server(jetstream=True), max_body=1000)
    await gateway.add_stream()
    body = _lines({"subject": f"{gateway.subject}.a"}) + b'{"data":"' + b"x" * 300_000
    results = await _results(gateway, body)
    assert results[0]["ok"] is True
    assert results[-1]["error"]["status"] == 413
