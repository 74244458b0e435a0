"""Callers of the gateway: credentials for the broker, the gateway's own tokens, and secrets it hides."""

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx
import nkeys
import pytest

from millstream.gateway.settings import Auth, Logging
from tests.kits.gateway.v1 import (
    PATIENCE_S,
    Gateway,
    GatewayProcess,
    MakeGateway,
    eventually,
    settings_for,
    with_limits,
    write,
)
from tests.kits.reference import ServerProcess

CONFIG = """
authorization {
  users = [
    {user: own, password: gateway-password}
    {user: alice, password: alice-password, permissions: {
      publish: ["orders.>", "$JS.API.>", "$JS.ACK.>", "_INBOX.>", "ack-rx.>"], subscribe: [">"]}}
    {user: reader, password: reader-password, permissions: {publish: ["$JS.API.STREAM.INFO.*"]}}
    {nkey: %s}
  ]
}
"""
STREAM = {"name": "orders", "subjects": ["orders.*", "secrets.*"]}

StartServer = Callable[..., ServerProcess]


class KeyPair(NamedTuple):
    seed: str
    public: str


@pytest.fixture(scope="module")
def key() -> KeyPair:
    seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return KeyPair(seed.decode(), nkeys.from_seed(bytearray(seed)).public_key.decode())


@pytest.fixture
def broker(own_server: StartServer, key: KeyPair) -> ServerProcess:
    return own_server(jetstream=True, config=CONFIG % key.public)


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


OWN = {"user": "own", "password": "gateway-password"}
ALICE = basic("alice", "alice-password")


async def test_the_brokers_permissions_rule(broker: ServerProcess, start_gateway: MakeGateway) -> None:
    gateway = await start_gateway(broker.client_url, nats=OWN)
    await gateway.good("POST", "/v1/admin/stream", STREAM)
    await gateway.good("POST", "/v1/data/subject/orders.new", b"eA==", headers=ALICE)
    status, told = await gateway.call("POST", "/v1/data/subject/secrets.new", b"eA==", headers=ALICE)
    assert (status, told["error"]["code"]) == (403, 403)
    assert "permissions violation" in told["error"]["detail"].lower()
    await gateway.good("POST", "/v1/data/subject/secrets.new", b"eA==")  # the gateway itself may
    reader = basic("reader", "reader-password")
    await gateway.good("GET", "/v1/admin/stream/orders", headers=reader)
    status, _ = await gateway.call("DELETE", "/v1/admin/stream/orders", headers=reader)
    assert status == 403


async def test_guesses_are_limited_however_different_they_are(
    broker: ServerProcess, start_gateway: MakeGateway
) -> None:
    settings = with_limits(settings_for(broker.client_url, nats=OWN), rate=0.01, burst=4)
    gateway = await start_gateway(settings)
    statuses = []
    for number in range(6):
        guess = basic("alice", f"guess {number}")
        statuses.append((await gateway.call("GET", "/v1/admin/stream", headers=guess))[0])
    assert statuses == [401] * 4 + [429] * 2


async def test_an_nkey_seed_is_passed_through(
    broker: ServerProcess, start_gateway: MakeGateway, key: KeyPair
) -> None:
    gateway = await start_gateway(broker.client_url, nats=OWN)
    headers = {"authorization": f"Nkey {key.seed}"}
    await gateway.good("POST", "/v1/admin/stream", STREAM, headers=headers)
    await gateway.good("POST", "/v1/data/subject/orders.new", b"eA==", headers=headers)


async def test_a_token_is_passed_through(own_server: StartServer, start_gateway: MakeGateway) -> None:
    broker = own_server(jetstream=True, config="authorization { token: the-nats-token }")
    gateway = await start_gateway(broker.client_url)  # ready, although it has no credentials itself
    headers = {"authorization": "Bearer the-nats-token"}
    await gateway.good("POST", "/v1/admin/stream", STREAM, headers=headers)
    await gateway.good("POST", "/v1/data/subject/orders.new", b"eA==", headers=headers)
    status, _ = await gateway.call("GET", "/v1/admin/stream", headers={"authorization": "Bearer wrong"})
    assert status == 401
    assert (await gateway.call("GET", "/v1/admin/stream"))[1]["success"] is False


@pytest.mark.parametrize(
    "value",
    ["Basic eA==", "Basic !!", "Basic", "Digest x", "Bearer", "Nkey nonsense", "Nkey SUNONSENSE", "x"],
)
async def test_credentials_that_are_none_are_refused(plain_gateway: Gateway, value: str) -> None:
    answer = await plain_gateway.client.get("/v1/admin/stream", headers={"authorization": value})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, 401)
    assert "Basic" in answer.headers["www-authenticate"]


async def test_wrong_passwords_are_refused_and_nothing_of_ours_helps_them_in(
    broker: ServerProcess, start_gateway: MakeGateway
) -> None:
    url = broker.client_url.replace("nats://", "nats://own:gateway-password@")
    gateway = await start_gateway(url)
    await gateway.good("GET", "/v1/admin/stream")
    for headers in (basic("alice", "wrong"), basic("nobody", ""), {"authorization": "Bearer x"}):
        assert (await gateway.call("GET", "/v1/admin/stream", headers=headers))[0] == 401
        assert (await gateway.call("POST", "/v1/data/subject/orders.x", b"eA==", headers=headers))[0] == 401


