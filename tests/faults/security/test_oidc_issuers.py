"""A server and an OpenID Connect issuer: good tokens, an issuer that is slow or away, bad configurations."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jwt")

from tests.kits.conformance.clients import AUTHORIZATION_VIOLATION, message, publish, publish_refused
from tests.kits.oidc import AUDIENCE, Issuer, claims, shared_key, signed
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess, ServerProcessError
from tests.kits.wire import WireClient

KEY = shared_key("EC", "ec")


def configuration(issuer: Issuer, timeout_s: float = PATIENCE_S) -> str:
    return f"""
accounts {{ A {{}}, B {{ users: [{{ user: static, password: static }}] }} }}
authorization {{
  timeout: {timeout_s}
  oidc {{
    issuer: "{issuer.url}"
    audience: [{AUDIENCE}]
    claims {{ user: preferred_username, account: nats.account, roles: realm_access.roles }}
    accounts: [A, B]
    roles {{
      reader {{ subscribe: ["orders.>", "_INBOX.>"] , publish: {{ deny: ">" }} }}
      writer {{ publish: ["orders.>"] }}
    }}
  }}
}}
"""


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer(KEY) as running:
        yield running


@pytest.fixture
def server(issuer: Issuer) -> Iterator[ServerProcess]:
    with ServerProcess(ServerKind.MILLSTREAM, config=configuration(issuer)) as running:
        yield running


def token(issuer: Issuer, *roles: str, **more: Any) -> str:
    given = {"preferred_username": "ann", "nats": {"account": "A"}, "realm_access": {"roles": list(roles)}}
    return signed(KEY, "ES256", claims(issuer.url, **{**given, **more}))


def come(server: ServerProcess, **options: Any) -> WireClient:
    client = WireClient.connect(server.port)
    client.read_info()
    client.send_connect(**options)
    client.send(b"PING\r\n")
    return client


def joined(server: ServerProcess, **options: Any) -> WireClient:
    client = WireClient.connect(server.port)
    client.handshake(**options)
    return client


def test_roles_of_clients(server: ServerProcess, issuer: Issuer) -> None:
    with (
        joined(server, auth_token=token(issuer, "reader")) as reader,
        joined(server, jwt=token(issuer, "writer")) as writer,
    ):
        assert reader.info["remote_account"] == "A"
        assert reader.round_trip(b"SUB orders.* 1\r\n") == b""
        assert reader.round_trip(publish("orders.a", b"x")) == publish_refused("orders.a")
        assert writer.round_trip(publish("orders.a", b"x")) == b""
        assert reader.read_frame() == message("orders.a", 1, b"x")
    assert issuer.fetches == 1
    with come(server, auth_token=token(issuer)) as nobody:
        assert nobody.read_until_closed() == AUTHORIZATION_VIOLATION


def test_a_slow_issuer_holds_up_nobody_else(server: ServerProcess, issuer: Issuer) -> None:
    issuer.hold = threading.Event()
    with come(server, auth_token=token(issuer, "reader")) as waiting:
        with joined(server, user="static", **{"pass": "static"}) as other:
            assert other.round_trip() == b""
        issuer.hold.set()
        waiting.read_until_pong()


def test_an_issuer_that_is_away_lets_nobody_in(issuer: Issuer) -> None:
    issuer.documents.clear()
    with ServerProcess(ServerKind.MILLSTREAM, config=configuration(issuer)) as server:
        with come(server, auth_token=token(issuer, "reader")) as client:
            assert client.read_until_closed() == AUTHORIZATION_VIOLATION
        assert server.wait_for_log("cannot be had: .* answers 404")
        with joined(server, user="static", **{"pass": "static"}) as other:
            assert other.round_trip() == b""


def test_no_secret_is_shown(server: ServerProcess, issuer: Issuer) -> None:
    text = token(issuer, "reader")
    with joined(server, auth_token=text):
        pass
    with come(server, auth_token=token(issuer, aud="other")) as refused:
        refused.read_until_closed()
    assert text.rpartition(".")[2] not in server.log


@pytest.mark.parametrize(
    ("oidc", "complaint"),
    [
        ("audience: nats", "issuer"),
        ('issuer: "https://a.example"', "audience"),
        ('issuer: "http://a.example", audience: nats', "https"),
        ('issuer: "https://a.example", audience: nats, jwks_url: "http://a.example"', "https"),
        ('issuer: "https://a.example", audience: nats, jwks_file: "/none"', "No such file"),
        ('issuer: "https://a.example", audience: nats, account: NONE', "NONE"),
        ('issuer: "https://a.example", audience: nats, accounts: [A]', "account"),
        ('issuer: "https://a.example", audience: nats, claims { account: a }', "account"),
        ('issuer: "https://a.example", audience: nats, roles {}', "role"),
        ('issuer: "https://a.example", audience: nats, roles { r { publish: "a..b" } }', "a..b"),
        ('issuer: "https://a.example", audience: nats, clock_skew: "1h"', "ten minutes"),
        ('issuer: "https://a.example", audience: nats, algorithms: [none]', "algorithms"),
    ],
)
def test_configurations_that_are_refused(oidc: str, complaint: str) -> None:
    config = f"accounts {{ A {{}} }}\nauthorization {{ oidc {{ {oidc} }} }}"
    with pytest.raises(ServerProcessError, match=complaint):
        ServerProcess(ServerKind.MILLSTREAM, config=config).start()


def test_keys_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [KEY.public()]}))
    config = f"""authorization {{ oidc {{
        issuer: "urn:example:issuer", audience: {AUDIENCE}, jwks_file: "{path}"
    }} }}"""
    with ServerProcess(ServerKind.MILLSTREAM, config=config) as server:
        text = signed(KEY, "ES256", claims("urn:example:issuer"))
        with joined(server, auth_token=text) as client:
            assert client.info["remote_account"] == "$G"
