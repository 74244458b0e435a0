"""Logins that are accepted and refused: tokens, passwords, nkeys, users without credentials."""

import base64
import json
from typing import Any

import nkeys
import pytest

from tests.kits.conformance.clients import (
    AUTHORIZATION_VIOLATION,
    Dial,
    ServerFactory,
    closed_reason,
    message,
    nkey_user,
    publish,
)
from tests.kits.reference import ServerProcess, ServerProcessError

PLAIN = "s3cret-word"
# Of hashed-word and hashed-b; fixed, so that the ids of tests are.  The lowest cost keeps them fast.
HASHED = "$2a$04$kHFg9pHKVot5qSj7a54GxefeC5IcmiuZhjSjf3dmk06BPEcdVmSwK"
HASHED_B = "$2b$04$EemoDhidERxQwR7WsQ3sDu/qgraoYOxyTWi0rtATi/3GuSPeRqpOK"
SEED, PUBLIC = nkey_user(b"a" * 32)
STRANGER_SEED, STRANGER = nkey_user(b"b" * 32)

USERS = f"""
authorization {{
  users: [
    {{ user: plain, password: "{PLAIN}" }}
    {{ user: hashed, password: "{HASHED}" }}
    {{ user: hashed_b, password: "{HASHED_B}" }}
    {{ nkey: {PUBLIC} }}
    {{ user: web, password: web, allowed_connection_types: ["WEBSOCKET"] }}
    {{ user: tcp, password: tcp, allowed_connection_types: ["STANDARD", "websocket"] }}
    {{ user: empty, password: "" }}
  ]
}}
"""


def _sign(seed: bytes, nonce: str, *, padded: bool = False) -> str:
    signature = nkeys.from_seed(bytearray(seed)).sign(nonce.encode())
    if padded:
        return base64.b64encode(signature).decode()
    return base64.urlsafe_b64encode(signature).decode().rstrip("=")


def _refused(dial: Dial, server: ServerProcess, **options: object) -> None:
    client = dial(server)
    client.read_info()
    client.send_connect(**options)
    client.send(b"PING\r\n")
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


@pytest.fixture
def users(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=USERS, monitor=True)


# -- one token, one user ----------------------------------------------------------------------------

TOKEN = f'authorization {{ token: "{PLAIN}" }}'
ONE_USER = f'authorization {{ user: "me", password: "{PLAIN}" }}'
HASHED_TOKEN = f'authorization {{ token: "{HASHED}" }}'
HASHED_USER = f'authorization {{ user: "me", password: "{HASHED}" }}'


@pytest.mark.parametrize(
    ("config", "credentials"),
    [
        (TOKEN, {"auth_token": PLAIN}),
        (HASHED_TOKEN, {"auth_token": "hashed-word"}),
        (ONE_USER, {"user": "me", "pass": PLAIN}),
        (HASHED_USER, {"user": "me", "pass": "hashed-word"}),
    ],
)
def test_right_credentials(shared_server: ServerFactory, join: Dial, config: str, credentials: Any) -> None:
    client = join(shared_server(config=config, monitor=True), **credentials)
    assert client.info["auth_required"] is True
    assert "nonce" not in client.info
    assert client.info["remote_account"] == "$G"


@pytest.mark.parametrize(
    ("config", "credentials"),
    [
        (TOKEN, {}),
        (TOKEN, {"auth_token": "wrong"}),
        (TOKEN, {"auth_token": ""}),
        (TOKEN, {"user": "me", "pass": PLAIN}),
        (HASHED_TOKEN, {"auth_token": HASHED}),
        (ONE_USER, {}),
        (ONE_USER, {"user": "me", "pass": "wrong"}),
        (ONE_USER, {"user": "you", "pass": PLAIN}),
        (ONE_USER, {"user": "me"}),
        (ONE_USER, {"auth_token": PLAIN}),
        (HASHED_USER, {"user": "me", "pass": HASHED}),
    ],
)
def test_wrong_credentials(shared_server: ServerFactory, dial: Dial, config: str, credentials: Any) -> None:
    _refused(dial, shared_server(config=config, monitor=True), **credentials)


