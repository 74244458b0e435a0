"""The system account: requests about the server, and events about its clients."""

import json
from typing import Any

import pytest

from tests.kits.conformance.clients import (
    AUTHORIZATION_VIOLATION,
    Dial,
    ServerFactory,
    login,
    message,
    publish,
)
from tests.kits.recordings.shapes import ShapeBook
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

SYSTEM = """
server_name: probe
system_account: SYS
accounts {
  SYS { users: [ { user: sys, password: p } ] }
  A { users: [
    { user: a, password: p }
    { user: limited, password: p, permissions: {
        publish: { allow: ["x", "$SYS.>"], deny: "y" }, subscribe: ["box", "z q"]
        allow_responses: { max: 3, expires: "1m" } } }
  ] }
  QUIET { users: [ { user: quiet, password: p } ] }
}
"""


@pytest.fixture
def server(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=SYSTEM, monitor=True)


@pytest.fixture
def system(server: ServerProcess, join: Dial) -> WireClient:
    return login(join, server, "sys")


def ask(client: WireClient, subject: str, body: bytes = b"") -> Any:
    """Send a request and return the JSON of the answer."""
    client.send(b"SUB box 77\r\nUNSUB 77 1\r\n" + publish(subject, body, "box"))
    frame = client.read_frame()
    head, _, payload = frame.partition(b"\r\n")
    assert head.split()[:3] == [b"MSG", b"box", b"77"], frame
    return json.loads(payload)


def nobody_answers(client: WireClient, subject: str) -> bool:
    answer = client.round_trip(b"SUB box 78\r\n" + publish(subject, b"", "box") + b"UNSUB 78\r\n")
    return b"NATS/1.0 503" in answer


def test_system_user_is_told_so(system: WireClient) -> None:
    assert system.info["acc_is_sys"] is True
    assert system.info["remote_account"] == "SYS"


# -- requests of any user ---------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["sys", "a", "limited"])
def test_user_info(server: ServerProcess, join: Dial, shapes: ShapeBook, user: str) -> None:
    answer = ask(login(join, server, user), "$SYS.REQ.USER.INFO")
    shapes.check(f"system.user_info.{user}", answer)
    account = "SYS" if user == "sys" else "A"
    assert answer["data"]["user"] == user
    assert answer["data"]["account"] == answer["data"]["account_name"] == account
    assert answer["server"]["name"] == "probe"
    if user == "limited":
        permissions = answer["data"]["permissions"]
        assert sorted(permissions["publish"]["allow"]) == ["$SYS.>", "x"]
        assert permissions["publish"]["deny"] == ["y"]
        assert sorted(permissions["subscribe"]["allow"]) == ["box", "z q"]
        assert permissions["responses"] == {"max": 3, "ttl": 60_000_000_000}


def test_user_info_without_authorization(shared_server: ServerFactory, join: Dial) -> None:
    answer = ask(join(shared_server(monitor=True)), "$SYS.REQ.USER.INFO")
    assert answer["data"] == {"user": "", "account": "$G", "account_name": "$G"}


@pytest.mark.parametrize("name", ["STATZ", "CONNZ"])
def test_account_asks_about_itself(server: ServerProcess, join: Dial, shapes: ShapeBook, name: str) -> None:
    answer = ask(login(join, server, "a", name="me"), f"$SYS.REQ.ACCOUNT.PING.{name}")
    shapes.check(f"system.own_account.{name.lower()}", answer)


@pytest.mark.parametrize(
    "subject", ["$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.ACCOUNT.A.INFO"]
)
def test_ordinary_user_may_not_ask_about_the_server(server: ServerProcess, join: Dial, subject: str) -> None:
    assert nobody_answers(login(join, server, "a"), subject)


def test_system_subjects_of_an_account_are_ordinary(
    server: ServerProcess, join: Dial, system: WireClient
) -> None:
    client = login(join, server, "quiet")
    system.round_trip(b"SUB $SYS.mine 1\r\n")
    assert client.round_trip(b"SUB $SYS.> 1\r\n" + publish("$SYS.mine")) == message("$SYS.mine", 1)
    assert system.round_trip() == b""


# -- requests of the system account -----------------------------------------------------------------

SERVER_REQUESTS = [
    "IDZ",
    "STATSZ",
    "VARZ",
    "SUBSZ",
    "CONNZ",
    "ROUTEZ",
    "GATEWAYZ",
    "LEAFZ",
    "ACCOUNTZ",
    "JSZ",
    "HEALTHZ",
]


@pytest.mark.parametrize("name", SERVER_REQUESTS)
def test_every_server_is_asked(
    server: ServerProcess, join: Dial, system: WireClient, shapes: ShapeBook, name: str
) -> None:
    login(join, server, "a", name="somebody").round_trip(b"SUB foo 1\r\n")
    answer = ask(system, f"$SYS.REQ.SERVER.PING.{name}")
    shapes.check(f"system.server.{name.lower()}", answer)
    identity = answer if name == "IDZ" else answer["server"]
    assert identity["id"] == system.info["server_id"]
    assert identity["name"] == "probe"


