"""Accounts that tokens describe: imports, exports, mappings, JetStream, and changes of all that."""

import json
import time
from typing import Any

import pytest

from tests.kits.conformance.clients import Dial, Message, ServerFactory, message, publish
from tests.kits.operator import ISSUED, JETSTREAM, Account, Key, Operator, joined_before_expiry, last_words
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

OPERATOR = Operator("sharing")
SIGNER, OTHER = Key("A", "exports signer"), Key("A", "exports other")
REVOKED, EXPIRED, OPEN = (OPERATOR.account(name) for name in ("REVOKED", "EXPIRED", "OPEN"))

SERVICE = {"subject": "help", "type": "service"}
EXPORTS = OPERATOR.account(
    "EXPORTS",
    signing_keys=[SIGNER.public],
    exports=[
        {"subject": "news.>", "type": "stream"},
        SERVICE,
        {
            "subject": "private.>",
            "type": "stream",
            "token_req": True,
            "revocations": {REVOKED.public: ISSUED + 10},
        },
        {"subject": "locked", "type": "service", "token_req": True},
        {"subject": "mine.*.x", "type": "service", "account_token_position": 2},
    ],
    mappings={"old.*": [{"subject": "new.$1"}]},
)


def stream(subject: str, **more: Any) -> dict[str, Any]:
    return {"subject": subject, "account": EXPORTS.public, "type": "stream", **more}


def service(subject: str, **more: Any) -> dict[str, Any]:
    return {"subject": subject, "account": EXPORTS.public, "type": "service", **more}


IMPORTS = OPERATOR.account("IMPORTS")
IMPORTS.body["imports"] = [
    stream("news.>", local_subject="from.>"),
    stream("private.a", token=EXPORTS.activation(IMPORTS, "private.a", "stream", signer=SIGNER)),
    stream("private.b", token=EXPORTS.activation(IMPORTS, "private.b", "stream", signer=OTHER)),
    stream("private.c"),
    service("help", local_subject="please.help"),
    service("locked", token=EXPORTS.activation(IMPORTS, "locked", "service")),
    service(f"mine.{IMPORTS.public}.x", local_subject="mine"),
]
REVOKED.body["imports"] = [
    stream("private.a", token=EXPORTS.activation(REVOKED, "private.a", "stream")),
]
EXPIRED.body["imports"] = [
    stream("private.a", token=EXPORTS.activation(EXPIRED, "private.a", "stream", exp=ISSUED)),
]
OPEN.body["imports"] = [
    {"subject": "help", "account": EXPORTS.public, "type": "service", "to": "locked"},  # the way of version 1
    stream("news.a", to="pre"),
]
CONFIG = OPERATOR.config([EXPORTS, IMPORTS, REVOKED, EXPIRED, OPEN])


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=CONFIG, monitor=True)


def ask(client: WireClient, subject: str, body: bytes = b"") -> Any:
    client.send(b"SUB box 77\r\nUNSUB 77 1\r\n" + publish(subject, body, "box"))
    payload = client.read_frame().partition(b"\r\n")[2]
    try:
        return json.loads(payload)
    except ValueError:
        return payload


@pytest.mark.parametrize("subject", ["news.a", "private.a"])
def test_imported_streams(server: ServerProcess, dial: Dial, subject: str) -> None:
    client = IMPORTS.user("reader").join(dial, server)
    local = subject.replace("news", "from")
    client.round_trip(f"SUB {local} 1\r\n".encode())
    EXPORTS.user("writer").join(dial, server).round_trip(publish(subject, b"x"))
    assert client.read_frame() == message(local, "1", b"x")


def test_streams_that_are_not_activated(server: ServerProcess, dial: Dial) -> None:
    readers = [
        (IMPORTS.user("reader"), "private.b"),
        (IMPORTS.user("reader"), "private.c"),
        (REVOKED.user("reader"), "private.a"),
        (EXPIRED.user("reader"), "private.a"),
    ]
    clients = [user.join(dial, server) for user, _ in readers]
    for client, (_, subject) in zip(clients, readers, strict=True):
        client.round_trip(f"SUB {subject} 1\r\n".encode())
    writer = EXPORTS.user("writer").join(dial, server)
    writer.round_trip(b"".join(publish(f"private.{each}", b"x") for each in "abc"))
    assert [client.round_trip() for client in clients] == [b""] * 4


@pytest.mark.parametrize(
    ("local", "remote"),
    [("please.help", "help"), ("locked", "locked"), ("mine", f"mine.{IMPORTS.public}.x")],
)
def test_imported_services(server: ServerProcess, dial: Dial, local: str, remote: str) -> None:
    service = EXPORTS.user("service").join(dial, server)
    service.round_trip(f"SUB {remote} 1\r\n".encode())
    client = IMPORTS.user("asker").join(dial, server)
    client.round_trip(b"SUB box 1\r\n" + publish(local, b"?", "box"))
    # Headers tell who asks.
    head = service.read_frame().split(b"\r\n")[0].split()
    assert head[1] == remote.encode()
    service.round_trip(publish(head[3].decode(), b"!"))
    assert client.read_frame() == message("box", "1", b"!")


