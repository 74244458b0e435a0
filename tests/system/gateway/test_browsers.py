"""A web page of another origin in the browser of somebody who reaches the gateway."""

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import websockets

from millstream.base.ids import nuid
from millstream.gateway.settings import Auth, Cors, Listener, Settings, Tls
from millstream.gateway.v2.media_types import passive_type
from millstream.link.deliveries import LinkMessage
from tests.kits.certs import CertificateAuthority
from tests.kits.gateway.v1 import PATIENCE_S, Gateway, Lab, MakeGateway, curl, settings_for
from tests.kits.reference import ServerKind, ServerProcess

_EVIL = (
    "https://evil.example",
    "http://evil.example",
    "null",
    "http://127.0.0.1",  # another port of this machine is another origin
    "http://127.0.0.1:1",
    "https://127.0.0.1.evil.example",
    "http://localhost.evil.example",
    "file://",
    "chrome-extension://abcdef",
    "not an origin",
    "http://[::1]",
    "http://127.0.0.1:99999999",
)


@pytest.fixture
def server(_server_pool: Any) -> ServerProcess:
    server: ServerProcess = _server_pool.get(ServerKind.MILLSTREAM, jetstream=True)
    return server


async def _stream(gateway: Gateway) -> str:
    name = f"S{nuid()}"
    config = {"name": name, "subjects": [f"{name}.a"]}
    assert (await gateway.client.post("/v2/streams", json=config)).status_code == 201
    await gateway.publish(f"{name}.a", "SECRET")
    pull = {"durable_name": "c", "ack_policy": "explicit"}
    assert (await gateway.client.post(f"/v2/streams/{name}/consumers", json=pull)).status_code == 201
    return name


def _calls(stream: str) -> list[tuple[str, str, str]]:
    """Return the requests that a page can send without asking first, and more."""
    return [
        ("POST", f"/v1/data/subject/{stream}.a", "eA=="),
        ("POST", f"/v2/subjects/{stream}.a", "x"),
        ("POST", f"/v2/subjects/{stream}.a?ack=none", "x"),
        ("POST", f"/v2/messages?subject={stream}.a", '{"data":"x"}\n'),
        ("POST", f"/v2/streams/{stream}/purge", ""),
        ("POST", f"/v2/requests/$JS.API.STREAM.DELETE.{stream}", ""),
        ("POST", f"/v2/streams/{stream}/consumers/c/fetch", ""),
        ("POST", "/v1/admin/stream", json.dumps({"name": "EVIL"})),
        ("DELETE", f"/v2/streams/{stream}", ""),
        ("DELETE", f"/v1/admin/stream/{stream}", ""),
        ("GET", f"/v2/streams/{stream}/live", ""),
        ("GET", f"/v2/streams/{stream}/consumers/c/live", ""),
        ("GET", f"/v2/streams/{stream}/messages/1", ""),
        ("GET", "/v1/admin/stream", ""),
        ("GET", "/metrics", ""),
        ("GET", "/nothing/there", ""),
    ]


async def _refused(client: httpx.AsyncClient, stream: str, headers: dict[str, str]) -> None:
    for method, path, body in _calls(stream):
        answer = await client.request(method, path, content=body.encode(), headers=headers)
        assert answer.status_code == 403, (method, path, headers, answer.text)
        assert "access-control-allow-origin" not in answer.headers
    assert (await client.get(f"/v2/streams/{stream}")).json()["state"]["messages"] == 1


@pytest.mark.parametrize("origin", _EVIL)
async def test_pages_of_other_origins_are_refused(plain_gateway: Gateway, origin: str) -> None:
    stream = await _stream(plain_gateway)
    await _refused(plain_gateway.client, stream, {"Origin": origin})
    url = f"ws://127.0.0.1:{plain_gateway.port}/v2/streams/{stream}/consumers/c/socket"
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(url, additional_headers={"Origin": origin})
    assert refused.value.response.status_code == 403


