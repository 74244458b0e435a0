"""schemathesis makes requests of the description: no crash, and no answer that it does not describe."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from millstream.base.ids import nuid
from millstream.gateway.server import GatewayServer
from millstream.gateway.settings import BOTH_GROUPS, Listener, Nats, Settings
from millstream.gateway.v2.about import description_of
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess

_FEW = 6
_MANY = 150
_SCHEMA = schemathesis.openapi.from_dict(json.loads(description_of(BOTH_GROUPS)))
_OPERATIONS = {
    operation.label: operation for operation in (result.ok() for result in _SCHEMA.get_all_operations())
}
_LIVE = {label for label in _OPERATIONS if label.endswith(("/live", "/watch"))}
_SOCKETS = {label for label in _OPERATIONS if label.endswith("/socket")}
_CHECKS: list[CheckFunction] = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("application/x-ndjson")
def _lines(context: Any, value: Any) -> bytes:
    """A body of one line."""
    return json.dumps(value).encode() + b"\n"


@contextmanager
def _gateway_thread(nats: ServerProcess) -> Iterator[str]:
    """A gateway with an event loop of its own: requests here block."""
    ready = threading.Event()
    address: list[str] = []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        settings_ = Settings(nats=Nats.at(nats.client_url), listeners=(Listener(host="127.0.0.1", port=0),))
        async with GatewayServer(settings_) as server:
            link = server.core.links.own
            up = asyncio.Event()
            link.listen(up.set)
            if not link.is_up:
                await up.wait()
            host, port = server.addresses[0]
            address.append(f"http://{host}:{port}")
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield address[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        loop.close()


@pytest.fixture(
    scope="module",
    params=[ServerKind.MILLSTREAM, pytest.param(ServerKind.NATS_SERVER, marks=pytest.mark.soak)],
    ids=str,
)
def base_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the address of a gateway in front of either server."""
    with ServerProcess(request.param, jetstream=True) as server, _gateway_thread(server) as url:
        yield url


@pytest.fixture
def names(base_url: str) -> dict[str, str]:
    """A stream with messages and a consumer, and buckets, for requests that are to find something."""
    stream, subject = f"S{nuid()}", f"s{nuid()}"
    with httpx.Client(base_url=base_url, timeout=PATIENCE_S) as http:
        made = http.post("/v2/streams", json={"name": stream, "subjects": [subject, f"{subject}.>"]})
        assert made.status_code == 201
        config = {"durable_name": "c", "ack_policy": "explicit"}
        assert http.post(f"/v2/streams/{stream}/consumers", json=config).status_code == 201
        for body in (b"1", b"\xff", b'{"a":1}'):
            assert http.post(f"/v2/subjects/{subject}", content=body).status_code == 200
        bucket = f"B{nuid()}"
        for kind in ("kv", "objects"):
            assert http.post(f"/v2/{kind}", json={"bucket": bucket}).status_code == 201
            assert http.put(f"/v2/{kind}/{bucket}/k", content=b"1").status_code in (200, 201)
    return {
        "stream": stream,
        "consumer": "c",
        "subject": subject,
        "seq": "2",
        "bucket": bucket,
        "key": "k",
        "object": "k",
        "server_id": "N1",
        "cid": "1",
        "namespace": "plant",
        "table": "readings",
    }


@pytest.mark.parametrize("label", [label for label in _OPERATIONS if label not in _SOCKETS])
@pytest.mark.parametrize("examples", [_FEW, pytest.param(_MANY, marks=pytest.mark.soak)])
def test_requests_made_from_the_description_get_described_answers(
    label: str, examples: int, base_url: str, names: dict[str, str]
) -> None:
    operation = _OPERATIONS[label]

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), real=st.booleans())
    def call(case: Any, real: bool) -> None:
        if real:
            for name in case.path_parameters or {}:
                case.path_parameters[name] = names[name]
        if label.endswith(("/fetch", "/acks")) and isinstance(case.body, dict):
            _be_quick(case.body)
        if label in _LIVE:
            _check_beginning(case, base_url)
            return
        answer = case.call(base_url=base_url, timeout=PATIENCE_S)
        assert answer.status_code != 500, answer.text
        case.validate_response(answer, checks=_CHECKS)

    call()


def _be_quick(body: dict[str, Any]) -> None:
    """Shorten the time that a body asks the gateway to wait."""
    field = "timeout" if "acks" in body else "expires"
    wanted = body.get(field, 5.0)
    if isinstance(wanted, int | float):
        body[field] = min(wanted, 0.05)


def _check_beginning(case: Any, base_url: str) -> None:
    """Check status and type of an answer that does not end."""
    arguments = case.as_transport_kwargs(base_url=base_url)
    with requests.request(**arguments, stream=True, timeout=PATIENCE_S) as answer:
        described = case.operation.definition.raw["responses"]
        assert str(answer.status_code) in described
        assert answer.status_code != 500
        kinds = ("application/x-ndjson", "text/event-stream", "application/problem+json")
        assert answer.headers["Content-Type"] in kinds


def test_every_operation_is_asked(base_url: str) -> None:
    with httpx.Client(base_url=base_url) as http:
        served = http.get("/v2/openapi.json").json()
    labels = {f"{method.upper()} {path}" for path, methods in served["paths"].items() for method in methods}
    assert labels == set(_OPERATIONS)
    assert len(labels) > 25