def test_deprecated_names_of_imports(server: ServerProcess, dial: Dial) -> None:
    client = OPEN.user("reader").join(dial, server)
    client.round_trip(b"SUB > 1\r\n")
    EXPORTS.user("writer").join(dial, server).round_trip(publish("news.a", b"x"))
    assert client.read_frame() == message("pre.news.a", "1", b"x")


def test_mappings(server: ServerProcess, dial: Dial) -> None:
    client = EXPORTS.user("mapper").join(dial, server)
    assert client.round_trip(b"SUB new.* 1\r\n" + publish("old.a", b"x")) == message("new.a", "1", b"x")


def test_accounts_are_isolated(server: ServerProcess, dial: Dial) -> None:
    client = OPEN.user("reader").join(dial, server)
    client.round_trip(b"SUB > 1\r\n")
    IMPORTS.user("writer").join(dial, server).round_trip(publish("x", b"x"))
    assert client.round_trip() == b""


def test_user_info_names_the_account(server: ServerProcess, dial: Dial) -> None:
    user = EXPORTS.user("me")
    answer = ask(user.join(dial, server), "$SYS.REQ.USER.INFO")["data"]
    assert answer["user"] == user.public
    assert (answer["account"], answer["account_name"]) == (EXPORTS.public, "EXPORTS")


# -- JetStream --------------------------------------------------------------------------------------

STORING = OPERATOR.account("STORING", limits={**JETSTREAM, "streams": 1, "disk_storage": 1_000_000})
TIERED = OPERATOR.account("TIERED", limits={"tiered_limits": {"R1": {**JETSTREAM, "streams": 2}}})
FAR_TIER = OPERATOR.account("FAR_TIER", limits={"tiered_limits": {"R3": JETSTREAM}})
STORELESS = OPERATOR.account("STORELESS")
STORES = OPERATOR.config([STORING, TIERED, FAR_TIER, STORELESS])


def create(client: WireClient, name: str) -> Any:
    config = {"name": name, "subjects": [f"{name}.>"], "storage": "file"}
    return ask(client, f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())


@pytest.fixture
def stores(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=STORES, jetstream=True)


def test_jetstream_limits(stores: ServerProcess, dial: Dial) -> None:
    client = STORING.user("a").join(dial, stores)
    assert "error" not in create(client, "ONE")
    assert create(client, "TWO")["error"]["err_code"] == 10027
    limits = ask(client, "$JS.API.INFO")["limits"]
    assert (limits["max_streams"], limits["max_storage"]) == (1, 1_000_000)


def test_jetstream_tiers(stores: ServerProcess, dial: Dial) -> None:
    client = TIERED.user("a").join(dial, stores)
    assert "error" not in create(client, "ONE")
    info = ask(client, "$JS.API.INFO")
    assert info["tiers"]["R1"]["limits"]["max_streams"] == 2
    assert info["tiers"]["R1"]["streams"] == info["streams"] == 1
    other = create(FAR_TIER.user("a").join(dial, stores), "ONE")
    assert other["error"]["err_code"] == 10120


def test_account_without_jetstream(stores: ServerProcess, dial: Dial) -> None:
    answer = ask(STORELESS.user("a").join(dial, stores), "$JS.API.INFO")
    assert answer["error"]["err_code"] == 10039


def test_streams_are_there_after_a_restart(own_server: ServerFactory, dial: Dial) -> None:
    server = own_server(config=STORES, jetstream=True)
    client = STORING.user("a").join(dial, server)
    create(client, "ONE")
    assert ask(client, "ONE.x", b"kept")["seq"] == 1
    server.restart()
    client = STORING.user("a").join(dial, server)
    assert ask(client, "$JS.API.STREAM.INFO.ONE")["state"]["messages"] == 1


# -- changes ----------------------------------------------------------------------------------------

CHANGING = Operator("changing")


def update(system: WireClient, account: Account, *, on: str = "") -> Any:
    subject = on or f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE"
    return ask(system, subject, account.token.encode())


@pytest.fixture
def start(own_server: ServerFactory) -> Any:
    return lambda *accounts: own_server(config=CHANGING.config(accounts))


def system_of(dial: Dial, server: ServerProcess) -> WireClient:
    client: WireClient = CHANGING.system.user("sys").join(dial, server)
    return client