async def test_pages_of_other_origins_are_refused_over_http2(plain_gateway: Gateway) -> None:
    stream = await _stream(plain_gateway)
    async with httpx.AsyncClient(
        base_url=plain_gateway.url, http1=False, http2=True, timeout=PATIENCE_S
    ) as client:
        await _refused(client, stream, {"Origin": "https://evil.example"})
        answer = await client.post(f"/v2/subjects/{stream}.a", headers={"Origin": plain_gateway.url})
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("mode", ["no-cors", "navigate", "cors"])
async def test_requests_without_an_origin_from_other_sites_are_refused(
    plain_gateway: Gateway, site: str, mode: str
) -> None:
    """An image or a frame whose address is ours: GETs take messages from consumers."""
    stream = await _stream(plain_gateway)
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
    await _refused(plain_gateway.client, stream, headers)
    docs = await plain_gateway.client.get("/v2/docs", headers=headers)
    assert docs.status_code == (200 if mode == "navigate" else 403)  # a link may lead to the page


async def test_two_origins_are_as_good_as_the_worse_one(plain_gateway: Gateway) -> None:
    for pair in ((plain_gateway.url, "https://evil.example"), ("https://evil.example", plain_gateway.url)):
        headers = [("Origin", origin) for origin in pair]
        assert (await plain_gateway.client.get("/v1/admin/alive", headers=headers)).status_code == 403


@pytest.mark.parametrize("name", ["X-Forwarded-Host", "Forwarded", "X-Original-Host", "X-Forwarded-For"])
async def test_what_proxies_add_is_not_trusted(plain_gateway: Gateway, name: str) -> None:
    headers = {"Origin": "https://evil.example", name: "evil.example"}
    assert (await plain_gateway.client.get("/v1/admin/alive", headers=headers)).status_code == 403


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}"),
        ("localhost:{port}", "http://LOCALHOST:{port}"),
        ("LocalHost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost", "http://localhost:80"),
        ("[::1]:{port}", "http://[::1]:{port}"),
        ("[0:0:0:0:0:0:0:1]", "http://[::1]"),
        ("gateway", "https://gateway"),  # a proxy in front speaks TLS
        ("app.localhost:1", "http://app.localhost:1"),
        ("mq.example", "https://mq.example"),
        ("MQ.example.", "https://mq.example:443"),
    ],
)
async def test_pages_of_the_gateways_own_origin_pass(
    server: ServerProcess, start_gateway: MakeGateway, host: str, origin: str
) -> None:
    settings = msgspec.structs.replace(settings_for(server.client_url), hosts=("mq.example",))
    gateway = await start_gateway(settings, wait=False)
    headers = {"Host": host.format(port=gateway.port), "Origin": origin.format(port=gateway.port)}
    assert (await gateway.client.get("/v1/admin/alive", headers=headers)).status_code == 200
    assert (await gateway.client.get("/v1/admin/alive", headers={"Host": headers["Host"]})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:3000", "a@localhost", "x y", "::1:x"]
)
async def test_a_name_that_was_made_to_point_here_is_not_ours(plain_gateway: Gateway, host: str) -> None:
    """DNS rebinding: the page and the request have the same origin, and it is not the gateway's."""
    for headers in ({"Host": host}, {"Host": host, "Origin": f"http://{host}"}):
        assert (await plain_gateway.client.get("/v1/admin/stream", headers=headers)).status_code == 403


async def test_names_are_not_checked_where_others_listen_too_unless_some_are_set(
    server: ServerProcess, start_gateway: MakeGateway
) -> None:
    settings = msgspec.structs.replace(
        settings_for(server.client_url), listeners=(Listener(host="0.0.0.0", port=0),)
    )
    gateway = await start_gateway(settings, wait=False)
    assert (await gateway.client.get("/v1/admin/alive", headers={"Host": "mq.example"})).status_code == 200
    named = await start_gateway(msgspec.structs.replace(settings, hosts=("mq.example",)), wait=False)
    assert (await named.client.get("/v1/admin/alive", headers={"Host": "mq.example"})).status_code == 200
    assert (await named.client.get("/v1/admin/alive", headers={"Host": "evil.example"})).status_code == 403


