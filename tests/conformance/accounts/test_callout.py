"""Auth callout in a configuration: what the service is told, what it may answer, and what that permits."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.kits.callout import SUBJECT, CalloutRequest, CalloutService, CurveKey
from tests.kits.conformance.clients import (
    AUTHORIZATION_VIOLATION,
    Dial,
    Message,
    ServerFactory,
    message,
    publish,
    publish_refused,
    subscribe_refused,
)
from tests.kits.operator import Key, joined_before_expiry, last_words
from tests.kits.reference import ServerProcess, ServerProcessError
from tests.kits.websocket import WebSocketStream
from tests.kits.wire import WireClient

ISSUER, STRANGER = Key("A", "issuer"), Key("A", "stranger")
OTHER_USER = Key("U", "other").public
OTHER_SERVER = Key("N", "other").public
CURVE, OTHER_CURVE = CurveKey("service"), CurveKey("other")
AUTH = {"user": "auth", "pass": "auth"}
HOUR = 3600

Answer = Callable[[CalloutService, CalloutRequest], None]


def configuration(more: str = "", top: str = "", timeout: str = "60") -> str:
    return f"""
server_tags: ["region:north"]
accounts {{
  AUTH {{ users: [{{ user: auth, password: auth }}] }}
  APP {{ users: [{{ user: app, password: app }}] }}
  SYS {{}}
}}
system_account: SYS
authorization {{
  timeout: {timeout}
  auth_callout {{ issuer: {ISSUER.public}, account: AUTH, auth_users: [auth]{more} }}
}}
{top}
"""


CONFIG = configuration()
ENCRYPTED = configuration(f", xkey: {CURVE.public}")


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=CONFIG, monitor=True)


@pytest.fixture
def service(server: ServerProcess, join: Dial) -> CalloutService:
    return CalloutService(join(server, **AUTH), ISSUER)


def come(dial: Dial, server: ServerProcess, **options: Any) -> WireClient:
    """Send CONNECT and PING, which the service has to decide about."""
    client = dial(server)
    client.read_info()
    client.send_connect(**options)
    client.send(b"PING\r\n")
    return client


def let_in(client: WireClient) -> dict[str, Any]:
    """Return who the client is."""
    client.read_until_pong()
    client.send(b"SUB _INBOX.me me\r\n" + publish("$SYS.REQ.USER.INFO", b"", "_INBOX.me"))
    frames = iter(client.read_frame, b"")
    info: dict[str, Any] = Message.read(next(each for each in frames if each.startswith(b"MSG"))).json["data"]
    assert client.round_trip(b"UNSUB me\r\n") == b""
    return info


@pytest.mark.parametrize(
    ("given", "details", "options"),
    [
        (
            {"user": "ann", "pass": "secret", "name": "n", "lang": "l", "version": "1"},
            {"user": "ann", "name": "n"},
            {"user": "ann", "pass": "secret", "name": "n", "lang": "l", "version": "1"},
        ),
        ({"auth_token": "word"}, {"user": "[REDACTED]"}, {"auth_token": "word"}),
        ({}, {}, {}),
        ({"user": "app", "pass": "app"}, {"user": "app"}, {"user": "app", "pass": "app"}),
        ({"nkey": OTHER_USER, "sig": "abc"}, {"user": OTHER_USER}, {"nkey": OTHER_USER, "sig": "abc"}),
        ({"jwt": "eyJ.a.b", "sig": "abc"}, {}, {"sig": "abc"}),
    ],
    ids=["password", "token", "nothing", "a user of the configuration", "nkey", "jwt"],
)
def test_request(
    server: ServerProcess,
    service: CalloutService,
    dial: Dial,
    given: dict[str, Any],
    details: dict[str, Any],
    options: dict[str, Any],
) -> None:
    client = come(dial, server, **given)
    request = service.next_request()
    info = client.info
    assert request.reply.startswith("$SYS._INBOX.")
    assert request.headers == {}
    claims = request.claims
    assert claims["aud"] == "nats-authorization-request"
    assert claims["iss"] == info["server_id"]
    assert claims["sub"] == ISSUER.public
    assert 55 <= claims["exp"] - time.time() <= 61
    assert request.body["type"], request.body["version"] == ("authorization_request", 2)
    assert request.body["server_id"] == {
        "name": info["server_name"],
        "host": "127.0.0.1",
        "id": info["server_id"],
        "version": info["version"],
        "tags": ["region:north"],
    }
    assert request.body["client_info"] == {
        "host": "127.0.0.1",
        "id": info["client_id"],
        "kind": "Client",
        "type": "nats",
        **details,
    }
    assert request.body["connect_opts"] == {"lang": "wire", "version": "0", "protocol": 1, **options}
    assert "client_tls" not in request.body
    service.refuse(request, "not today")
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_who_is_let_in(server: ServerProcess, service: CalloutService, dial: Dial) -> None:
    named, unnamed = come(dial, server, user="x"), None
    service.allow(service.next_request(), "APP", name="ann")
    assert let_in(named) == {"user": "ann", "account": "APP", "account_name": "APP"}
    unnamed = come(dial, server, user="x")
    service.allow(service.next_request(), "APP")
    assert let_in(unnamed)["user"] == "x"


def test_permissions(server: ServerProcess, service: CalloutService, dial: Dial) -> None:
    client = come(dial, server, user="x")
    rules = {"allow": ["open.>", "_INBOX.>", "$SYS.REQ.USER.INFO"]}
    service.allow(service.next_request(), "APP", pub=rules, sub=rules)
    permissions = let_in(client)["permissions"]
    assert sorted(permissions["publish"]["allow"]) == sorted(rules["allow"])
    assert sorted(permissions["subscribe"]["allow"]) == sorted(rules["allow"])
    assert client.round_trip(publish("closed", b"")) == publish_refused("closed")
    assert client.round_trip(b"SUB closed 1\r\n") == subscribe_refused("closed")
    assert client.round_trip(b"SUB open.a 1\r\n" + publish("open.a", b"x")) == message("open.a", 1, b"x")


def test_expiry(server: ServerProcess, service: CalloutService, dial: Dial) -> None:
    def join(ends: int) -> WireClient:
        client = come(dial, server, user="x")
        service.allow(service.next_request(), "APP", exp=ends)
        let_in(client)
        return client

    client = joined_before_expiry(join)
    assert last_words(client) == b"-ERR 'User Authentication Expired'\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda service, asked: service.refuse(asked, "not today"), id="an error"),
        pytest.param(lambda service, asked: service.send(asked, b""), id="nothing"),
        pytest.param(lambda service, asked: service.send(asked, b"junk"), id="junk"),
        pytest.param(lambda service, asked: service.send(asked, b"eyJ.eyJ.eyJ"), id="no token"),
        pytest.param(lambda service, asked: service.answer(asked), id="neither token nor error"),
        pytest.param(lambda service, asked: service.answer(asked, jwt="x.y.z"), id="a bad token"),
        pytest.param(lambda service, asked: service.answer(asked, jwt="x", error="y"), id="both"),
        pytest.param(
            lambda service, asked: service.answer(
                asked, jwt=service.user_token(asked, "APP"), about=OTHER_USER
            ),
            id="an answer about another user",
        ),
        pytest.param(
            lambda service, asked: service.answer(
                asked, jwt=service.user_token(asked, "APP"), aud=OTHER_SERVER
            ),
            id="an answer to another server",
        ),
        pytest.param(
            lambda service, asked: service.answer(
                asked, jwt=service.user_token(asked, "APP"), signer=STRANGER
            ),
            id="an answer that a stranger signed",
        ),
        pytest.param(lambda service, asked: service.allow(asked, "NONE"), id="an unknown account"),
        pytest.param(lambda service, asked: service.allow(asked, ""), id="no account"),
        pytest.param(lambda service, asked: service.allow(asked, "APP", about=OTHER_USER), id="another user"),
        pytest.param(
            lambda service, asked: service.allow(asked, "APP", signer=STRANGER), id="a stranger's user"
        ),
        pytest.param(
            lambda service, asked: service.allow(asked, "APP", exp=int(time.time()) - HOUR), id="expired"
        ),
        pytest.param(
            lambda service, asked: service.allow(
                asked, "APP", times=[{"start": "00:00:00", "end": "00:00:01"}], times_location="Asia/Tokyo"
            ),
            id="outside of its hours",
        ),
        pytest.param(
            lambda service, asked: service.allow(asked, "APP", allowed_connection_types=["NONE"]),
            id="an unknown kind of connection",
        ),
        pytest.param(
            lambda service, asked: service.allow(asked, "APP", issuer_account=ISSUER.public),
            id="an account beside its signer",
        ),
        pytest.param(
            lambda service, asked: service.allow(asked, "APP", pub={"deny": ["a b c"]}),
            id="permissions that are none",
        ),
    ],
)
def test_who_is_refused(server: ServerProcess, service: CalloutService, dial: Dial, answer: Answer) -> None:
    client = come(dial, server, user="x")
    answer(service, service.next_request())
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_no_answer_is_used_twice(server: ServerProcess, service: CalloutService, dial: Dial) -> None:
    first = come(dial, server, user="x")
    request = service.next_request()
    answer = service.user_token(request, "APP")
    service.answer(request, jwt=answer)
    let_in(first)
    second = come(dial, server, user="x")
    again = service.next_request()
    assert again.user != request.user
    service.answer(again, jwt=answer)
    assert second.read_until_closed() == AUTHORIZATION_VIOLATION


def test_logins_wait_for_each_other_in_no_way(
    server: ServerProcess, service: CalloutService, dial: Dial
) -> None:
    first = come(dial, server, user="first")
    one = service.next_request()
    second = come(dial, server, user="second")
    service.allow(service.next_request(), "APP", name="second")
    assert let_in(second)["user"] == "second"
    service.allow(one, "APP", name="first")
    assert let_in(first)["user"] == "first"


def test_a_service_that_is_away_lets_nobody_in(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config=configuration(timeout="1"))
    began = time.monotonic()
    client = come(dial, server, user="app", **{"pass": "app"})
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION
    assert time.monotonic() - began >= 0.9


@pytest.mark.parametrize("password", ["auth", "wrong"])
def test_users_of_the_service_are_those_of_the_configuration(
    server: ServerProcess, service: CalloutService, dial: Dial, password: str
) -> None:
    client = come(dial, server, user="auth", **{"pass": password})
    if password == "wrong":
        assert client.read_until_closed() == AUTHORIZATION_VIOLATION
    else:
        assert let_in(client)["account"] == "AUTH"
    assert service.client.round_trip() == b""


def test_nobody_else_asks_the_service(server: ServerProcess, service: CalloutService, dial: Dial) -> None:
    assert service.client.round_trip(publish(SUBJECT, b"")) == publish_refused(SUBJECT)
    client = come(dial, server, user="x")
    service.allow(service.next_request(), "AUTH")
    assert let_in(client)["permissions"]["publish"] == {"deny": [SUBJECT]}
    assert client.round_trip(publish(SUBJECT, b"")) == publish_refused(SUBJECT)


def test_websocket(shared_server: ServerFactory, join: Dial) -> None:
    server = shared_server(
        config=configuration(top='websocket { host: "127.0.0.1", port: -1, no_tls: true }'), monitor=True
    )
    service = CalloutService(join(server, **AUTH), ISSUER)
    client = WireClient(WebSocketStream.open(server.websocket_port))
    client.read_info()
    client.send_connect(user="x")
    client.send(b"PING\r\n")
    request = service.next_request()
    assert request.body["client_info"]["type"] == "websocket"
    service.allow(request, "APP", allowed_connection_types=["WEBSOCKET"])
    assert let_in(client)["account"] == "APP"
    client.close()


@pytest.mark.parametrize("encrypted", [True, False])
def test_encryption(shared_server: ServerFactory, join: Dial, dial: Dial, encrypted: bool) -> None:
    server = shared_server(config=ENCRYPTED)
    service = CalloutService(join(server, **AUTH), ISSUER, CURVE)
    client = come(dial, server, user="x")
    request = service.next_request()
    assert request.server_xkey == client.info["xkey"] == request.body["server_id"]["xkey"]
    service.answer(request, jwt=service.user_token(request, "APP"), encrypted=encrypted)
    assert let_in(client)["account"] == "APP"


@pytest.mark.parametrize(
    "seal",
    [
        pytest.param(lambda data, to: OTHER_CURVE.seal(data, to), id="of a stranger"),
        pytest.param(lambda data, to: CURVE.seal(data, OTHER_CURVE.public), id="to a stranger"),
        pytest.param(lambda data, to: CURVE.seal(data, to)[:-1] + b"x", id="changed"),
        pytest.param(lambda data, to: CURVE.seal(data, to)[:20], id="cut"),
        pytest.param(lambda data, to: b"xkv1", id="empty"),
        pytest.param(lambda data, to: b"xkv9" + CURVE.seal(data, to)[4:], id="of another version"),
    ],
)
def test_answers_that_are_not_encrypted_for_us(
    shared_server: ServerFactory, join: Dial, dial: Dial, seal: Callable[[bytes, str], bytes]
) -> None:
    server = shared_server(config=ENCRYPTED)
    service = CalloutService(join(server, **AUTH), ISSUER, CURVE)
    client = come(dial, server, user="x")
    request = service.next_request()
    service.send(request, seal(service.user_token(request, "APP").encode(), request.server_xkey))
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


@pytest.mark.parametrize(
    "callout",
    [
        "auth_users: [auth]",
        f"issuer: {ISSUER.public}",
        f"issuer: {ISSUER.public}, auth_users: []",
        "issuer: junk, auth_users: [auth]",
        f"issuer: {OTHER_USER}, auth_users: [auth]",
        f"issuer: {ISSUER.public}, auth_users: [auth], xkey: junk",
        f"issuer: {ISSUER.public}, auth_users: [auth], xkey: {ISSUER.public}",
        f"issuer: {ISSUER.public}, auth_users: [auth], colour: red",
        f"issuer: {ISSUER.public}, auth_users: {{}}",
    ],
)
def test_configurations_that_are_refused(own_server: ServerFactory, callout: str) -> None:
    users = "users: [{ user: auth, password: auth }]"
    with pytest.raises(ServerProcessError):
        own_server(config=f"authorization {{ {users}, auth_callout {{ {callout} }} }}")


def delegating(to: str) -> str:
    accounts = "SYS {}\n  OWN { users: [{ user: own, password: own }] }"
    return configuration(f", allowed_accounts: {to}").replace("SYS {}", accounts)


def test_users_of_accounts_that_are_not_delegated_log_in_as_configured(
    shared_server: ServerFactory, join: Dial, dial: Dial
) -> None:
    server = shared_server(config=delegating("[APP]"))
    assert let_in(come(dial, server, user="own", **{"pass": "own"}))["account"] == "OWN"
    service = CalloutService(join(server, **AUTH), ISSUER)
    for options in ({"user": "app", "pass": "app"}, {"user": "own", "pass": "wrong"}, {"user": "x"}):
        client = come(dial, server, **options)
        service.allow(service.next_request(), "OWN", name="placed")
        assert let_in(client)["user"] == "placed"


def test_accounts_to_delegate_have_to_exist(own_server: ServerFactory) -> None:
    words = 'auth_callout allowed account "NONE" not found in configured accounts'
    with pytest.raises(ServerProcessError, match=words):
        own_server(config=delegating("[NONE]"))