async def test_without_credentials_only_health_is_told_when_they_are_required(
    broker: ServerProcess, start_gateway: MakeGateway
) -> None:
    gateway = await start_gateway(broker.client_url, nats=OWN, auth=Auth(required=True))
    for path in ("/v1/admin/alive", "/v1/admin/ready", "/v1/data/alive", "/v1/data/ready"):
        await gateway.good("GET", path)
    for method, path in (
        ("GET", "/v1/admin/stream"),
        ("POST", "/v1/admin/stream"),
        ("DELETE", "/v1/admin/stream/orders"),
        ("POST", "/v1/data/subject/orders.new"),
        ("GET", "/v1/data/stream/orders/consumer/c?subject_name=x"),
        ("POST", "/v1/data/stream/orders/consumer/c/ack"),
        ("GET", "/metrics"),
    ):
        assert (await gateway.refused(method, path))[0] == 401, path
    await gateway.good("GET", "/v1/admin/stream", headers=ALICE)


async def test_tokens_of_the_gateways_own(
    broker: ServerProcess, start_gateway: MakeGateway, tmp_path: Path
) -> None:
    digest = hashlib.sha256(b"token-of-plain").hexdigest()
    tokens = write(
        tmp_path / "tokens.yaml",
        f"plain: {{sha256: {digest}}}\n"
        "restricted: {token: token-of-restricted, nats: {user: alice, password: alice-password}}\n",
    )
    auth = Auth(required=True, pass_through=False, tokens_file=tokens)
    gateway = await start_gateway(broker.client_url, nats=OWN, auth=auth)
    plain = {"authorization": "Bearer token-of-plain"}
    restricted = {"authorization": "Bearer token-of-restricted"}
    await gateway.good("POST", "/v1/admin/stream", STREAM, headers=plain)
    await gateway.good("POST", "/v1/data/subject/secrets.x", b"eA==", headers=plain)
    await gateway.good("POST", "/v1/data/subject/orders.x", b"eA==", headers=restricted)
    assert (await gateway.call("POST", "/v1/data/subject/secrets.x", b"eA==", headers=restricted))[0] == 403
    for headers in ({}, {"authorization": "Bearer unknown"}, ALICE):
        assert (await gateway.call("GET", "/v1/admin/stream", headers=headers))[0] == 401

    write(tokens, "other: {token: another-token}\n")  # and whoever was in it is out

    async def is_out() -> bool:
        return (await gateway.call("GET", "/v1/admin/stream", headers=plain))[0] == 401

    await eventually(is_out, "a token that was taken back still works")
    await gateway.good("GET", "/v1/admin/stream", headers={"authorization": "Bearer another-token"})


async def test_links_of_callers_are_shared_and_closed_when_idle(
    broker: ServerProcess, start_gateway: MakeGateway
) -> None:
    gateway = await start_gateway(broker.client_url, nats={**OWN, "pooled_link_idle_s": 1.0})
    for _ in range(3):
        await gateway.good("GET", "/v1/admin/stream", headers=ALICE)
    links = gateway.server.core.links
    assert len(links) == 2

    async def is_closed() -> bool:
        return len(links) == 1

    await eventually(is_closed, "an idle link was kept")
    await gateway.good("GET", "/v1/admin/stream", headers=ALICE)


async def test_too_many_different_credentials_push_out_the_oldest(
    broker: ServerProcess, start_gateway: MakeGateway
) -> None:
    gateway = await start_gateway(broker.client_url, nats={**OWN, "pooled_links": 1})
    for headers in (ALICE, basic("own", "gateway-password"), ALICE):
        await gateway.good("GET", "/v1/admin/stream", headers=headers)
        assert len(gateway.server.core.links) == 2


async def test_no_credential_is_ever_logged(broker: ServerProcess, tmp_path: Path, key: KeyPair) -> None:
    config = write(
        tmp_path / "gateway.yaml",
        f"nats: {{server_uri: '{broker.client_url}', user: own, password: gateway-password}}\n"
        "gateway: {logging: {headers: true}}\n",
    )
    process = GatewayProcess("-c", str(config), "--access-log", "-l", "debug")
    try:
        await process.started()
        async with httpx.AsyncClient(base_url=process.url, timeout=PATIENCE_S) as gateway:
            for headers in (
                ALICE,
                basic("alice", "a-wrong-password"),
                {"authorization": "Bearer a-secret-token", "proxy-authorization": "Basic a-proxy-secret"},
                {"authorization": f"Nkey {key.seed}", "cookie": "session=a-cookie"},
                {"x-harmless": "shown"},
            ):
                await gateway.get("/v1/admin/stream?token=a-query-secret", headers=headers)
                await gateway.post("/v1/data/subject/orders.x", content=b"eA==", headers=headers)

        async def is_written() -> bool:
            return process.log.count("/v1/data/subject/orders.x") >= 5

        await eventually(is_written, "the access log is not there")
        log = process.log
        assert "shown" in log
        for secret in (
            "gateway-password",
            "alice-password",
            ALICE["authorization"].removeprefix("Basic "),
            "a-wrong-password",
            "a-secret-token",
            "a-proxy-secret",
            "a-cookie",
            "a-query-secret",
            key.seed,
        ):
            assert secret not in log
    finally:
        process.close()


async def test_a_request_can_not_write_lines_into_the_log(
    broker: ServerProcess, start_gateway: MakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_for(broker.client_url, nats=OWN, logging=Logging(access=True, headers=True))
    gateway: Gateway = await start_gateway(settings)
    with caplog.at_level("INFO", logger="millstream.gateway.access"):
        await gateway.call("GET", "/v1/x%0d%0aforged", headers={"httpmq-request-id": "a\tb c"})
    lines = [record.getMessage() for record in caplog.records]
    assert lines
    assert all("\n" not in line and "\r" not in line for line in lines)