@pytest.mark.parametrize(
    ("arguments", "credentials"),
    [
        (("--auth", "flag-token"), {"auth_token": "flag-token"}),
        (("--user", "me", "--pass", "flag-pass"), {"user": "me", "pass": "flag-pass"}),
    ],
)
def test_credentials_from_flags(
    shared_server: ServerFactory, join: Dial, dial: Dial, arguments: tuple[str, ...], credentials: Any
) -> None:
    server = shared_server(*arguments)
    assert join(server, **credentials).round_trip() == b""
    _refused(dial, server)


@pytest.mark.parametrize("sent", [b"PING\r\n", b"SUB foo 1\r\n", b"PUB foo 0\r\n\r\n", b"FOO\r\n"])
def test_nothing_may_come_before_connect(shared_server: ServerFactory, dial: Dial, sent: bytes) -> None:
    client = dial(shared_server(config=TOKEN, monitor=True))
    assert client.read_info()["auth_required"] is True
    client.send(sent)
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_reason_of_a_refused_connection(shared_server: ServerFactory, dial: Dial) -> None:
    server = shared_server(config=TOKEN, monitor=True)
    client = dial(server)
    client.read_info()
    client.send_connect(auth_token="wrong")
    client.read_until_closed()
    assert closed_reason(server, client) == "Authentication Failure"


# -- several users ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "password"),
    [("plain", PLAIN), ("hashed", "hashed-word"), ("hashed_b", "hashed-b"), ("tcp", "tcp"), ("empty", "")],
)
def test_each_user_has_a_password(users: ServerProcess, join: Dial, user: str, password: str) -> None:
    assert join(users, user=user, **{"pass": password}).round_trip() == b""


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("plain", "hashed-word"),
        ("hashed", HASHED),
        ("nobody", PLAIN),
        ("web", "web"),
        ("empty", "x"),
        ("", ""),
    ],
)
def test_each_user_has_only_that_password(users: ServerProcess, dial: Dial, user: str, password: str) -> None:
    _refused(dial, users, user=user, **{"pass": password})


def test_users_of_one_account_see_each_other(users: ServerProcess, join: Dial) -> None:
    first, second = join(users, user="plain", **{"pass": PLAIN}), join(users, user="tcp", **{"pass": "tcp"})
    again = join(users, user="plain", **{"pass": PLAIN})  # the same user twice
    for client in (first, again):
        client.round_trip(b"SUB meet 1\r\n")
    second.send(publish("meet", b"x"))
    assert first.read_frame() == again.read_frame() == message("meet", 1, b"x")


def test_second_connect_is_judged_anew(users: ServerProcess, join: Dial) -> None:
    client = join(users, user="plain", **{"pass": PLAIN})
    client.round_trip(b"SUB old 1\r\n")
    client.send_connect(user="tcp", **{"pass": "tcp"})
    assert client.round_trip(publish("old")) == b""
    client.send_connect(user="tcp", **{"pass": "wrong"})
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


# -- nkeys ------------------------------------------------------------------------------------------


def test_nonce_is_new_for_each_connection(users: ServerProcess, dial: Dial) -> None:
    nonces = [dial(users).read_info()["nonce"] for _ in range(3)]
    assert len(set(nonces)) == 3
    assert all(len(nonce) == 15 for nonce in nonces)


@pytest.mark.parametrize("padded", [False, True])
def test_signed_nonce(users: ServerProcess, dial: Dial, padded: bool) -> None:
    client = dial(users)
    nonce = client.read_info()["nonce"]
    client.handshake(read_info=False, nkey=PUBLIC, sig=_sign(SEED, nonce, padded=padded))
    assert client.round_trip(b"SUB foo 1\r\n" + publish("foo")) == message("foo", 1)


