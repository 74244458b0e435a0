"""Limits of an account, and contradictory accounts."""

import pytest

from tests.kits.conformance.clients import Dial, ServerFactory, eventually, login, message, monitor, publish
from tests.kits.reference import ServerProcessError

LIMITS = """
accounts {
  SMALL {
    limits { max_conn: 2, max_subs: 2, max_payload: 100 }
    users: [ { user: small, password: p } ]
  }
  OPEN { users: [ { user: open, password: p } ] }
}
"""


def test_connections_of_an_account(shared_server: ServerFactory, join: Dial, dial: Dial) -> None:
    server = shared_server(config=LIMITS, monitor=True)
    eventually(lambda: monitor(server, "/varz")["connections"] == 0)
    first, _ = login(join, server, "small"), login(join, server, "small")
    third = dial(server)
    third.read_info()
    third.send_connect(user="small", **{"pass": "p"})
    assert third.read_until_closed() == b"-ERR 'maximum account active connections exceeded'\r\n"
    login(join, server, "open")
    assert first.round_trip() == b""


def test_subscriptions_of_an_account_are_counted_for_each_connection(
    shared_server: ServerFactory, join: Dial
) -> None:
    server = shared_server(config=LIMITS, monitor=True)
    eventually(lambda: monitor(server, "/varz")["connections"] == 0)
    first, second = login(join, server, "small"), login(join, server, "small")
    assert first.round_trip(b"SUB a 1\r\nSUB b 2\r\n") == b""
    assert first.round_trip(b"SUB c 3\r\n") == b"-ERR 'maximum subscriptions exceeded'\r\n"
    assert second.round_trip(b"SUB d 1\r\n") == b""
    assert first.round_trip(b"UNSUB 1\r\nSUB c 3\r\n" + publish("c")) == message("c", 3)


def test_payload_of_an_account(shared_server: ServerFactory, join: Dial, dial: Dial) -> None:
    server = shared_server(config=LIMITS, monitor=True)
    eventually(lambda: monitor(server, "/varz")["connections"] == 0)
    client = dial(server)
    assert client.read_info()["max_payload"] == 1048576
    assert client.handshake(read_info=False, user="small", **{"pass": "p"})["max_payload"] == 100
    assert client.round_trip(publish("a", b"x" * 100)) == b""
    client.send(publish("a", b"x" * 101))
    assert client.read_until_closed() == b"-ERR 'Maximum Payload Violation'\r\n"
    assert login(join, server, "open").round_trip(publish("a", b"x" * 101)) == b""


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        (
            "accounts { A { exports: [{stream: s}] }, B { imports: [{stream: {account: X, subject: s}}] } }",
            "X",
        ),
        ("accounts { A {}, B { imports: [{stream: {account: A, subject: s}}] } }", "s"),
        (
            "accounts { A { exports: [{stream: s, accounts: [A]}] }, "
            "B { imports: [{stream: {account: A, subject: s}}] } }",
            "s",
        ),
        ("accounts { $G {} }", "$G"),
        ("accounts { A { exports: [{stream: s, service: t}] } }", "service"),
        ("mappings { a: [ {destination: b, weight: 70}, {destination: c, weight: 70} ] }", "100"),
        ('mappings { "a.*": "b.$2" }', "a.*"),
    ],
)
def test_contradictory_accounts_are_refused(own_server: ServerFactory, config: str, complaint: str) -> None:
    with pytest.raises(ServerProcessError) as refusal:
        own_server(config=config)
    assert complaint.lower() in str(refusal.value).lower()
