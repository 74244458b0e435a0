"""Callers with a token of an OpenID Connect issuer: the gateway passes it through, and its roles rule."""

from collections.abc import Iterator

import pytest

pytest.importorskip("jwt")

from tests.kits.gateway.v1 import MakeGateway
from tests.kits.oidc import AUDIENCE, Issuer, claims, shared_key, signed
from tests.kits.reference import ServerKind, ServerProcess

KEY = shared_key("EC", "ec")
OWN = {"user": "own", "password": "gateway-password"}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer(KEY) as running:
        yield running


@pytest.fixture
def broker(issuer: Issuer) -> Iterator[ServerProcess]:
    config = f"""authorization {{
        users: [{{ user: own, password: gateway-password }}]
        oidc {{
          issuer: "{issuer.url}", audience: {AUDIENCE}
          roles {{ clerk {{ publish: ["orders.>", "$JS.API.>", "_INBOX.>"], subscribe: "_INBOX.>" }} }}
        }}
    }}"""
    with ServerProcess(ServerKind.MILLSTREAM, jetstream=True, config=config) as running:
        yield running


async def test_bearer(broker: ServerProcess, issuer: Issuer, start_gateway: MakeGateway) -> None:
    gateway = await start_gateway(broker.client_url, nats=OWN)
    await gateway.good("POST", "/v1/admin/stream", {"name": "all", "subjects": ["orders.*", "secrets.*"]})
    clerk = {"authorization": f"Bearer {signed(KEY, 'ES256', claims(issuer.url, roles=['clerk']))}"}
    await gateway.good("POST", "/v1/data/subject/orders.new", b"eA==", headers=clerk)
    assert (await gateway.call("POST", "/v1/data/subject/secrets.new", b"eA==", headers=clerk))[0] == 403
    nobody = {"authorization": f"Bearer {signed(KEY, 'ES256', claims(issuer.url))}"}
    assert (await gateway.call("GET", "/v1/admin/stream", headers=nobody))[0] == 401
