"""HTTP itself: versions, paths, methods, ids, limits on connections, slow and broken senders."""

import asyncio
import contextlib
import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from millstream.gateway.settings import Cors, Listener, Tls
from tests.kits.certs import CertificateAuthority
from tests.kits.gateway.v1 import (
    PATIENCE_S,
    Gateway,
    Lab,
    MakeGateway,
    curl,
    eventually,
    settings_for,
    with_limits,
)
from tests.kits.reference import ServerKind, ServerProcess


@pytest.fixture
def js_server(_server_pool: Any) -> ServerProcess:
    """One kind: what is tested here does not depend on the broker."""
    server: ServerProcess = _server_pool.get(ServerKind.MILLSTREAM, jetstream=True)
    return server


async def raw(port: int, sent: bytes) -> bytes:
    """Send bytes on a new connection and return everything it answers until it ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        async with asyncio.timeout(PATIENCE_S):
            return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def envelope_in(answer: bytes) -> dict[str, Any]:
    return dict(json.loads(answer.partition(b"\r\n\r\n")[2]))


@pytest.mark.parametrize(
    "path",
    ["/v1", "/v1/admin/stream/", "/v1/data/subject/a%2Fb", "/v1/data/subject/", "/x", "/v1/admin"],
)
async def test_unknown_paths_get_an_envelope_too(gateway: Gateway, path: str) -> None:
    assert (await gateway.refused("GET", path))[:2] == (404, 404)


async def test_other_methods_are_told_which_ones_are_allowed(gateway: Gateway) -> None:
    answer = await gateway.client.patch("/v1/admin/stream")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert answer.json()["error"]["code"] == 405
    answer = await gateway.client.head("/v1/data/subject/a")
    assert (answer.status_code, answer.headers["allow"], answer.content) == (405, "POST", b"")
    answer = await gateway.client.options("/v1/admin/alive")
    assert answer.status_code == 405


@pytest.mark.parametrize("name", ["Httpmq-Request-ID", "HTTPMQ-REQUEST-ID", "httpmq-request-id"])
async def test_a_request_id_comes_back_as_it_was(gateway: Gateway, name: str) -> None:
    told = await gateway.good("GET", "/v1/admin/alive", headers={name: 'any "text" ü'.encode("latin-1")})
    assert told["request_id"] == 'any "text" ü'


async def test_without_an_id_a_fresh_one_is_made(gateway: Gateway) -> None:
    first = await gateway.good("GET", "/v1/admin/alive")
    second = await gateway.good("GET", "/v1/admin/alive", headers={"Httpmq-Request-ID": ""})
    assert len(first["request_id"]) == len(second["request_id"]) == 36
    assert first["request_id"] != second["request_id"]


async def test_http2_has_no_connection_header(lab: Lab) -> None:
    await lab.consumer()
    async with (
        httpx.AsyncClient(http1=False, http2=True, timeout=PATIENCE_S) as client,
        client.stream(
            "GET",
            f"{lab.gateway.url}/v1/data/stream/{lab.stream}/consumer/c",
            params={"subject_name": lab.subject()},
        ) as answer,
    ):
        assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
        assert "connection" not in answer.headers
        await lab.publish("over HTTP/2")
        async for line in answer.aiter_lines():
            assert json.loads(line)["sequence"] == {"stream": 1, "consumer": 1}
            break


async def test_many_requests_share_an_http2_connection(gateway: Gateway) -> None:
    async with httpx.AsyncClient(http1=False, http2=True, timeout=PATIENCE_S) as client:
        answers = await asyncio.gather(*(client.get(f"{gateway.url}/v1/data/alive") for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}


async def test_requests_in_a_pipeline_are_answered_in_order(gateway: Gateway) -> None:
    requests = b"".join(
        b"GET /v1/admin/alive HTTP/1.1\r\nHost: x\r\nHttpmq-Request-ID: %d\r\n%s\r\n"
        % (number, b"Connection: close\r\n" if number == 4 else b"")
        for number in range(5)
    )
    told = await raw(gateway.port, requests)
    positions = [told.index(b'"request_id":"%d"' % number) for number in range(5)]
    assert positions == sorted(positions)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon here\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad\x00Header: 1\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused_in_an_envelope(gateway: Gateway, sent: bytes) -> None:
    told = await raw(gateway.port, sent)
    assert told.startswith(b"HTTP/1.1 400 ")
    assert envelope_in(told)["error"]["code"] == 400


async def test_a_head_that_is_too_long_is_refused(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    gateway = await start_gateway(with_limits(settings_for(js_server.client_url), max_head=8192))
    first = b"GET /v1/admin/alive HTTP/1.1\r\nHost: x\r\n"
    endless = b"".join(b"X-Header-%d: %s\r\n" % (number, b"a" * 100) for number in range(200))
    told = await raw(gateway.port, first + endless)
    assert told.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "sent", [b"", b"P", b"GET /v1/admin/alive HT", b"GET /v1/admin/alive HTTP/1.1\r\nHost: x\r\nX-Slow: "]
)
async def test_a_head_that_does_not_come_is_not_waited_for(
    js_server: ServerProcess, start_gateway: MakeGateway, sent: bytes
) -> None:
    gateway = await start_gateway(with_limits(settings_for(js_server.client_url), head_timeout_s=0.3))
    told = await raw(gateway.port, sent)
    assert told.startswith(b"HTTP/1.1 408 ")


async def test_the_second_request_of_a_connection_may_not_dawdle_either(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    gateway = await start_gateway(with_limits(settings_for(js_server.client_url), head_timeout_s=0.3))
    whole = b"GET /v1/admin/alive HTTP/1.1\r\nHost: x\r\n\r\n"
    told = await raw(gateway.port, whole + b"GET /v1/admin/al")
    assert told.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in told


async def test_a_body_that_does_not_come_is_not_waited_for(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    gateway = await start_gateway(with_limits(settings_for(js_server.client_url), body_timeout_s=0.3))
    head = b"POST /v1/admin/stream HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    told = await raw(gateway.port, head + b'{"name"')
    assert told.startswith(b"HTTP/1.1 408 ")


async def test_idle_connections_are_closed(js_server: ServerProcess, start_gateway: MakeGateway) -> None:
    gateway = await start_gateway(with_limits(settings_for(js_server.client_url), idle_timeout_s=1))
    told = await raw(gateway.port, b"GET /v1/admin/alive HTTP/1.1\r\nHost: x\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 200 ")


async def test_an_answer_that_is_not_read_is_not_kept(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    gateway = await start_gateway(with_limits(settings_for(js_server.client_url), write_timeout_s=0.3))
    lab = Lab(gateway)
    # An answer that no socket takes as a whole.
    await lab.create()
    link = gateway.server.core.links.own
    subjects = [f"{lab.stream}.{'x' * 200}{number}" for number in range(200)]
    await link.api(
        f"STREAM.UPDATE.{lab.stream}", {"name": lab.stream, "subjects": subjects, "storage": "file"}
    )
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
    request = f"GET /v1/admin/stream/{lab.stream} HTTP/1.1\r\nHost: x\r\n\r\n"
    writer.write(request.encode() * 600)  # some 25 MB of answers

    async def is_alone() -> bool:
        return "millstream_gateway_connections 1.0" in (await gateway.client.get("/metrics")).text

    await eventually(is_alone, "a connection that reads nothing is kept")
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    await lab.remove()


async def test_connections_are_limited(js_server: ServerProcess, start_gateway: MakeGateway) -> None:
    gateway = await start_gateway(
        with_limits(settings_for(js_server.client_url), connections_per_address=3), wait=False
    )
    held = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(3)]
    for reader, writer in held:
        writer.write(b"GET /v1/admin/alive HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    assert (await raw(gateway.port, b"")).startswith(b"HTTP/1.1 503 ")
    for _, writer in held:
        writer.close()
        await writer.wait_closed()
    await gateway.good("GET", "/v1/admin/alive")


async def test_too_many_requests_are_told_when_to_come_back(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    settings = with_limits(settings_for(js_server.client_url), rate=0.01, burst=3)
    gateway = await start_gateway(settings)
    for _ in range(3):
        await gateway.good("GET", "/v1/admin/stream")
    answer = await gateway.client.get("/v1/admin/stream")
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 100
    assert answer.json()["error"]["code"] == 429
    await gateway.good("GET", "/v1/admin/alive")  # health is never refused


async def test_pages_of_allowed_origins_may_call(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    settings = settings_for(js_server.client_url, cors=Cors(origins=("https://app.example",)))
    gateway = await start_gateway(settings)
    asking = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type",
    }
    answer = await gateway.client.options("/v1/data/subject/x", headers=asking)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "POST" in answer.headers["access-control-allow-methods"]
    answer = await gateway.client.get("/v1/admin/alive", headers={"origin": "https://app.example"})
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    answer = await gateway.client.get("/v1/admin/alive", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


async def test_metrics_count_what_was_answered(gateway: Gateway) -> None:
    await gateway.good("GET", "/v1/admin/alive")
    await gateway.refused("POST", "/v1/data/subject/nobody.there", b"eA==")
    text = (await gateway.client.get("/metrics")).text
    assert 'requests_total{method="GET",route="/v1/admin/alive",status="200"} 1.0' in text
    assert 'requests_total{method="POST",route="/v1/data/subject/{subjectName}",status="400"} 1.0' in text
    assert "millstream_gateway_nats_up 1.0" in text


async def test_a_prefix_stands_before_every_path(
    js_server: ServerProcess, start_gateway: MakeGateway
) -> None:
    settings = settings_for(js_server.client_url)
    listener = Listener(host="127.0.0.1", port=0, path_prefix="/mq/")
    gateway = await start_gateway(msgspec.structs.replace(settings, listeners=(listener,)), wait=False)
    await gateway.good("GET", "/mq/v1/admin/alive")
    assert (await gateway.refused("GET", "/v1/admin/alive"))[0] == 404


@pytest.mark.parametrize(("option", "version"), [("--http2", "HTTP/2 200"), ("--http1.1", "HTTP/1.1 200")])
async def test_tls_and_its_negotiation_of_http2(
    js_server: ServerProcess, start_gateway: MakeGateway, tmp_path: Path, option: str, version: str
) -> None:
    authority = CertificateAuthority(tmp_path)
    issued = authority.issue_for_loopback()
    tls = Tls(certificate=issued.cert_file, key=issued.key_file)
    settings = settings_for(js_server.client_url, tls=tls)
    gateway = await start_gateway(settings, wait=False)
    told = await curl(
        option,
        "-i",
        "--cacert",
        str(authority.cert_file),
        f"https://127.0.0.1:{gateway.port}/v1/admin/alive",
    )
    assert told.startswith(version)


async def test_a_request_without_tls_is_not_answered_where_tls_is_spoken(
    js_server: ServerProcess, start_gateway: MakeGateway, tmp_path: Path
) -> None:
    issued = CertificateAuthority(tmp_path).issue_for_loopback()
    tls = Tls(certificate=issued.cert_file, key=issued.key_file)
    settings = with_limits(settings_for(js_server.client_url, tls=tls), head_timeout_s=0.2)
    gateway = await start_gateway(settings, wait=False)
    with pytest.raises((ssl.SSLError, httpx.RemoteProtocolError, httpx.ReadError)):
        await gateway.client.get("/v1/admin/alive")
