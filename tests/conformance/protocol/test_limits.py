"""Limits on connections, sizes and subscriptions, and what a client that passes one is told."""

import json
import socket

import pytest

from tests.kits.conformance.clients import (
    Dial,
    ServerFactory,
    closed_reason,
    eventually,
    message,
    monitor,
    publish,
)
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerProcess

LIMITS = """
max_control_line: 256
max_payload: 1000
max_subscriptions: 3
max_sub_tokens: 4
"""


@pytest.fixture
def limited(shared_server: ServerFactory) -> ServerProcess:
    return shared_server(config=LIMITS, monitor=True)


def test_configured_control_line(limited: ServerProcess, join: Dial) -> None:
    client = join(limited)
    assert client.round_trip(b"PUB " + b"a" * 254 + b" 0\r\n\r\n") == b""
    client.send(b"PUB " + b"a" * 255 + b" 0\r\n\r\n")
    assert client.read_until_closed() == b"-ERR 'maximum control line exceeded'\r\n"
    assert closed_reason(limited, client) == "Maximum Control Line Exceeded"


def test_configured_payload(limited: ServerProcess, join: Dial) -> None:
    client = join(limited)
    assert client.info["max_payload"] == 1000
    assert client.round_trip(publish("big", b"a" * 1000)) == b""
    client.send(publish("big", b"a" * 1001))
    assert client.read_until_closed() == b"-ERR 'Maximum Payload Violation'\r\n"
    assert closed_reason(limited, client) == "Maximum Message Payload Exceeded"


def test_headers_count_as_payload(limited: ServerProcess, join: Dial) -> None:
    client = join(limited)
    assert client.round_trip(b"HPUB big 12 1000\r\nNATS/1.0\r\n\r\n" + b"a" * 988 + b"\r\n") == b""
    client.send(b"HPUB big 12 1001\r\nNATS/1.0\r\n\r\n")
    assert client.read_until_closed() == b"-ERR 'Maximum Payload Violation'\r\n"


def test_configured_subscriptions(limited: ServerProcess, join: Dial) -> None:
    client = join(limited)
    assert client.round_trip(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n") == b""
    assert client.round_trip(b"SUB d 4\r\n" + publish("d")) == b"-ERR 'maximum subscriptions exceeded'\r\n"
    assert client.round_trip(b"UNSUB 1\r\nSUB d 5\r\n" + publish("d")) == message("d", 5)


def test_configured_subject_tokens(limited: ServerProcess, join: Dial) -> None:
    client = join(limited)
    assert client.round_trip(b"SUB a.b.c.d 1\r\n") == b""
    assert client.round_trip(b"SUB a.b.c.d.e 2\r\n") == (
        b"-ERR 'Permissions Violation for Subscription to \"a.b.c.d.e\", too many tokens'\r\n"
    )
    assert client.round_trip(b"SUB a.* q 2\r\n" + publish("a.b.c.d.e.f")) == b""


def test_configured_connections(shared_server: ServerFactory, dial: Dial, join: Dial) -> None:
    server = shared_server(config="max_connections: 2", monitor=True)
    first, second = join(server), join(server)
    third = dial(server)
    third.read_info()
    assert third.read_until_closed() == b"-ERR 'maximum connections exceeded'\r\n"
    assert closed_reason(server, third) == "Maximum Connections Exceeded"
    assert first.round_trip() == second.round_trip() == b""
    first.close()
    eventually(lambda: monitor(server, "/varz")["connections"] == 1)
    join(server)


def test_reasons_of_closed_connections(server: ServerProcess, dial: Dial) -> None:
    reasons = {
        b"FOO\r\n": "Protocol Violation",
        b"PUB foo\r\n": "Protocol Violation",
        b"PUB foo 1\r\nxyz\r\n": "Protocol Violation",
        b"CONNECT {\r\n": "Protocol Violation",
        b"-ERR 'x'\r\n": "Parse Error",
        b'CONNECT {"protocol":7}\r\n': "Bad Client Protocol Version",
        b'CONNECT {"no_responders":true}\r\n': "No Responders Requires Headers",
        b"PUB foo 99999999\r\n": "Maximum Message Payload Exceeded",
    }
    seen = {}
    for sent in reasons:
        client = dial(server)
        client.read_info()
        client.send(sent)
        client.read_until_closed()
        seen[sent] = closed_reason(server, client)
    assert seen == reasons


def test_client_that_leaves_is_client_closed(server: ServerProcess, join: Dial) -> None:
    client = join(server)
    client.close()
    assert closed_reason(server, client) == "Client Closed"


def test_slow_consumer_is_closed_while_others_go_on(
    shared_server: ServerFactory, dial: Dial, join: Dial
) -> None:
    server = shared_server(config="max_pending: 1MB, max_payload: 64KB", monitor=True)
    slow = dial(server, receive_buffer=4096)
    slow.handshake()
    slow.round_trip(b"SUB flood 1\r\n")
    fast, publisher = join(server), join(server)
    fast.round_trip(b"SUB quiet 1\r\n")
    block = publish("flood", b"x" * 32768) * 8

    def is_closed() -> bool:
        publisher.round_trip(block)
        return bool(monitor(server, f"/connz?state=closed&cid={slow.info['client_id']}")["connections"])

    eventually(is_closed, "the close of a slow consumer")
    assert closed_reason(server, slow) == "Slow Consumer (Pending Bytes)"
    rest = slow.read_until_closed()
    assert b"-ERR" not in rest
    publisher.send(publish("quiet", b"still here"))
    assert fast.read_frame() == message("quiet", 1, b"still here")
    varz = monitor(server, "/varz")
    assert varz["slow_consumers"] >= 1
    assert varz["slow_consumer_stats"]["clients"] >= 1


def test_write_deadline_closes_a_client_that_does_not_read(
    shared_server: ServerFactory, dial: Dial, join: Dial
) -> None:
    server = shared_server(config='write_deadline: "200ms"', monitor=True)
    slow = dial(server, receive_buffer=4096)
    slow.handshake()
    slow.round_trip(b"SUB flood 1\r\n")
    publisher = join(server)
    publisher.round_trip(publish("flood", b"x" * 1_000_000) * 16)  # more than the kernel's buffers hold
    assert closed_reason(server, slow) == "Slow Consumer (Write Deadline)"
    assert b"-ERR" not in slow.read_until_closed()


def test_half_a_frame_stalls_nobody(server: ServerProcess, dial: Dial, join: Dial) -> None:
    stuck = dial(server)
    stuck.read_info()
    stuck.send(b"PUB foo 100\r\nabc")
    assert join(server).round_trip(b"SUB foo 1\r\n" + publish("foo")) == message("foo", 1)


def test_connection_without_a_word_gets_info_and_stalls_nobody(server: ServerProcess, join: Dial) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as silent:
        line = silent.makefile("rb").readline()
        assert json.loads(line[5:])["server_id"]
        assert join(server).round_trip() == b""