@pytest.mark.parametrize("fault", ["other key", "other nonce", "no signature", "no base64", "unknown key"])
def test_badly_signed_nonce(users: ServerProcess, dial: Dial, fault: str) -> None:
    client = dial(users)
    nonce = client.read_info()["nonce"]
    options: dict[str, object] = {
        "other key": {"nkey": PUBLIC, "sig": _sign(STRANGER_SEED, nonce)},
        "other nonce": {"nkey": PUBLIC, "sig": _sign(SEED, nonce[:-1])},
        "no signature": {"nkey": PUBLIC},
        "no base64": {"nkey": PUBLIC, "sig": "%%%"},
        "unknown key": {"nkey": STRANGER, "sig": _sign(STRANGER_SEED, nonce)},
    }[fault]
    client.send_connect(**options)
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


# -- users without credentials ----------------------------------------------------------------------

NO_AUTH_USER = """
no_auth_user: guest
accounts {
  A { users: [ { user: guest, password: guest, permissions: { publish: "open.>" } } ] }
  B { users: [ { user: owner, password: owner } ] }
}
"""


@pytest.fixture
def guests(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=NO_AUTH_USER, monitor=True)


def test_guest_needs_no_credentials(guests: ServerProcess, dial: Dial) -> None:
    client = dial(guests)
    assert "auth_required" not in client.read_info()
    second = client.handshake(read_info=False)
    assert second["remote_account"] == "A"
    assert second["auth_required"] is True
    assert client.round_trip(b"SUB open.a 1\r\n" + publish("open.a")) == message("open.a", 1)
    assert client.round_trip(publish("closed.a")) == (
        b"-ERR 'Permissions Violation for Publish to \"closed.a\"'\r\n"
    )


def test_guest_may_skip_connect(guests: ServerProcess, dial: Dial) -> None:
    client = dial(guests)
    client.read_info()
    sent = b"SUB open.b 1\r\n" + publish("open.b") + publish("closed.b")
    assert client.round_trip(sent) == (
        b"+OK\r\n+OK\r\n"
        + message("open.b", 1)
        + b"-ERR 'Permissions Violation for Publish to \"closed.b\"'\r\n"
    )


@pytest.mark.parametrize(
    "credentials", [{"user": "owner", "pass": "x"}, {"user": "x"}, {"auth_token": "x"}, {"pass": "x"}]
)
def test_wrong_credentials_do_not_make_a_guest(guests: ServerProcess, dial: Dial, credentials: Any) -> None:
    _refused(dial, guests, **credentials)


def test_others_log_in_beside_guests(guests: ServerProcess, join: Dial) -> None:
    client = join(guests, user="owner", **{"pass": "owner"})
    assert client.info["remote_account"] == "B"


# -- what is refused at the start -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ("no_auth_user: nobody", "nobody"),
        ("authorization { token: a, user: b, password: c }", "token"),
        ("authorization { token: a, users: [ {user: a, password: b} ] }", "token"),
        ("authorization { users: [ {user: a, password: b}, {user: a, password: c} ] }", "a"),
        (f"authorization {{ users: [ {{user: a, password: b, nkey: {PUBLIC}}} ] }}", "nkey"),
        ("authorization { users: [ {nkey: UNOTAKEY} ] }", "nkey"),
        ("authorization { users: [ {user: a, password: b, allowed_connection_types: [PIGEON]} ] }", "PIGEON"),
        ("accounts { A { users: [{user: a, password: a}] }, B { users: [{user: a, password: a}] } }", "a"),
    ],
)
def test_contradictory_configuration_is_refused(
    own_server: ServerFactory, config: str, complaint: str
) -> None:
    with pytest.raises(ServerProcessError) as refusal:
        own_server(config=config)
    assert complaint.lower() in str(refusal.value).lower()


def test_json_of_connect_may_hold_more_than_needed(users: ServerProcess, dial: Dial) -> None:
    client = dial(users)
    client.read_info()
    options = {"user": "plain", "pass": PLAIN, "auth_token": "", "nkey": "", "jwt": "", "verbose": False}
    assert client.round_trip(b"CONNECT " + json.dumps(options).encode() + b"\r\n") == b""
