"""The monitoring endpoints over HTTP: status, type, keys, query options."""

import json
import re
import urllib.request
from typing import Any

import pytest

from tests.kits.conformance.clients import (
    Dial,
    ServerFactory,
    closed_reason,
    eventually,
    http_get,
    login,
    monitor,
    publish,
)
from tests.kits.patience import PATIENCE_S
from tests.kits.recordings.shapes import ShapeBook
from tests.kits.reference import ServerProcess
from tests.kits.wire import WireClient

ENDPOINTS = [
    "varz",
    "connz",
    "subsz",
    "subscriptionsz",
    "accountz",
    "accstatz",
    "jsz",
    "healthz",
    "routez",
    "gatewayz",
    "leafz",
]

# Its own configuration, so that no test of another file has used it.
USED = """
server_name: watched
accounts {
  A { users: [ { user: a, password: p } ] }
  B { users: [ { user: b, password: p } ], exports: [ { stream: "out.>" }, { service: "ask" } ]
      mappings: { from: to } }
  C { users: [ { user: c, password: p } ]
      imports: [ { stream: { account: B, subject: "out.>" }, prefix: "b" }
                 { service: { account: B, subject: "ask" } } ] }
}
"""


@pytest.fixture
def used(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=USED, monitor=True)


@pytest.fixture
def busy(used: ServerProcess, join: Dial) -> WireClient:
    """A client with subscriptions that has published and received."""
    client = login(join, used, "a", name="busy")
    client.round_trip(b"SUB foo 1\r\nSUB bar.* q 2\r\nUNSUB 2 10\r\n" + publish("foo", b"hello") * 3)
    return client


# -- documents --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENDPOINTS)
def test_idle_server(shared_server: ServerFactory, shapes: ShapeBook, name: str) -> None:
    server = shared_server("-n", "idle", monitor=True)
    status, content_type, body = http_get(f"{server.monitor_url}/{name}")
    assert (status, content_type) == (200, "application/json")
    shapes.check(f"http.idle.{name}", json.loads(body))


@pytest.mark.parametrize("name", ENDPOINTS)
def test_used_server(used: ServerProcess, busy: WireClient, shapes: ShapeBook, name: str) -> None:
    shapes.check(f"http.used.{name}", monitor(used, f"/{name}"))


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("connz_subs", "/connz?subs=1&acc=A"),
        ("connz_detail", "/connz?subs=detail&auth=1&acc=A"),
        ("subsz_list", "/subsz?subs=1&acc=A"),
        ("subsz_test", "/subsz?subs=1&acc=A&test=foo"),
        ("accountz_plain", "/accountz?acc=A"),
        ("accountz_exports", "/accountz?acc=B"),
        ("accountz_imports", "/accountz?acc=C"),
        ("accstatz_unused", "/accstatz?unused=1"),
    ],
)
def test_detailed_documents(
    used: ServerProcess, busy: WireClient, shapes: ShapeBook, name: str, query: str
) -> None:
    shapes.check(f"http.{name}", monitor(used, query))


def test_documents_are_indented_except_health(server: ServerProcess) -> None:
    assert http_get(f"{server.monitor_url}/varz")[2].startswith(b'{\n  "server_id": "N')
    assert http_get(f"{server.monitor_url}/healthz")[2] == b'{"status":"ok"}'


def test_anyone_may_read_from_a_browser(server: ServerProcess) -> None:
    with urllib.request.urlopen(f"{server.monitor_url}/varz", timeout=PATIENCE_S) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "*"


def test_head_has_no_body(server: ServerProcess) -> None:
    request = urllib.request.Request(f"{server.monitor_url}/varz", method="HEAD")
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        assert response.status == 200
        assert response.read() == b""


def test_root_is_a_page_of_links(server: ServerProcess) -> None:
    status, content_type, body = http_get(f"{server.monitor_url}/")
    assert (status, content_type) == (200, "text/html; charset=utf-8")
    for name in ("varz", "connz", "subsz", "healthz"):
        assert name.encode() in body


@pytest.mark.parametrize("path", ["/nosuch", "/connz/", "/varz/extra"])
def test_unknown_path(server: ServerProcess, path: str) -> None:
    assert http_get(f"{server.monitor_url}{path}")[0] == 404


def test_base_path(shared_server: ServerFactory) -> None:
    server = shared_server(config="http_base_path: /nats", monitor=True)
    assert http_get(f"{server.monitor_url}/nats/varz")[0] == 200
    assert http_get(f"{server.monitor_url}/varz")[0] == 404


# -- numbers ----------------------------------------------------------------------------------------