def test_revoked_users_are_closed(start: Any, dial: Dial) -> None:
    account = CHANGING.account("A")
    server = start(account)
    good, bad = account.user("good"), account.user("bad")
    stays, goes = good.join(dial, server), bad.join(dial, server)
    system = system_of(dial, server)
    answer = update(system, account.but(revocations={bad.public: int(time.time())}))
    assert answer["data"] == {"account": account.public, "code": 200, "message": "jwt updated"}
    assert goes.read_until_closed() == b"-ERR 'User Authentication Revoked'\r\n"
    assert stays.round_trip() == b""


def test_all_users_revoked(start: Any, dial: Dial) -> None:
    account = CHANGING.account("A")
    server = start(account)
    client = account.user("any").join(dial, server)
    update(system_of(dial, server), account.but(revocations={"*": int(time.time())}))
    assert client.read_until_closed() == b"-ERR 'User Authentication Revoked'\r\n"


def test_users_of_a_removed_signing_key_are_closed(start: Any, dial: Dial) -> None:
    key = Key("A", "removable")
    account = CHANGING.account("A", signing_keys=[key.public])
    server = start(account)
    goes = account.user("by_key", signer=key).join(dial, server)
    stays = account.user("by_account").join(dial, server)
    update(system_of(dial, server), account.but(signing_keys=[]))
    assert goes.read_until_closed() == b""
    assert stays.round_trip() == b""


def test_bearer_tokens_disallowed_later(start: Any, dial: Dial) -> None:
    account = CHANGING.account("A")
    server = start(account)
    client = account.user("bearer", bearer_token=True).join(dial, server)
    update(system_of(dial, server), account.but(limits={"disallow_bearer": True}))
    assert client.read_until_closed() == b"-ERR 'Authorization Violation'\r\n"


def test_fewer_connections_allowed(start: Any, dial: Dial) -> None:
    account = CHANGING.account("A")
    server = start(account)
    first, second = (account.user(name).join(dial, server) for name in ("one", "two"))
    update(system_of(dial, server), account.but(limits={"conn": 1}))
    assert second.read_until_closed() == b"-ERR 'maximum account active connections exceeded'\r\n"
    assert first.round_trip() == b""


def test_default_permissions_change(start: Any, dial: Dial) -> None:
    account = CHANGING.account("A")
    server = start(account)
    client = account.user("any").join(dial, server)
    own = account.user("own", pub={"deny": ["x"]}).join(dial, server)
    client.round_trip(b"SUB foo 1\r\nSUB bar 2\r\n")
    update(system_of(dial, server), account.but(default_permissions={"sub": {"deny": ["foo"]}}))
    publisher = account.user("publisher").join(dial, server)
    publisher.round_trip(publish("foo", b"1") + publish("bar", b"2"))
    answer = client.round_trip()
    assert b'Permissions Violation for Subscription to "foo" (sid "1")' in answer
    assert answer.endswith(message("bar", "2", b"2"))
    assert own.round_trip(b"SUB foo 1\r\n") == b""


def test_exports_and_imports_change(start: Any, dial: Dial) -> None:
    exporter = CHANGING.account("E", exports=[{"subject": "news", "type": "stream"}])
    item = {"subject": "news", "account": exporter.public, "type": "stream"}
    importer = CHANGING.account("I", imports=[item])
    server = start(exporter, importer)
    client, writer = importer.user("i").join(dial, server), exporter.user("e").join(dial, server)
    client.round_trip(b"SUB news 1\r\n")
    writer.round_trip(publish("news", b"1"))
    assert client.read_frame() == message("news", "1", b"1")
    system = system_of(dial, server)
    update(system, exporter.but(exports=[]))
    writer.round_trip(publish("news", b"2"))
    assert client.round_trip() == b""
    update(system, exporter.but(exports=[{"subject": "news", "type": "stream", "name": "again"}]))
    writer.round_trip(publish("news", b"3"))
    assert client.read_frame() == message("news", "1", b"3")


def test_account_expires(start: Any, dial: Dial) -> None:
    def join(ends: int) -> WireClient:
        account = CHANGING.account("A").but(exp=ends)
        client: WireClient = account.user("any").join(dial, start(account))
        return client

    client = joined_before_expiry(join)
    assert last_words(client) == b"-ERR 'Account Authentication Expired'\r\n"