@pytest.mark.parametrize("name", [name for name in SERVER_REQUESTS if name != "IDZ"])
def test_one_server_is_asked(system: WireClient, shapes: ShapeBook, name: str) -> None:
    answer = ask(system, f"$SYS.REQ.SERVER.{system.info['server_id']}.{name}")
    if name != "CONNZ":  # its shape depends on who is connected
        shapes.check(f"system.server.{name.lower()}", answer)
    assert answer["server"]["id"] == system.info["server_id"]


def test_plain_ping_is_statsz(system: WireClient, shapes: ShapeBook) -> None:
    shapes.check("system.server.statsz", ask(system, "$SYS.REQ.SERVER.PING"))


@pytest.mark.parametrize(
    "subject",
    ["$SYS.REQ.SERVER.NOSUCHSERVER.VARZ", "$SYS.REQ.SERVER.PING.WOMBAT", "$SYS.REQ.NOTHING"],
)
def test_unknown_requests_are_answered_by_nobody(system: WireClient, subject: str) -> None:
    assert nobody_answers(system, subject)


def test_filter_by_name(system: WireClient) -> None:
    assert "data" in ask(system, "$SYS.REQ.SERVER.PING.VARZ", b'{"server_name":"probe"}')
    # A filter that does not fit is answered with silence: the next answer is the next request's.
    system.send(publish("$SYS.REQ.SERVER.PING.VARZ", b'{"server_name":"other"}', "box"))
    assert "statsz" in ask(system, "$SYS.REQ.SERVER.PING")


def test_options_of_a_request(
    server: ServerProcess, join: Dial, system: WireClient, shapes: ShapeBook
) -> None:
    client = login(join, server, "a", name="options")
    client.round_trip(b"SUB with.options q 5\r\n")
    options = {"auth": True, "subscriptions": True, "cid": client.info["client_id"]}
    answer = ask(system, "$SYS.REQ.SERVER.PING.CONNZ", json.dumps(options).encode())
    shapes.check("system.server.connz_detail", answer)
    (connection,) = answer["data"]["connections"]
    assert connection["authorized_user"] == "a"
    assert connection["account"] == "A"
    assert connection["subscriptions_list"] == ["with.options"]


def test_connections_by_subject(server: ServerProcess, join: Dial, system: WireClient) -> None:
    client, _ = login(join, server, "a"), login(join, server, "a")
    client.round_trip(b"SUB by.* 5\r\n")
    options = {"acc": "A", "filter_subject": "by.subject"}
    answer = ask(system, "$SYS.REQ.SERVER.PING.CONNZ", json.dumps(options).encode())
    assert [entry["cid"] for entry in answer["data"]["connections"]] == [client.info["client_id"]]


def test_malformed_options(system: WireClient, shapes: ShapeBook) -> None:
    answer = ask(system, "$SYS.REQ.SERVER.PING.CONNZ", b"{bad")
    shapes.check("system.server.bad_request", answer)
    assert answer["error"]["code"] == 400


@pytest.mark.parametrize("name", ["CONNZ", "SUBSZ", "INFO", "STATZ", "CONNS", "JSZ", "LEAFZ"])
def test_account_is_asked_about(
    server: ServerProcess, join: Dial, system: WireClient, shapes: ShapeBook, name: str
) -> None:
    login(join, server, "a", name="somebody").round_trip(b"SUB foo 1\r\n")
    shapes.check(f"system.account.{name.lower()}", ask(system, f"$SYS.REQ.ACCOUNT.A.{name}"))


# -- events -----------------------------------------------------------------------------------------


def events_until(system: WireClient, subject: str) -> dict[str, list[Any]]:
    """Read events up to the first on `subject`, and return them by subject."""
    seen: dict[str, list[Any]] = {}
    while subject not in seen:
        head, _, payload = system.read_frame().partition(b"\r\n")
        seen.setdefault(head.split()[1].decode(), []).append(json.loads(payload))
    return seen


def test_connecting_and_leaving_are_events(
    server: ServerProcess, join: Dial, system: WireClient, shapes: ShapeBook
) -> None:
    system.round_trip(b"SUB $SYS.ACCOUNT.QUIET.> 1\r\n")
    client = login(join, server, "quiet", name="visitor")
    (event,) = events_until(system, "$SYS.ACCOUNT.QUIET.CONNECT")["$SYS.ACCOUNT.QUIET.CONNECT"]
    shapes.check("event.client_connect", event)
    assert event["type"] == "io.nats.server.advisory.v1.client_connect"
    expected = {"id": client.info["client_id"], "acc": "QUIET", "user": "quiet", "name": "visitor"}
    assert {key: event["client"][key] for key in expected} == expected
    client.round_trip(b"SUB own 1\r\n" + publish("own", b"12345"))
    client.close()
    (event,) = events_until(system, "$SYS.ACCOUNT.QUIET.DISCONNECT")["$SYS.ACCOUNT.QUIET.DISCONNECT"]
    shapes.check("event.client_disconnect", event)
    assert event["type"] == "io.nats.server.advisory.v1.client_disconnect"
    assert event["reason"] == "Client Closed"
    assert event["sent"] == {"msgs": 1, "bytes": 5}
    assert event["received"] == {"msgs": 1, "bytes": 5}


