"""Documents of a running server over HTTP, beyond what the conformance tests compare with nats-server."""

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from millstream.broker.options import TlsOptions
from millstream.config.options import MonitorOptions, ServerOptions
from millstream.server.blocking_server import BlockingServer
from tests.kits.certs import CertificateAuthority
from tests.kits.patience import PATIENCE_S
from tests.kits.server.monitor import document, eventually, get
from tests.kits.wire import WireClient

CONFIG = """
host: 127.0.0.1, port: -1, http: "127.0.0.1:-1", server_name: "watched&<tested>"
server_tags: [a, b], server_metadata: { k: v }
websocket { host: 127.0.0.1, port: -1, no_tls: true, compression: true, same_origin: true }
accounts {
  A { users: [ { user: a, password: p } ]
      mappings: { "m.*": [ { destination: "n.$1", weight: 50% }, { destination: "o.$1", weight: 20% } ] }
      exports: [ { stream: "s.>" }, { service: help, accounts: [B], response: stream } ] }
  B { users: [ { user: b, password: p } ]
      imports: [ { stream: { account: A, subject: "s.>" }, prefix: "from.a" }
                 { service: { account: A, subject: help }, to: desk } ] }
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingServer]:
    path = tmp_path_factory.mktemp("monitor") / "server.conf"
    path.write_text(CONFIG)
    with BlockingServer(config=str(path)) as running:
        yield running


def join(server: BlockingServer, user: str, **options: object) -> WireClient:
    client = WireClient.connect(server.port)
    client.handshake(user=user, **{"pass": "p"}, **options)
    return client


@pytest.fixture
def alice(server: BlockingServer) -> Iterator[WireClient]:
    with join(server, "a", name="alice") as client:
        yield client


def test_varz_describes_the_websocket_listener(server: BlockingServer) -> None:
    port = int(server.websocket_url.rpartition(":")[2])
    assert document(server, "/varz")["websocket"] == {
        "host": "127.0.0.1",
        "port": port,
        "no_tls": True,
        "same_origin": True,
        "compression": True,
    }


def test_varz_has_identity_and_real_ports(server: BlockingServer) -> None:
    varz = document(server, "/varz")
    assert varz["server_name"] == "watched&<tested>"
    assert (varz["host"], varz["port"]) == ("127.0.0.1", server.port)
    assert server.monitor_url == f"http://127.0.0.1:{varz['http_port']}"
    assert (varz["tags"], varz["metadata"]) == (["a", "b"], {"k": "v"})
    assert varz["mem"] > 1_000_000
    assert varz["auth_required"] is True


def test_requests_are_counted_by_path(server: BlockingServer) -> None:
    before = document(server, "/varz")["http_req_stats"]
    for path in ("/subscriptionsz", "/subsz", "/stacksz", "/nothing"):
        get(server.monitor_url + path)
    after = document(server, "/varz")["http_req_stats"]
    assert after["/subsz"] == before.get("/subsz", 0) + 2
    assert after["/varz"] == before["/varz"] + 1
    assert not {"/stacksz", "/nothing", "/subscriptionsz"} & after.keys()


def test_last_activity_stands_still_while_nothing_happens(server: BlockingServer, alice: WireClient) -> None:
    path = f"/connz?cid={alice.info['client_id']}"
    seen = {document(server, path)["connections"][0]["last_activity"] for _ in range(5)}
    assert len(seen) == 1
    alice.round_trip()
    assert document(server, path)["connections"][0]["last_activity"] > seen.pop()


def test_connections_are_filtered_by_subject(server: BlockingServer, alice: WireClient) -> None:
    alice.round_trip(b"SUB news.* 1\r\n")
    with join(server, "a") as other:
        other.round_trip(b"SUB weather 1\r\n")
        found = document(server, "/connz?acc=A&filter_subject=news.eu")["connections"]
        assert [each["cid"] for each in found] == [alice.info["client_id"]]
    status, _, body = get(f"{server.monitor_url}/connz?filter_subject=news.eu")
    assert (status, body) == (400, b"filter by subject only valid with account filtering")


@pytest.mark.parametrize("state", ["open", "all"])
def test_the_number_of_a_connection_is_looked_for_in_the_account_asked_for(
    server: BlockingServer, alice: WireClient, state: str
) -> None:
    path = f"/connz?cid={alice.info['client_id']}&state={state}"
    for query, found in (("", 1), ("&acc=A", 1), ("&acc=B", 0)):
        answer = document(server, path + query)
        assert (answer["num_connections"], len(answer["connections"])) == (found, found)


def test_nobody_is_an_mqtt_client(server: BlockingServer, alice: WireClient) -> None:
    assert document(server, "/connz?mqtt_client=x")["connections"] == []


def test_an_unknown_account_has_no_list_at_all(server: BlockingServer) -> None:
    answer = document(server, "/connz?acc=NOPE")
    assert (answer["server_id"], answer["connections"]) == ("", None)


def test_a_closed_connection_keeps_its_subscriptions(server: BlockingServer) -> None:
    with join(server, "b", name="short") as client:
        client.round_trip(b"SUB x q 7\r\nUNSUB 7 3\r\n")
        cid = client.info["client_id"]
    path = f"/connz?state=closed&cid={cid}&subs=detail&auth=1"
    closed = eventually(lambda: document(server, path)["connections"])[0]
    assert closed["subscriptions_list_detail"] == [
        {
            "account": "B",
            "account_tag": "B",
            "subject": "x",
            "qgroup": "q",
            "sid": "7",
            "msgs": 0,
            "max": 3,
            "cid": cid,
        }
    ]
    assert closed["reason"] == "Client Closed"
    assert closed["name_tag"] == "B"


def test_imported_streams_show_up_where_they_come_from(server: BlockingServer) -> None:
    with join(server, "b") as client:
        client.round_trip(b"SUB from.a.s.x 1\r\n")
        listed = document(server, "/subsz?subs=1&acc=A&test=s.x")["subscriptions_list"]
    assert [(each["account"], each["cid"]) for each in listed] == [("B", client.info["client_id"])]


def test_subscriptions_come_in_pages(server: BlockingServer, alice: WireClient) -> None:
    alice.round_trip(b"".join(b"SUB page.%d.a.* %d\r\n" % (number, number) for number in range(300)))
    everything = document(server, "/subsz?subs=1&acc=A&limit=100000")
    total = everything["total"]
    assert total == everything["num_subscriptions"] == len(everything["subscriptions_list"]) >= 300
    found = [
        entry["subject"]
        for offset in range(0, total, 64)
        for entry in document(server, f"/subsz?subs=1&acc=A&limit=64&offset={offset}")["subscriptions_list"]
    ]
    assert found == [entry["subject"] for entry in everything["subscriptions_list"]]
    assert {f"page.{number}.a.*" for number in range(300)} <= set(found)
    assert "subscriptions_list" not in document(server, "/subsz?subs=1&acc=A&offset=100000")


def test_mappings_show_sums_and_what_stays(server: BlockingServer) -> None:
    detail = document(server, "/accountz?acc=A")["account_detail"]
    assert detail["mappings"] == {
        "m.*": [
            {"subject": "o.$1", "weight": 20},
            {"subject": "m.$1", "weight": 50},
            {"subject": "n.$1", "weight": 100},
        ]
    }


def test_exports_and_imports_of_an_account(server: BlockingServer) -> None:
    exports = document(server, "/accountz?acc=A")["account_detail"]["exports"]
    assert exports == [
        {"subject": "s.>", "type": "stream"},
        {"subject": "help", "type": "service", "response_type": "Streamed", "approved_accounts": ["B"]},
    ]
    imports = document(server, "/accountz?acc=B")["account_detail"]["imports"]
    state = {"invalid": False, "share": False, "tracking": False}
    assert imports[:2] == [
        {"subject": "s.>", "account": "A", "local_subject": "from.a.s.>", "type": "stream", **state},
        {
            "subject": "help",
            "account": "A",
            "to": "desk",
            "local_subject": "desk",
            "type": "service",
            **state,
        },
    ]
    assert {each["account"] for each in imports[2:]} == {"$SYS"}


def test_account_statistics_outlive_connections(server: BlockingServer) -> None:
    def received() -> int:
        (entry,) = [
            each for each in document(server, "/accstatz?unused=1")["account_statz"] if each["acc"] == "B"
        ]
        assert isinstance(entry["received"]["msgs"], int)
        return int(entry["received"]["msgs"])

    before = received()
    with join(server, "b") as client:
        client.round_trip(b"PUB x 2\r\nhi\r\n" * 5)
        assert received() == before + 5
        cid = client.info["client_id"]
    eventually(lambda: document(server, f"/connz?state=closed&cid={cid}")["connections"])
    assert received() == before + 5


def test_stacks_show_threads_and_tasks(server: BlockingServer) -> None:
    status, headers, body = get(f"{server.monitor_url}/stacksz")
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert re.search(rb"^thread \d+ \[millstream\]:$", body, re.MULTILINE)
    assert re.search(rb"^task .* \[running\]:$", body, re.MULTILINE)


def test_variables_of_the_process(server: BlockingServer) -> None:
    variables = document(server, "/debug/vars")
    assert variables.keys() == {"cmdline", "memstats"}


def test_there_is_no_raft(server: BlockingServer) -> None:
    assert get(f"{server.monitor_url}/raftz")[::2] == (404, b"No Raft nodes registered")


def test_sloppy_paths_are_sent_to_the_right_one(server: BlockingServer) -> None:
    with urllib.request.urlopen(f"{server.monitor_url}//varz?x=1", timeout=PATIENCE_S) as response:
        assert response.url == f"{server.monitor_url}/varz?x=1"


def test_the_index_escapes_the_name_of_the_server(server: BlockingServer) -> None:
    _, _, body = get(f"{server.monitor_url}/")
    assert b"watched&amp;&lt;tested&gt;" in body
    assert b"<tested>" not in body


def test_every_link_of_the_index_leads_somewhere(server: BlockingServer) -> None:
    _, _, body = get(f"{server.monitor_url}/")
    links = re.findall(rb'href="([^"]+)"', body)
    assert len(links) >= 12
    assert {get(server.monitor_url + link.decode())[0] for link in links} == {200}


def test_a_base_path_is_part_of_the_address_and_the_links() -> None:
    monitor = MonitorOptions(host="127.0.0.1", http_port=-1, base_path="/nats")
    options = _options(monitor)
    with BlockingServer(options=options) as running:
        assert running.monitor_url.endswith("/nats")
        status, _, body = get(running.monitor_url)
        assert status == 200
        assert b'href="/nats/varz"' in body
        assert document(running, "/varz")["http_base_path"] == "/nats"
        assert get(running.monitor_url + "/")[0] == 404


def test_a_taken_port_is_an_error() -> None:
    with BlockingServer(monitor=True) as first:
        port = int(first.monitor_url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            BlockingServer(options=_options(MonitorOptions(host="127.0.0.1", http_port=port))).start()


def test_https_asks_nobody_for_a_certificate(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    certificate = authority.issue_for_loopback()
    tls = TlsOptions(
        cert_file=str(certificate.cert_file),
        key_file=str(certificate.key_file),
        ca_file=str(authority.cert_file),
        verify=True,
    )
    options = _options(MonitorOptions(host="127.0.0.1", https_port=-1, tls=tls))
    with BlockingServer(options=options) as running:
        assert running.monitor_url.startswith("https://127.0.0.1:")
        status, _, body = get(f"{running.monitor_url}/varz", authority.client_context())
    varz = json.loads(body)
    assert status == 200
    assert running.monitor_url.endswith(f":{varz['https_port']}")
    assert varz["http_port"] == 0


def _options(monitor: MonitorOptions) -> ServerOptions:
    options = ServerOptions(monitor=monitor)
    return msgspec.structs.replace(
        options, broker=msgspec.structs.replace(options.broker, host="127.0.0.1", port=-1)
    )
