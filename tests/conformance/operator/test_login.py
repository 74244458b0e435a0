"""Logins with the tokens of users: who is let in, and who is refused."""

import base64
import json
import time
from typing import Any

import pytest

from tests.kits.conformance.clients import (
    AUTHORIZATION_VIOLATION,
    Dial,
    ServerFactory,
    message,
    publish,
)
from tests.kits.operator import ISSUED, Account, Key, Operator, User, joined_before_expiry, last_words, token
from tests.kits.reference import ServerProcess

OPERATOR = Operator("main", signing_keys=[Key("O", "signing").public])
STRANGE_OPERATOR = Operator("strange")
SIGNER, SCOPED, GONE = (Key("A", name) for name in ("signer", "scoped", "gone"))
REVOKED_USER = Key("U", "A revoked").public
HOUR = 3600

A = OPERATOR.account(
    "A",
    signing_keys=[
        SIGNER.public,
        {
            "kind": "user_scope",
            "key": SCOPED.public,
            "role": "worker",
            "template": {
                "pub": {
                    "allow": [
                        "to.{{name()}}",
                        "team.{{tag(team)}}.>",
                        "acc.{{account-name()}}",
                        "x.{{tag(no)}}",
                    ]
                },
                "sub": {"allow": ["of.{{subject()}}", "_INBOX.>"], "deny": ["of.{{account-subject()}}"]},
                "subs": 3,
                "data": -1,
                "payload": 64,
            },
        },
    ],
    revocations={REVOKED_USER: ISSUED + 10},
    default_permissions={"pub": {"deny": ["secret.>"]}},
)
STRICT = OPERATOR.account("STRICT", limits={"conn": 1, "disallow_bearer": True, "payload": 100})
UNTRUSTED = Account(STRANGE_OPERATOR, "UNTRUSTED")
EXPIRED = OPERATOR.account("EXPIRED").but(exp=ISSUED - HOUR)
BY_SIGNING_KEY = OPERATOR.account("BY_SIGNING_KEY")
CONFIG = OPERATOR.config(
    [
        A,
        STRICT,
        UNTRUSTED,
        EXPIRED,
        f'{BY_SIGNING_KEY.public}: "{BY_SIGNING_KEY.signed(Key("O", "signing"))}"',
    ]
)
NOBODY = OPERATOR.account("NOBODY")


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=CONFIG, monitor=True)


def refused(dial: Dial, server: ServerProcess, who: User, **options: Any) -> None:
    client = dial(server)
    nonce = client.read_info()["nonce"]
    client.send_connect(**{"jwt": who.token, "sig": who.signature(nonce), **options})
    client.send(b"PING\r\n")
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_info_asks_for_a_signature(server: ServerProcess, dial: Dial) -> None:
    info = dial(server).read_info()
    assert info["auth_required"] is True
    assert info["nonce"]


@pytest.mark.parametrize(
    "user",
    [
        A.user("plain"),
        A.user("signed", signer=SIGNER),
        A.user("first", version=1),
        A.user("lasting", exp=int(time.time()) + HOUR),
        A.user("standard", allowed_connection_types=["standard", "SOMETHING"]),
        A.user("near", src=["127.0.0.0/8", "10.0.0.0/8"]),
        A.user("near_first", version=1, src="10.0.0.0/8, 127.0.0.1/32"),
        A.user(
            "always",
            times=[{"start": "00:00:00", "end": "23:59:59"}, {"start": "23:59:58", "end": "00:00:01"}],
        ),
        BY_SIGNING_KEY.user("other"),
    ],
    ids=lambda user: json.loads(_claims(user.token))["name"],
)
def test_let_in(server: ServerProcess, dial: Dial, user: User) -> None:
    client = user.join(dial, server)
    assert client.info["remote_account"] in (A.public, BY_SIGNING_KEY.public)
    assert client.round_trip(b"SUB foo 1\r\n" + publish("foo", b"hello")) == message("foo", "1", b"hello")


@pytest.mark.parametrize(
    "user",
    [
        A.user("expired", exp=ISSUED),
        A.user("early", nbf=int(time.time()) + HOUR),
        A.user("revoked"),
        A.user("foreign_signer", signer=GONE),
        A.user("web", allowed_connection_types=["WEBSOCKET"]),
        A.user("unknown_type", allowed_connection_types=["SOMETHING"]),
        A.user("far", src=["10.0.0.0/8"]),
        A.user("bad_network", src=["10.0.0.0"]),
        A.user("never", times=[{"start": "00:00:00", "end": "00:00:00"}]),
        A.user("bad_times", times=[{"start": "25:00:00", "end": "26:00:00"}]),
        A.user("bad_zone", times=[{"start": "00:00:00", "end": "23:59:59"}], times_location="Nowhere"),
        A.user("bad_rule", pub={"allow": ["a b"]}),
        A.user("limits_in_scope", signer=SCOPED),
        A.user("proxied", proxy_required=True),
        STRICT.user("bearer", bearer_token=True),
        UNTRUSTED.user("untrusted"),
        EXPIRED.user("of_expired"),
        NOBODY.user("of_nobody"),
        User(Key("U", "x"), token(Key("A", "A"), "account", Key("U", "x").public, {})),
        User(Key("U", "x"), token(OPERATOR.key, "user", Key("U", "x").public, {})),
        User(Key("U", "x"), token(Key("A", "A"), "user", Key("U", "x").public, {"version": 3})),
        A.user("bad_issuer", iss=Key("A", "NOBODY").public),
    ],
    ids=lambda user: json.loads(_claims(user.token)).get("name", "other"),
)
def test_refused(server: ServerProcess, dial: Dial, user: User) -> None:
    refused(dial, server, user)