@pytest.mark.parametrize("signer", [Key("O", "unknown"), Key("A", "A")])
def test_updates_have_to_be_signed_by_the_operator(start: Any, dial: Dial, signer: Key) -> None:
    account = CHANGING.account("A")
    server = start(account)
    client = account.user("any").join(dial, server)
    body = account.but(limits={"conn": 0}).signed(signer).encode()
    answer = ask(system_of(dial, server), f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE", body)
    assert answer["error"]["code"] == 500
    assert "jwt update resulted in error - " in answer["error"]["description"]
    assert client.round_trip() == b""


def test_updates_that_are_refused(start: Any, dial: Dial) -> None:
    account, other = CHANGING.account("A"), CHANGING.account("B")
    system = system_of(dial, start(account))
    refused = update(system, other, on=f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE")
    assert refused["error"]["description"] == (
        "jwt update resulted in error - subject does not match jwt content"
    )
    assert update(system, other)["data"]["message"] == "jwt update skipped"
    empty = ask(system, f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE", b"")
    assert empty["error"]["description"] == "jwt update error - request body is empty"


def test_preloads_are_reloaded(own_server: ServerFactory, dial: Dial) -> None:
    stays, goes, comes = (CHANGING.account(name) for name in ("STAYS", "GOES", "COMES"))
    server = own_server(config=CHANGING.config([stays, goes]))
    first, second = stays.user("a").join(dial, server), goes.user("a").join(dial, server)
    assert server.reload(CHANGING.config([stays.but(limits={"payload": 50}), comes]))
    comes.user("a").join(dial, server)
    assert second.read_until_closed() in (b"", b"-ERR 'Authorization Violation'\r\n")
    assert stays.user("b").join(dial, server).info["max_payload"] == 50
    assert first.round_trip() == b""


def test_operator_cannot_be_reloaded(own_server: ServerFactory) -> None:
    server = own_server(config=CHANGING.config([]))
    assert not server.reload(Operator("changing", signing_keys=[Key("O", "new").public]).config([]))


def test_account_that_comes_back(own_server: ServerFactory, dial: Dial) -> None:
    exporter = CHANGING.account("E", exports=[{"subject": "help", "type": "service"}], limits=JETSTREAM)
    item = {"subject": "help", "account": exporter.public, "type": "service"}
    importer = CHANGING.account("I", imports=[item])
    there = CHANGING.config([exporter, importer])
    server = own_server(config=there, jetstream=True)
    create(exporter.user("e").join(dial, server), "KEPT")
    for config in (CHANGING.config([importer]), there):
        assert server.reload(config)
    service = exporter.user("e").join(dial, server)
    service.round_trip(b"SUB help 1\r\n")
    assert ask(service, "$JS.API.STREAM.INFO.KEPT")["state"]["messages"] == 0


@pytest.mark.parametrize(("sampling", "block"), [(100, b""), ("headers", b"NATS/1.0\r\nB3: 1\r\n\r\n")])
def test_a_token_asks_for_the_latency_of_a_service(
    start: Any, dial: Dial, sampling: int | str, block: bytes
) -> None:
    latency = {"sampling": sampling, "results": "latency.help"}
    exporter = CHANGING.account("E", exports=[{**SERVICE, "service_latency": latency}])
    importer = CHANGING.account("I", imports=[{**SERVICE, "account": exporter.public}])
    server = start(exporter, importer)
    service, client = exporter.user("e").join(dial, server), importer.user("i").join(dial, server)
    service.round_trip(b"SUB latency.> 9\r\n")
    client.round_trip(b"SUB inbox 1\r\n")
    client.send(publish("help", b"?", "inbox", block))  # nobody serves it
    measured = Message.read(service.read_frame())
    assert (measured.subject, measured.json["status"]) == ("latency.help", 503)
    assert measured.json["requestor"]["acc"] == importer.public
    system = system_of(dial, server)
    update(system, exporter.but(exports=[SERVICE]))
    client.send(publish("help", b"?", "inbox", block))
    client.read_frame()
    assert service.round_trip() == b""


def test_a_measurement_tells_the_token_of_who_answers(start: Any, dial: Dial) -> None:
    latency = {"sampling": 100, "results": "latency.help"}
    exporter = CHANGING.account("E", exports=[{**SERVICE, "service_latency": latency}])
    importer = CHANGING.account("I", imports=[{**SERVICE, "account": exporter.public, "share": True}])
    server = start(exporter, importer)
    server_user = exporter.user("e", tags=["team:red"])
    service, client = server_user.join(dial, server), importer.user("i").join(dial, server)
    service.round_trip(b"SUB help 1\r\nSUB latency.> 9\r\n")
    client.round_trip(b"SUB inbox 1\r\n")
    client.send(publish("help", b"?", "inbox"))
    request = Message.read(service.read_frame())
    service.send(publish(request.reply, b"!"))
    measured = Message.read(service.read_frame()).json
    asks, answers = measured["requestor"], measured["responder"]
    assert (asks["acc"], asks["name_tag"]) == (importer.public, "i")
    assert (answers["acc"], answers["name_tag"], answers["tags"]) == (exporter.public, "e", ["team:red"])
    assert [each["issuer_key"] for each in (asks, answers)] == [importer.public, exporter.public]
    assert [each["jwt"].count(".") for each in (asks, answers)] == [2, 2]
    told = json.loads(request.headers["Nats-Request-Info"])
    assert (told["name_tag"], told["jwt"]) == (asks["name_tag"], asks["jwt"])
