"""Places of the tokens of accounts, a folder, a cache, a URL; and the requests of the system account."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.kits.conformance.clients import AUTHORIZATION_VIOLATION, Dial, ServerFactory, message, publish
from tests.kits.operator import Account, Key, Operator, token
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

OPERATOR = Operator("resolving")
A, B = OPERATOR.account("A"), OPERATOR.account("B")


def full(folder: Path, more: str = "") -> str:
    return f'{{ type: full, dir: "{folder}", {more} }}'


def ask(client: WireClient, subject: str, body: bytes = b"") -> Any:
    client.send(b"SUB box 77\r\nUNSUB 77 1\r\n" + publish(subject, body, "box"))
    payload = client.read_frame().partition(b"\r\n")[2].removesuffix(b"\r\n")
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode()


def push(client: WireClient, account: Account) -> Any:
    return ask(client, "$SYS.REQ.CLAIMS.UPDATE", account.token.encode())


@pytest.fixture
def system(dial: Dial) -> Any:
    return lambda server: OPERATOR.system.user("sys").join(dial, server)


def refused(dial: Dial, server: ServerProcess, account: Account) -> None:
    client, user = dial(server), account.user("any")
    nonce = client.read_info()["nonce"]
    client.send_connect(jwt=user.token, sig=user.signature(nonce))
    client.send(b"PING\r\n")
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION


def test_pushed_accounts_are_there_after_a_restart(
    own_server: ServerFactory, dial: Dial, system: Any, tmp_path: Path
) -> None:
    # As `nsc generate config --nats-resolver` writes it: the system account alone is preloaded.
    server = own_server(config=OPERATOR.config([], resolver=full(tmp_path / "jwt")))
    client = system(server)
    answer = push(client, A)
    assert answer["data"] == {"account": A.public, "code": 200, "message": "jwt updated"}
    assert (tmp_path / "jwt" / f"{A.public}.jwt").read_text() == A.token
    A.user("any").join(dial, server)
    server.restart()
    assert A.user("any").join(dial, server).info["remote_account"] == A.public


def test_lookup_list_and_pack(own_server: ServerFactory, system: Any, tmp_path: Path) -> None:
    client = system(own_server(config=OPERATOR.config([A], resolver=full(tmp_path))))
    push(client, B)
    assert ask(client, f"$SYS.REQ.ACCOUNT.{B.public}.CLAIMS.LOOKUP") == B.token
    nobody = Key("A", "nobody").public
    assert ask(client, f"$SYS.REQ.ACCOUNT.{nobody}.CLAIMS.LOOKUP") == ""
    names = {OPERATOR.system.public, A.public, B.public}
    assert set(ask(client, "$SYS.REQ.CLAIMS.LIST")["data"]) == names
    client.send(b"SUB pack 5\r\n" + publish("$SYS.REQ.CLAIMS.PACK", b"", "pack"))
    lines = [client.read_frame().partition(b"\r\n")[2].strip().decode() for _ in range(4)]
    assert set(lines[:3]) == {f"{each.public}|{each.token}" for each in (A, B, OPERATOR.system)}
    assert lines[3] == ""


def deletion(key: Key, *accounts: str) -> bytes:
    return token(key, "generic", key.public, {"accounts": list(accounts)}).encode()


@pytest.mark.parametrize(
    ("more", "key", "account", "reason"),
    [
        ("", OPERATOR.key, A.public, "delete must be enabled in server config"),
        ("allow_delete: true", Key("O", "other"), A.public, "not trusted"),
        ("allow_delete: true", OPERATOR.key, "x", "malformed request"),
        (
            "allow_delete: true",
            OPERATOR.key,
            OPERATOR.system.public,
            "not allowed to delete system account",
        ),
    ],
)
def test_deletions_that_are_refused(
    own_server: ServerFactory, system: Any, tmp_path: Path, more: str, key: Key, account: str, reason: str
) -> None:
    client = system(own_server(config=OPERATOR.config([A], resolver=full(tmp_path, more))))
    answer = ask(client, "$SYS.REQ.CLAIMS.DELETE", deletion(key, account))
    assert answer["error"]["description"] == f"delete accounts request by {key.public} failed - {reason}"
    assert (tmp_path / f"{A.public}.jwt").exists()


@pytest.mark.parametrize("hard", [False, True])
def test_deleted_accounts_are_locked_out(
    own_server: ServerFactory, dial: Dial, system: Any, tmp_path: Path, hard: bool
) -> None:
    more = f"allow_delete: true, hard_delete: {str(hard).lower()}"
    server = own_server(config=OPERATOR.config([A], resolver=full(tmp_path, more)))
    client = A.user("any").join(dial, server)
    admin = system(server)
    answer = ask(admin, "$SYS.REQ.CLAIMS.DELETE", deletion(OPERATOR.key, A.public))
    assert answer["data"]["message"] == "deleted 1 accounts"
    assert client.read_until_closed() == b"-ERR 'Account Authentication Expired'\r\n"
    refused(dial, server, A)
    assert (tmp_path / f"{A.public}.jwt.deleted").exists() is not hard
    push(admin, A.but(limits={"payload": 99}))  # nats-server ignores the token that it had
    A.user("any").join(dial, server)


def test_updates_that_are_refused(own_server: ServerFactory, system: Any, tmp_path: Path) -> None:
    client = system(own_server(config=OPERATOR.config([A], resolver=full(tmp_path))))
    bad = A.but(exports=[{"subject": "a", "type": "nothing"}])
    for body in (b"", b"x", A.token[:-8].encode(), bad.token.encode(), A.user("u").token.encode()):
        answer = ask(client, "$SYS.REQ.CLAIMS.UPDATE", body)
        assert answer["error"]["code"] == 500
    wrong = ask(client, f"$SYS.REQ.ACCOUNT.{B.public}.CLAIMS.UPDATE", A.token.encode())
    assert wrong["error"]["description"] == (
        "jwt update resulted in error - subject does not match jwt content"
    )
    invalid = push(client, A.but(imports=[{"subject": "", "account": B.public, "type": "stream"}]))
    assert invalid["error"]["description"] == (
        "jwt validation failed - validation errors: [subject cannot be empty]"
    )
    assert (tmp_path / f"{A.public}.jwt").read_text() == A.token


def test_operator_that_signs_with_signing_keys_only(
    own_server: ServerFactory, dial: Dial, system: Any, tmp_path: Path
) -> None:
    key = Key("O", "strict signing")
    strict = Operator("strict", signing_keys=[key.public], strict_signing_key_usage=True)
    signer = Key("A", "strict account")
    account = strict.account("S", signing_keys=[signer.public])
    system_signer = Key("A", "strict system")
    strict.system.body["signing_keys"] = [system_signer.public]
    preload = f'{strict.system.public}: "{strict.system.signed(key)}"'
    server = own_server(
        config=f'operator: "{strict.token}"\nresolver: {full(tmp_path)}\nresolver_preload {{ {preload} }}'
    )
    client = strict.system.user("sys", signer=system_signer).join(dial, server)
    assert push(client, account)["error"]["description"] == (
        "jwt update resulted in error - operator requires issuer to be a signing key"
    )
    assert "data" in ask(client, "$SYS.REQ.CLAIMS.UPDATE", account.signed(key).encode())
    account.user("by_signer", signer=signer).join(dial, server)
    refused(dial, server, account)  # by its own key


def test_cache_asks_the_system_account(
    own_server: ServerFactory, dial: Dial, system: Any, tmp_path: Path
) -> None:
    resolver = f'{{ type: cache, dir: "{tmp_path}", ttl: "1h" }}'
    server = own_server(config=OPERATOR.config([], resolver=resolver))
    store = system(server)
    store.round_trip(f"SUB $SYS.REQ.ACCOUNT.{A.public}.CLAIMS.LOOKUP 1\r\n".encode())
    client, user = dial(server), A.user("any")
    nonce = client.read_info()["nonce"]
    client.send_connect(jwt=user.token, sig=user.signature(nonce))
    client.send(b"PING\r\nSUB x 1\r\nPUB x 1\r\na\r\n")
    reply = store.read_frame().split(b"\r\n")[0].split()[3].decode()
    store.round_trip(publish(reply, A.token.encode()))
    client.read_until_pong()
    assert client.read_frame().startswith(b"INFO")
    assert client.read_frame() == message("x", "1", b"a")
    assert (tmp_path / f"{A.public}.jwt").read_text() == A.token


class _Accounts(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        account = self.path.rpartition("/")[2]
        found = {each.public: each.token for each in (OPERATOR.system, A)}.get(account, "")
        self.send_response(200 if found or not account else 404)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Accounts)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/jwt/v1/accounts/"
    server.shutdown()
    server.server_close()


def test_accounts_behind_a_url(own_server: ServerFactory, dial: Dial, url: str) -> None:
    config = f'operator: "{OPERATOR.token}"\nresolver: URL({url})\n'
    server = own_server(config=config)
    client = A.user("any").join(dial, server)
    assert client.round_trip(b"SUB x 1\r\n" + publish("x", b"a")) == message("x", "1", b"a")
    refused(dial, server, B)


def test_url_of_the_operator(own_server: ServerFactory, dial: Dial, url: str) -> None:
    operator = Operator("resolving", account_server_url=url.removesuffix("/accounts/"))
    server = own_server(config=f'operator: "{operator.token}"\n')
    A.user("any").join(dial, server)