@pytest.mark.parametrize(
    "text",
    ["", "x", "a.b.c", "..", "eyJ.eyJ.eyJ", A.user("cut").token[:-4], A.user("dot").token + ".", "." * 1000],
    ids=range(8),
)
def test_malformed_tokens_are_refused(server: ServerProcess, dial: Dial, text: str) -> None:
    refused(dial, server, A.user("any"), jwt=text)


def test_password_and_token_mean_nothing(server: ServerProcess, dial: Dial) -> None:
    refused(dial, server, A.user("any"), jwt="", user="a", **{"pass": "b"})
    refused(dial, server, A.user("any"), jwt="", auth_token="b")


def test_signature_has_to_be_that_of_the_user(server: ServerProcess, dial: Dial) -> None:
    user, other = A.user("one"), A.user("two")
    refused(dial, server, user, sig="")
    refused(dial, server, user, sig="!")
    refused(dial, server, user, sig=other.signature("nonce"))
    refused(dial, server, user, sig=user.signature("another nonce"))


def test_altered_claims_are_refused(server: ServerProcess, dial: Dial) -> None:
    head, _, tail = A.user("web", allowed_connection_types=["WEBSOCKET"]).token.split(".")
    claims = A.user("web").token.split(".")[1]
    refused(dial, server, User(Key("U", "A web"), f"{head}.{claims}.{tail}"))


def test_bearer_needs_no_signature(server: ServerProcess, dial: Dial) -> None:
    user = A.user("bearer", bearer_token=True)
    client = dial(server)
    client.read_info()
    client.handshake(read_info=False, jwt=user.token)
    assert client.info["remote_account"] == A.public


def test_first_operation_has_to_be_connect(server: ServerProcess, dial: Dial) -> None:
    client = dial(server)
    client.read_info()
    client.send(b"PING\r\n")
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_permissions(server: ServerProcess, dial: Dial) -> None:
    user = A.user("limited", pub={"allow": ["a", "b.*"]}, sub={"deny": ["c"], "allow": ["a q", "b.>", "d"]})
    client = user.join(dial, server)
    answer = client.round_trip(
        publish("a", b"") + publish("c", b"") + b"SUB c 1\r\nSUB a 2\r\nSUB a q 3\r\nSUB d 4\r\n"
    )
    assert b'Permissions Violation for Publish to "c"' in answer
    assert b'Permissions Violation for Subscription to "c"' in answer
    assert b'Permissions Violation for Subscription to "a"' in answer
    assert answer.count(b"-ERR") == 3


def test_default_permissions_are_those_of_the_account(server: ServerProcess, dial: Dial) -> None:
    default = A.user("default").join(dial, server)
    assert b'Publish to "secret.x"' in default.round_trip(publish("secret.x", b""))
    own = A.user("own", pub={"deny": ["other"]}).join(dial, server)
    assert own.round_trip(publish("secret.x", b"")) == b""


def test_responses(server: ServerProcess, dial: Dial) -> None:
    service = A.user("service", resp={"max": 1, "ttl": 0}, sub={"allow": ["help"]}).join(dial, server)
    service.round_trip(b"SUB help 1\r\n")
    client = A.user("asker").join(dial, server)
    client.round_trip(b"SUB box 1\r\n" + publish("help", b"?", "box"))
    assert service.read_frame().startswith(b"MSG help 1 box")
    answer = service.round_trip(publish("box", b"yes") + publish("box", b"again"))
    assert b'Permissions Violation for Publish to "box"' in answer
    assert client.read_frame() == message("box", "1", b"yes")


def test_scoped_user_gets_the_template(server: ServerProcess, dial: Dial) -> None:
    user = User(
        Key("U", "A worker"),
        token(
            SCOPED,
            "user",
            Key("U", "A worker").public,
            {"issuer_account": A.public, "tags": ["team:red", "team:blue", "other:x"]},
            name="worker",
        ),
    )
    client = user.join(dial, server)
    assert client.info["max_payload"] == 64
    good = [b"to.worker", b"team.red.x", b"team.blue.y.z", b"acc.A"]
    for subject in good:
        assert client.round_trip(publish(subject.decode(), b"")) == b""
    for subject in ("to.x", "team.green.x", "acc.B", "x.y"):
        assert b"Permissions Violation" in client.round_trip(publish(subject, b""))
    assert client.round_trip(f"SUB of.{user.public} 1\r\n".encode()) == b""
    assert b"Permissions Violation" in client.round_trip(f"SUB of.{A.public} 2\r\n".encode())


def test_limits_of_the_user(server: ServerProcess, dial: Dial) -> None:
    client = A.user("small", subs=2, payload=10).join(dial, server)
    assert client.info["max_payload"] == 10
    answer = client.round_trip(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n")
    assert answer == b"-ERR 'maximum subscriptions exceeded'\r\n"
    client.send(publish("a", b"12345678901"))
    assert client.read_until_closed() == b"-ERR 'Maximum Payload Violation'\r\n"


def test_limits_of_the_account(server: ServerProcess, dial: Dial) -> None:
    first = STRICT.user("one").join(dial, server)
    assert first.info["max_payload"] == 100
    second = dial(server)
    user = STRICT.user("two")
    nonce = second.read_info()["nonce"]
    second.send_connect(jwt=user.token, sig=user.signature(nonce))
    second.send(b"PING\r\n")
    assert second.read_until_closed() == b"-ERR 'maximum account active connections exceeded'\r\n"
    first.close()


def test_user_expires_during_the_connection(server: ServerProcess, dial: Dial) -> None:
    client = joined_before_expiry(lambda ends: A.user("short", exp=ends).join(dial, server))
    assert last_words(client) == b"-ERR 'User Authentication Expired'\r\n"


def _claims(text: str) -> bytes:
    part = text.split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