async def test_callers_that_are_no_browsers_send_no_origin_and_pass(plain_gateway: Gateway) -> None:
    told = await curl(f"{plain_gateway.url}/v1/admin/alive")
    assert json.loads(told)["success"] is True
    reader, writer = await asyncio.open_connection("127.0.0.1", plain_gateway.port)
    writer.write(b"GET /v1/admin/alive HTTP/1.0\r\n\r\n")  # without a host
    assert b" 200 " in await reader.readline()
    writer.close()


async def test_named_origins_may_call_and_others_not(
    server: ServerProcess, start_gateway: MakeGateway
) -> None:
    cors = Cors(origins=("https://App.example/", "http://localhost:8080", "null"), credentials=True)
    gateway = await start_gateway(settings_for(server.client_url, cors=cors), wait=False)
    for origin in ("https://app.example", "https://app.example:443", "http://localhost:8080", "null"):
        answer = await gateway.client.get("/v1/admin/alive", headers={"Origin": origin})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
        assert answer.headers["access-control-allow-credentials"] == "true"
    for origin in (
        "http://app.example",
        "https://app.example:8443",
        "http://localhost",
        "https://evil.example",
    ):
        answer = await gateway.client.get("/v1/admin/alive", headers={"Origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_any_origin_never_gets_credentials(server: ServerProcess, start_gateway: MakeGateway) -> None:
    gateway = await start_gateway(settings_for(server.client_url, cors=Cors(origins=("*",))), wait=False)
    answer = await gateway.client.get("/v1/admin/alive", headers={"Origin": "https://anybody.example"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
    assert "access-control-allow-credentials" not in answer.headers
    with pytest.raises(ValueError, match="credentials go with named origins only"):
        Cors(origins=("*",), credentials=True)


async def test_no_answer_is_a_page_or_a_script(lab: Lab) -> None:
    gateway = lab.gateway
    script = "<script>alert(document.domain)</script>"
    await gateway.client.post(f"/v2/subjects/{lab.subject()}", content=script)
    link = gateway.server.core.links.own
    subject = f"svc{nuid()}"

    def respond(messages: list[LinkMessage]) -> None:
        for message in messages:
            headers = {"Content-Type": message.payload.decode(), "Evil": "a\x01b"}
            link.publish(message.reply, script.encode(), headers=headers)

    link.subscribe(subject, deliver=respond)
    for path in (
        "/v1/admin/alive",
        "/v1/admin/stream",
        f"/v2/streams/{lab.stream}/messages/1",
        "/nothing",
        "/metrics",
        "/v2/openapi.json",
        "/v2/docs",
    ):
        for accept in ("*/*", "application/octet-stream", "text/html"):
            answer = await gateway.client.get(path, headers={"Accept": accept})
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
            (policy,) = answer.headers.get_list("content-security-policy")
            assert ("sandbox" in policy) == (path != "/v2/docs" or answer.status_code != 200)
            assert "default-src 'none'" in policy
            if path != "/v2/docs":
                assert not answer.headers["content-type"].startswith("text/html")
    for kind in ("text/html", "TEXT/HTML; charset=utf-8", "image/svg+xml", "application/xhtml+xml", "x\x02y"):
        answer = await gateway.client.post(f"/v2/requests/{subject}", content=kind)
        assert (answer.status_code, answer.text) == (200, script)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["millstream-header-evil"] == "a b"
    answer = await gateway.client.post(f"/v2/requests/{subject}", content="text/html")
    assert answer.headers["millstream-header-content-type"] == "text/html"
    answer = await gateway.client.post(f"/v2/requests/{subject}", content="application/json; charset=utf-8")
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert "millstream-header-content-type" not in answer.headers
    async with gateway.client.stream("GET", f"/v2/streams/{lab.stream}/live") as live:
        assert live.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in live.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("kind", "is_passive"),
    [
        ("application/json", True),
        ("application/vnd.api+json", True),
        ("text/plain; charset=utf-8", True),
        ("text/csv", True),
        ("image/png", True),
        ("application/x-protobuf", True),
        ("text/html", False),
        (" Text/HTML ", False),
        ("text/xml", False),
        ("application/xml", False),
        ("application/atom+xml", False),
        ("image/svg+xml", False),
        ("text/javascript", False),
        ("application/x-javascript", False),
        ("text/css", False),
        ("application/pdf", False),
        ("multipart/x-mixed-replace", False),
        ("message/rfc822", False),
        ("text/html\r\nSet-Cookie: a=b", False),
        ("text/plain, text/html", False),
        ("", False),
        ("nonsense", False),
    ],
)
def test_only_passive_types_are_passed_on(kind: str, is_passive: bool) -> None:
    assert passive_type(kind) == (kind if is_passive else "application/octet-stream")


async def test_a_gateway_that_speaks_tls_is_another_origin_than_one_that_does_not(
    server: ServerProcess, start_gateway: MakeGateway, tmp_path: Path
) -> None:
    authority = CertificateAuthority(tmp_path)
    issued = authority.issue_for_loopback()
    tls = Tls(certificate=issued.cert_file, key=issued.key_file)
    gateway = await start_gateway(settings_for(server.client_url, tls=tls), wait=False)
    url = f"https://127.0.0.1:{gateway.port}/v1/admin/alive"
    for scheme, status in (("https", "200"), ("http", "403")):
        for version in ("--http1.1", "--http2"):
            origin = f"Origin: {scheme}://127.0.0.1:{gateway.port}"
            told = await curl(
                *(version, "-o", "/dev/null", "-w", "%{http_code}", "-H", origin),
                *("--cacert", str(authority.cert_file), url),
            )
            assert told == status


@pytest.mark.parametrize(
    ("host", "more", "warnings"),
    [
        ("127.0.0.1", {}, []),
        ("0.0.0.0", {}, ["whoever reaches", "in the clear"]),
        ("0.0.0.0", {"auth": Auth(required=True)}, ["in the clear"]),
    ],
)
async def test_a_gateway_that_others_reach_names_the_risk(
    server: ServerProcess,
    start_gateway: MakeGateway,
    caplog: pytest.LogCaptureFixture,
    host: str,
    more: dict[str, Any],
    warnings: list[str],
) -> None:
    settings = msgspec.structs.replace(
        settings_for(server.client_url), listeners=(Listener(host=host, port=0),), **more
    )
    with caplog.at_level(logging.WARNING, "millstream.gateway"):
        await start_gateway(settings, wait=False)
    told = [record.getMessage() for record in caplog.records if "listen on 127.0.0.1" in record.getMessage()]
    assert len(told) == len(warnings)
    assert all(part in text for part, text in zip(warnings, told, strict=True))


def test_the_default_is_loopback() -> None:
    assert [listener.host for listener in Settings().listeners] == ["127.0.0.1"]


async def test_an_upgrade_to_http2_is_answered_over_http1_unless_it_is_switched_on(
    server: ServerProcess, start_gateway: MakeGateway
) -> None:
    request = (
        b"GET /v1/admin/alive HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: " + base64.urlsafe_b64encode(b"") + b"\r\n\r\n"
    )
    for is_on, status in ((False, b"HTTP/1.1 200"), (True, b"HTTP/1.1 101")):
        settings = msgspec.structs.replace(settings_for(server.client_url), h2c_upgrade=is_on)
        gateway = await start_gateway(settings, wait=False)
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        writer.write(request)
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readline()).startswith(status)
        writer.close()
        told = await curl("--http2-prior-knowledge", "-i", f"{gateway.url}/v1/admin/alive")
        assert told.startswith("HTTP/2 200")