def test_varz_tells_the_configuration(shared_server: ServerFactory) -> None:
    server = shared_server(
        config='max_payload: 5000, ping_interval: "30s", ping_max: 4, max_control_line: 2000, '
        'max_pending: 2MB, max_connections: 77, write_deadline: "3s"',
        monitor=True,
    )
    varz = monitor(server, "/varz")
    expected = {
        "max_payload": 5000,
        "ping_interval": 30_000_000_000,
        "ping_max": 4,
        "max_control_line": 2000,
        "max_pending": 2 * 1024 * 1024,
        "max_connections": 77,
        "write_deadline": 3_000_000_000,
        "host": "127.0.0.1",
        "port": server.port,
        "auth_timeout": 2,
        "system_account": "$SYS",
    }
    assert {key: varz[key] for key in expected} == expected
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", varz["config_digest"])


def test_varz_counts_traffic(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(monitor=True)
    client = join(server)
    client.round_trip(b"SUB foo 1\r\nSUB foo 2\r\n" + publish("foo", b"12345") * 4)
    varz = monitor(server, "/varz")
    expected = {
        "connections": 1,
        "total_connections": 1,
        "in_msgs": 4,
        "in_bytes": 20,
        "out_msgs": 8,
        "out_bytes": 40,
        "in_client_msgs": 4,
        "out_client_msgs": 8,
    }
    assert {key: varz[key] for key in expected} == expected
    assert varz["http_req_stats"]["/varz"] == 1
    assert monitor(server, "/varz")["http_req_stats"]["/varz"] == 2


def test_header_bytes_are_counted(own_server: ServerFactory, join: Dial) -> None:
    server = own_server(monitor=True)
    join(server).round_trip(b"SUB foo 1\r\nHPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
    varz = monitor(server, "/varz")
    assert (varz["in_bytes"], varz["out_bytes"]) == (14, 14)


def test_connz_describes_a_connection(used: ServerProcess, busy: WireClient) -> None:
    document = monitor(used, f"/connz?cid={busy.info['client_id']}&subs=1&auth=1")
    (connection,) = document["connections"]
    expected = {
        "cid": busy.info["client_id"],
        "kind": "Client",
        "type": "nats",
        "ip": "127.0.0.1",
        "in_msgs": 3,
        "out_msgs": 3,
        "in_bytes": 15,
        "out_bytes": 15,
        "subscriptions": 2,
        "name": "busy",
        "lang": "wire",
        "version": "0",
        "authorized_user": "a",
        "account": "A",
    }
    assert {key: connection[key] for key in expected} == expected
    assert sorted(connection["subscriptions_list"]) == ["bar.*", "foo"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.?\d*Z", connection["start"])
    assert re.fullmatch(r"\d+s", connection["uptime"])


def test_subscription_details(used: ServerProcess, busy: WireClient) -> None:
    document = monitor(used, f"/connz?cid={busy.info['client_id']}&subs=detail")
    details = {entry["subject"]: entry for entry in document["connections"][0]["subscriptions_list_detail"]}
    assert details["foo"]["sid"] == "1"
    assert details["foo"]["msgs"] == 3
    assert details["bar.*"]["qgroup"] == "q"
    assert details["bar.*"]["max"] == 10


def test_subsz_finds_subscriptions_by_subject(used: ServerProcess, busy: WireClient) -> None:
    document = monitor(used, "/subsz?subs=1&acc=A&test=bar.x")
    assert [entry["subject"] for entry in document["subscriptions_list"]] == ["bar.*"]
    assert document["total"] == 1


def test_closed_connections(used: ServerProcess, join: Dial, shapes: ShapeBook) -> None:
    client = login(join, used, "a", name="short")
    client.round_trip(b"SUB foo 1\r\n")
    client.close()
    assert closed_reason(used, client) == "Client Closed"
    document = monitor(used, f"/connz?state=closed&cid={client.info['client_id']}&subs=1&auth=1")
    shapes.check("http.connz_closed", document)
    (connection,) = document["connections"]
    assert connection["stop"] >= connection["start"]
    assert connection["account"] == "A"


def test_states_of_connections(used: ServerProcess, join: Dial) -> None:
    gone, here = login(join, used, "c"), login(join, used, "c")
    gone.close()
    closed_reason(used, gone)

    def ids(state: str) -> set[int]:
        found = {entry["cid"] for entry in monitor(used, f"/connz?state={state}&acc=C")["connections"]}
        return found & {gone.info["client_id"], here.info["client_id"]}

    assert ids("open") == {here.info["client_id"]}
    assert ids("closed") == {gone.info["client_id"]}
    assert ids("any") == ids("all") == {gone.info["client_id"], here.info["client_id"]}


# -- query options ----------------------------------------------------------------------------------


@pytest.fixture
def crowd(used: ServerProcess, join: Dial) -> list[int]:
    """Ids of three clients of account B: the second has most subscriptions, the third most messages."""
    eventually(lambda: not monitor(used, "/connz?acc=B")["connections"])
    clients = [login(join, used, "b", name=f"b{number}") for number in range(3)]
    clients[1].round_trip(b"SUB x 1\r\nSUB y 2\r\n")
    clients[2].round_trip(b"SUB self 1\r\n" + publish("self", b"abc") * 3)
    clients[0].round_trip(publish("x", b"abcdefghijklmnopqrstuvwxyz"))
    clients[1].round_trip()
    return [client.info["client_id"] for client in clients]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("cid", [0, 1, 2]),
        ("start", [0, 1, 2]),
        ("subs", [1, 2, 0]),
        ("msgs_to", [2, 1, 0]),
        ("msgs_from", [2, 0, 1]),
        ("bytes_to", [1, 2, 0]),
        ("bytes_from", [0, 2, 1]),
    ],
)
def test_sorted(used: ServerProcess, crowd: list[int], sort: str, order: list[int]) -> None:
    document = monitor(used, f"/connz?acc=B&sort={sort}")
    assert [entry["cid"] for entry in document["connections"]] == [crowd[index] for index in order]


def test_round_trip_is_guessed_from_connect_on(used: ServerProcess, busy: WireClient) -> None:
    document = monitor(used, f"/connz?cid={busy.info['client_id']}")
    assert re.fullmatch(r"[1-9][0-9.]*(ns|µs|ms|s)", document["connections"][0]["rtt"])


@pytest.mark.parametrize("sort", ["pending", "last", "idle", "uptime", "rtt"])
def test_other_sorts_are_known(used: ServerProcess, crowd: list[int], sort: str) -> None:
    document = monitor(used, f"/connz?acc=B&sort={sort}")
    assert sorted(entry["cid"] for entry in document["connections"]) == crowd


@pytest.mark.parametrize("sort", ["stop", "reason"])
def test_sorts_of_closed_connections(used: ServerProcess, sort: str) -> None:
    assert http_get(f"{used.monitor_url}/connz?state=closed&sort={sort}")[0] == 200


def test_pages(used: ServerProcess, crowd: list[int]) -> None:
    def page(query: str) -> dict[str, Any]:
        document = monitor(used, f"/connz?acc=B&{query}")
        return {
            "cids": [entry["cid"] for entry in document["connections"]],
            **{key: document[key] for key in ("num_connections", "total", "offset", "limit")},
        }

    base = {"num_connections": 3, "total": 3, "offset": 0, "limit": 1024}
    assert page("limit=2") == {**base, "cids": crowd[:2], "num_connections": 2, "limit": 2}
    assert page("limit=2&offset=2") == {
        "cids": crowd[2:],
        "num_connections": 1,
        "total": 3,
        "offset": 2,
        "limit": 2,
    }
    assert page("offset=99") == {**base, "cids": [], "num_connections": 0, "offset": 99}
    assert page("limit=0") == {**base, "cids": crowd}


def test_filters(used: ServerProcess, busy: WireClient, crowd: list[int]) -> None:
    def cids(query: str) -> list[int]:
        return [entry["cid"] for entry in monitor(used, f"/connz?{query}")["connections"] or []]

    assert cids("user=b&auth=1") == crowd
    assert busy.info["client_id"] in cids("user=a&auth=1")
    assert cids("acc=NOPE") == []
    assert cids("cid=99999") == []


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/connz?sort=wombat", "invalid sorting option: wombat"),
        ("/connz?sort=stop", "sort by stop only valid on closed connections"),
        ("/connz?sort=reason", "sort by reason only valid on closed connections"),
        ("/connz?limit=x", "Error decoding int for 'limit'"),
        ("/connz?offset=x", "Error decoding int for 'offset'"),
        ("/connz?subs=wombat", "Error decoding boolean for 'subs'"),
        ("/connz?auth=maybe", "Error decoding boolean for 'auth'"),
        ("/connz?state=wombat", "Error decoding state for wombat"),
        ("/connz?cid=x", "Error decoding uint64 for 'cid'"),
        ("/subsz?limit=x", "Error decoding int for 'limit'"),
        ("/subsz?subs=x", "Error decoding boolean for 'subs'"),
        ("/subsz?test=foo..b", "invalid test subject, must be valid publish subject: foo..b"),
        ("/accountz?acc=NOPE", "Account NOPE does not exist"),
        ("/healthz?js-server-only=x", "Error decoding boolean for 'js-server-only'"),
    ],
)
def test_bad_query(used: ServerProcess, path: str, complaint: str) -> None:
    status, content_type, body = http_get(f"{used.monitor_url}{path}")
    assert status == 400
    assert content_type == "text/plain; charset=utf-8"
    assert body.decode().startswith(complaint)


@pytest.mark.parametrize("query", ["", "?js-enabled-only=1", "?js-server-only=true", "?details=1"])
def test_health_without_jetstream(server: ServerProcess, query: str) -> None:
    status, _, body = http_get(f"{server.monitor_url}/healthz{query}")
    assert (status, body) == (200, b'{"status":"ok"}')


def test_health_of_a_stream_needs_an_account(server: ServerProcess) -> None:
    status, _, body = http_get(f"{server.monitor_url}/healthz?stream=x")
    assert status == 400
    assert json.loads(body)["status"] == "error"
