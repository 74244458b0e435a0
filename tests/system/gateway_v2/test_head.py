"""HEAD where GET is: the same head, no body, nothing begun; and the paths that everybody tries first."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from millstream.gateway.settings import BOTH_GROUPS
from millstream.gateway.v1.routes import routes_for
from millstream.gateway.v2.operations import Operation, Tag
from millstream.gateway.v2.routes import operations_of
from tests.kits.gateway.v2 import PATIENCE_S, Gateway
from tests.kits.reference import ServerKind, ServerProcess

_CHANGING = ("date", "httpmq-request-id", "content-length")  # the last: answers say what time it is
_V2 = [  # HEAD of Iceberg's protocol is another: test_iceberg.py
    each
    for each in operations_of(BOTH_GROUPS)
    if each.method == "GET" and not each.socket and each.tag is not Tag.TABLES
]
_V1 = [
    each
    for each in routes_for(BOTH_GROUPS, relaxed_names=True, inbox_prefix="_INBOX")
    if each.method == "GET"
]
_OTHERS = ["/", "/v2", "/v2/", "/docs", "/healthz", "/health", "/metrics"]


@pytest.fixture
async def gateway(start_gateway: Any, _server_pool: Any) -> Gateway:
    """Return a gateway in front of Millstream alone: HEAD does not depend on the server."""
    made: Gateway = await start_gateway(_server_pool.get(ServerKind.MILLSTREAM, jetstream=True))
    await made.add_stream(allow_direct=True)
    letter = {"Millstream-Header-Millstream-Dlq-Reason": "max_deliver"}
    await made.http.post(f"/v2/subjects/{made.subject}.a", content=b"one", headers=letter)
    await made.publish("two")
    for kind in ("kv", "objects"):
        await made.http.post(f"/v2/{kind}", json={"bucket": made.stream})
        await made.http.put(f"/v2/{kind}/{made.stream}/k", content=b"1")
    await made.add_consumer("c")
    push = {"durable_name": "p", "deliver_subject": f"to.{made.stream}", "ack_policy": "explicit"}
    answer = await made.http.post(
        f"{made.path}/consumers", json={**push, "filter_subject": f"{made.subject}.a"}
    )
    assert answer.status_code == 201, answer.text
    return made


def filled(template: str, gateway: Gateway, consumer: str) -> str:
    names = {"stream": gateway.stream, "streamName": gateway.stream, "seq": "1"}
    names |= {"bucket": gateway.stream, "key": "k", "object": "k"}
    path = template.format(**names, consumer=consumer, consumerName=consumer)
    needs_subject = template.endswith(("/last", "/next")) or template.startswith("/v1/data/stream")
    key = "subject_name" if template.startswith("/v1") else "subject"
    return f"{path}?{key}={gateway.subject}.a" if needs_subject else path


def steady(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in _CHANGING}


@pytest.mark.parametrize("template", [*(each.path for each in _V2 if not each.stream), *_OTHERS])
async def test_the_head_of_an_answer_is_that_of_get(gateway: Gateway, template: str) -> None:
    path = filled(template, gateway, "c")
    whole = await gateway.http.get(path)
    head = await gateway.http.head(path)
    assert whole.status_code < 400, whole.text
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert steady(head) == steady(whole)
    assert int(head.headers["content-length"]) > 0


@pytest.mark.parametrize("template", [each.template for each in _V1 if not each.is_stream])
async def test_v1_has_it_too(gateway: Gateway, template: str) -> None:
    path = filled(template, gateway, "p")
    whole = await gateway.http.get(path)
    head = await gateway.http.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert steady(head) == steady(whole)


def _offers(operation: Operation, media_type: str) -> bool:
    return any(media_type in answer.content for answer in operation.answers)


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
@pytest.mark.parametrize("version", ["1.1", "2"])
async def test_live_resources_answer_at_once_and_make_no_consumer(
    gateway: Gateway, accept: str, version: str
) -> None:
    host, port = gateway.address
    before = (await gateway.http.get(gateway.path)).json()["state"]["consumer_count"]
    live = [filled(each.path, gateway, "c") for each in _V2 if each.stream and _offers(each, accept)]
    live += [filled(each.template, gateway, "p") for each in _V1 if each.is_stream]
    async with httpx.AsyncClient(
        base_url=f"http://{host}:{port}", http1=version == "1.1", http2=version == "2", timeout=PATIENCE_S
    ) as http:
        for path in live:
            answer = await http.head(path, headers={"Accept": accept})
            assert (answer.status_code, answer.content) == (200, b""), path
            assert answer.headers["content-type"] == accept, path
            assert answer.headers["cache-control"] == "no-cache", path
        missing = gateway.path.replace(gateway.stream, "NOPE")
        assert (await http.head(f"{missing}/live")).status_code == 404
        assert (await http.head(f"{gateway.path}/consumers/nope/live")).status_code == 404
    state = (await gateway.http.get(gateway.path)).json()["state"]
    assert state["consumer_count"] == before
    assert (await gateway.http.get(f"{gateway.path}/consumers/c")).json()["num_waiting"] == 0
    assert 'millstream_gateway_streams{api="v2"} 0.0' in (await gateway.http.get("/metrics")).text


async def test_json_ends_its_line(gateway: Gateway) -> None:
    consumer = f"{gateway.path}/consumers/c"
    for answer in (
        await gateway.http.get(gateway.path),
        await gateway.http.get("/v2/nothing"),
        await gateway.http.get("/v2/openapi.json"),
        await gateway.http.post(f"/v2/subjects/{gateway.subject}.a", content=b"x"),
        await gateway.http.post(f"{consumer}/fetch", json={"batch": 1}),
        await gateway.http.post(f"{consumer}/fetch", json={"batch": 100, "expires": 0.01}),
    ):
        assert answer.text.endswith("}\n")
        assert answer.text.count("\n") == 1


@pytest.mark.parametrize("prefix", ["/", "/mq"])
async def test_the_root_says_where_everything_is(
    start_gateway: Any, shared_server: Callable[..., ServerProcess], prefix: str
) -> None:
    gateway: Gateway = await start_gateway(shared_server(jetstream=True), prefix=prefix)
    start = prefix.rstrip("/")
    for path in ("/", "/v2", "/v2/"):
        told = (await gateway.http.get(f"{start}{path}")).json()
        assert told["docs"] == f"{start}/v2/docs"
        for name in ("dashboard", "docs", "openapi", "health", "metrics"):
            assert (await gateway.http.get(told[name])).status_code == 200
        shown = await gateway.http.get(f"{start}{path}", headers={"Accept": "text/html,*/*;q=0.8"})
        page = f"{start}/ui/" if path == "/" else f"{start}/v2/docs"
        assert (shown.status_code, shown.headers["location"]) == (302, page)
    assert (await gateway.http.get(f"{start}/healthz")).json() == {"status": "ok"}
    lost = (await gateway.http.get(f"{start}/nothing")).json()
    assert "/v2/docs shows what there is" in json.dumps(lost)


async def test_a_gateway_without_nats_is_not_healthy(start_gateway: Any, own_server: Any) -> None:
    nats = own_server(jetstream=True)
    gateway: Gateway = await start_gateway(nats)
    assert (await gateway.http.get("/healthz")).status_code == 200
    nats.close()
    while (answer := await gateway.http.get("/healthz")).status_code == 200:
        pass
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "error": "NATS or its JetStream is not reached"}


async def test_jetstream_that_is_off_is_told_with_what_to_do(start_gateway: Any, shared_server: Any) -> None:
    gateway: Gateway = await start_gateway(shared_server())
    answer = await gateway.http.get("/v2/streams")
    assert (answer.status_code, answer.json()["title"]) == (503, "JetStream Is Off")
    where = gateway.nats.client_url.removeprefix("nats://")
    assert answer.json()["detail"].startswith(
        f"JetStream is not enabled on {where}; start the server with -js"
    )