def test_number_of_connections_is_an_event(
    server: ServerProcess, join: Dial, system: WireClient, shapes: ShapeBook
) -> None:
    system.round_trip(b"SUB $SYS.ACCOUNT.QUIET.SERVER.CONNS 1\r\nSUB $SYS.SERVER.ACCOUNT.QUIET.CONNS 2\r\n")
    login(join, server, "quiet")
    seen = events_until(system, "$SYS.ACCOUNT.QUIET.SERVER.CONNS")
    (event,) = seen["$SYS.ACCOUNT.QUIET.SERVER.CONNS"]
    shapes.check("event.account_connections", event)
    assert (event["acc"], event["conns"]) == ("QUIET", 1)
    assert "$SYS.SERVER.ACCOUNT.QUIET.CONNS" in seen


def test_client_that_changes_its_account_is_counted_in_both(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=SYSTEM)
    client, system = login(join, server, "quiet"), login(join, server, "sys")
    system.round_trip(b"SUB $SYS.ACCOUNT.QUIET.SERVER.CONNS 1\r\nSUB $SYS.ACCOUNT.A.SERVER.CONNS 2\r\n")
    client.round_trip(b'CONNECT {"user":"a","pass":"p","verbose":false,"pedantic":false}\r\n')
    seen = events_until(system, "$SYS.ACCOUNT.A.SERVER.CONNS")
    (event,) = seen["$SYS.ACCOUNT.QUIET.SERVER.CONNS"]
    assert event["conns"] == 0


def test_refused_connection_is_an_event(
    server: ServerProcess, dial: Dial, system: WireClient, shapes: ShapeBook
) -> None:
    subject = f"$SYS.SERVER.{system.info['server_id']}.CLIENT.AUTH.ERR"
    system.round_trip(f"SUB {subject} 1\r\n".encode())
    client = dial(server)
    client.read_info()
    client.send_connect(user="a", **{"pass": "wrong"})
    assert client.read_until_closed() == AUTHORIZATION_VIOLATION
    (event,) = events_until(system, subject)[subject]
    shapes.check("event.auth_error", event)
    assert event["reason"] == "Authentication Failure"
    assert event["client"]["user"] == "a"


def test_statistics_are_an_event(server: ServerProcess, system: WireClient, shapes: ShapeBook) -> None:
    subject = f"$SYS.SERVER.{system.info['server_id']}.STATSZ"
    system.round_trip(f"SUB {subject} 1\r\n".encode())
    (event,) = events_until(system, subject)[subject]
    shapes.check("event.statsz", event)


# -- commands ---------------------------------------------------------------------------------------


def test_kick_closes_a_client(server: ServerProcess, join: Dial, system: WireClient) -> None:
    client = login(join, server, "a")
    body = json.dumps({"cid": client.info["client_id"]}).encode()
    answer = ask(system, f"$SYS.REQ.SERVER.{system.info['server_id']}.KICK", body)
    assert "error" not in answer
    assert client.read_until_closed() == b""


def test_kick_of_nobody(system: WireClient) -> None:
    answer = ask(system, f"$SYS.REQ.SERVER.{system.info['server_id']}.KICK", b'{"cid":99999}')
    assert answer["error"]["code"] == 500


def test_one_client_is_told_to_leave(server: ServerProcess, join: Dial, system: WireClient) -> None:
    client, other = login(join, server, "a"), login(join, server, "a")
    body = json.dumps({"cid": client.info["client_id"]}).encode()
    assert "error" not in ask(system, f"$SYS.REQ.SERVER.{system.info['server_id']}.LDM", body)
    assert client.read_info()["ldm"] is True
    assert client.round_trip() == other.round_trip() == b""


def test_reload_by_request(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(config=SYSTEM)
    system = login(join, server, "sys")
    server.config_path.write_text(SYSTEM + "max_payload: 5000")
    answer = ask(system, f"$SYS.REQ.SERVER.{system.info['server_id']}.RELOAD")
    assert "error" not in answer
    assert join(server, user="a", **{"pass": "p"}).info["max_payload"] == 5000


def test_system_account_can_be_switched_off(shared_server: ServerFactory, join: Dial) -> None:
    client = join(shared_server(config="no_system_account: true"))
    assert nobody_answers(client, "$SYS.REQ.USER.INFO")
