"""Routes of `/v2` over HTTP/2 with prior knowledge: one connection, many streams."""

import json

import httpx

from tests.kits.gateway.v2 import PATIENCE_S, Gateway, Lines


async def test_publishing_batches_and_live_streams_share_a_connection(gateway: Gateway) -> None:
    await gateway.add_stream()
    consumer = await gateway.add_consumer(ack_wait=3600 * 1_000_000_000, max_ack_pending=-1)
    host, port = gateway.address
    async with (
        httpx.AsyncClient(
            base_url=f"http://{host}:{port}", http1=False, http2=True, timeout=PATIENCE_S
        ) as http,
        http.stream("GET", f"{gateway.path}/live", headers={"Accept": "text/event-stream"}) as events,
        http.stream("GET", f"{consumer}/live?on_disconnect=nak") as lines,
    ):
        assert (events.http_version, events.status_code, lines.status_code) == ("HTTP/2", 200, 200)
        body = b"".join(
            json.dumps({"subject": f"{gateway.subject}.a", "data": str(number)}).encode() + b"\n"
            for number in range(2000)
        )
        answer = await http.post("/v2/messages", content=body)
        assert answer.text.count('"ok":true') == 2000
        reader = Lines(lines)
        assert [(await reader.next())["data"] for _ in range(2000)] == [str(n) for n in range(2000)]
        seen = Lines(events)
        assert [await seen.text() for _ in range(3)] == ["retry: 2000", "", "id: 1"]
    # The connection is gone, and its readers with it (httpx does not reset streams): all of it comes again.
    (again,) = await gateway.fetch(consumer, batch=1, expires=60)
    assert again["delivered"] == 2
