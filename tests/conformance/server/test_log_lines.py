"""Log lines for operators: the same texts at the same levels on both servers."""

import os
import re
import signal
import subprocess
from collections.abc import Sequence

import pytest

from tests.kits.conformance.clients import ServerFactory, publish
from tests.kits.conformance.papers import Papers
from tests.kits.patience import PATIENCE_S
from tests.kits.reference import ServerKind, ServerProcess, command_for
from tests.kits.wire import WireClient

USERS = """authorization { timeout: 30, users: [
    {user: ann, password: p}
    {user: bob, password: p, permissions: {publish: "a", subscribe: "a"}}
] }
max_subscriptions: 2
"""
HASHED = "$2a$04$W./MP5f4qJuhMBhVJ2zVmOK6zVQd0Jc.4Lqpm95MRUUxYvGHCz9oa"
_START = re.compile(r"^\[\d+\] \S+ \S+ ")
_PEER = re.compile(r"127\.0\.0\.1:\d+ - cid:\d+ - ")


def lines(server: ServerProcess, pattern: str, after: int = 0) -> list[str]:
    """Return lines without time and address."""
    found = [_PEER.sub("", _START.sub("", line)) for line in server.log.splitlines()[after:]]
    return [line for line in found if re.search(pattern, line)]


@pytest.fixture
def server(own_server: ServerFactory) -> ServerProcess:
    return own_server("-D", config=USERS)


def attempt(server: ServerProcess, **connect: object) -> None:
    with WireClient.connect(server.port, timeout_s=PATIENCE_S) as client:
        client.read_info()
        client.send_connect(**connect)
        client.read_until_closed()


def test_refused_logins_are_errors_and_quoted(server: ServerProcess) -> None:
    attempt(server, user="ann", **{"pass": "wrong"})
    attempt(server, user='no"bo\ndy\x1b[31m', **{"pass": "x"})
    attempt(server, auth_token="secret")
    attempt(server)
    server.stop()  # only then everything was read that it said
    assert lines(server, "authentication error") == [
        '[ERR] authentication error - User "ann"',
        '[ERR] authentication error - User "no\\"bo\\ndy\\x1b[31m"',
        '[ERR] authentication error - Token "[REDACTED]"',
        "[ERR] authentication error",
    ]


def test_violations_are_errors_that_name_client_and_subject(server: ServerProcess) -> None:
    with WireClient.connect(server.port, timeout_s=PATIENCE_S) as client:
        client.handshake(user="bob", name='na"me\n', lang="go", version="1.2", **{"pass": "p"})
        client.round_trip(publish("b"))
        client.round_trip(b"PUB \x1b[31mev\xff\x0bil 0\r\n\r\n")
        client.round_trip(b"SUB b 1\r\n")
        client.round_trip(b"SUB b q 1\r\n")
        client.round_trip(b"SUB a 1\r\nSUB a 2\r\nSUB a 3\r\n")
        client.round_trip(b"PUB a _R_.x 0\r\n\r\n")
        client.round_trip(b"PUB $GR.x 0\r\n\r\n")
    server.stop()
    who = '[ERR] "v1.2:go:na\\"me\\n" - "$G/user:bob" - '
    assert lines(server, "Violation|exceeded") == [
        who + 'Publish Violation - Subject "b"',
        who + 'Publish Violation - Subject "\\x1b[31mev\\xff\\vil"',
        who + 'Subscription Violation - Subject "b", SID 1',
        who + 'Subscription Violation - Subject "b", Queue: "q", SID 1',
        who + "maximum subscriptions exceeded",
        who + 'Publish Violation - Reply "_R_.x"',
        who + 'Publish Violation - Subject "$GR.x"',
    ]


def test_a_client_that_breaks_the_protocol_is_an_error(server: ServerProcess) -> None:
    with WireClient.connect(server.port, timeout_s=PATIENCE_S) as client:
        client.handshake(user="ann", **{"pass": "p"})
        client.send(b"FOO\r\n")
        client.read_until_closed()
    server.stop()
    (line,) = lines(server, "parser ERROR")
    assert line.startswith('[ERR] "v0:wire" - "$G/user:ann" - Client parser ERROR')


@pytest.mark.parametrize(
    ("config", "warned"),
    [
        (USERS, True),
        ("authorization { user: u, password: p }", True),
        ("accounts { A { users: [{user: u, password: p}] } }", True),
        ("authorization { token: t }", False),
        (f'authorization {{ user: u, password: "{HASHED}" }}', False),
        ("", False),
    ],
    ids=["users", "single", "account", "token", "bcrypt", "nobody"],
)
def test_plain_passwords_are_warned_about(shared_server: ServerFactory, config: str, warned: bool) -> None:
    server = shared_server(config=config)
    wanted = ["[WRN] Plaintext passwords detected, use nkeys or bcrypt"]
    assert lines(server, "Plaintext") == (wanted if warned else [])


def test_the_start_says_whether_tls_is_required(shared_server: ServerFactory, papers: Papers) -> None:
    required, available = papers.tls(), papers.tls() + "allow_non_tls: true"
    # Other tests share these servers, and what they refuse is told in the same log.
    at_start = "TLS (required|available)|Handshake First"
    assert lines(shared_server(config=required), at_start) == ["[INF] TLS required for client connections"]
    assert lines(shared_server(config=available), at_start) == ["[INF] TLS available for client connections"]
    first = shared_server(config=papers.tls("handshake_first: true"))
    assert lines(first, at_start) == [
        "[INF] TLS required for client connections",
        '[WRN] Clients that are not using "TLS Handshake First" option will fail to connect',
    ]


def test_a_web_socket_without_tls_is_warned_about(shared_server: ServerFactory) -> None:
    server = shared_server(config='websocket { listen: "127.0.0.1:-1", no_tls: true }')
    assert lines(server, "DO NOT") == ["[WRN] Websocket not configured with TLS. DO NOT USE IN PRODUCTION!"]


def test_signals_and_reloads_are_told(server: ServerProcess) -> None:
    server.reload(USERS + "max_connections: 10\n")
    server.reload(USERS + "nonsense: 1\n")
    os.kill(server.pid, signal.SIGUSR1)
    server.wait_for_log("user defined signal 1")
    server.stop()
    assert lines(server, "Trapped|Failed|Exiting|Initiating Shutdown") == [
        '[INF] Trapped "hangup" signal',
        '[INF] Trapped "hangup" signal',
        *lines(server, "Failed to reload"),
        '[INF] Trapped "user defined signal 1" signal',
        '[INF] Trapped "terminated" signal',
        "[INF] Initiating Shutdown...",
        "[INF] Server Exiting..",
    ]
    (reloaded,) = lines(server, "Reloaded server")
    assert re.fullmatch(r"\[INF\] Reloaded server configuration \(sha256:[0-9a-f]{64}\)", reloaded)


def test_the_reason_of_a_start_that_failed_is_the_last_line(
    own_server: ServerFactory, server_kind: ServerKind
) -> None:
    taken = own_server()
    arguments: Sequence[str] = [*command_for(server_kind), "-a", "127.0.0.1", "-p", str(taken.port)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    said = ended.stderr.strip().splitlines()
    assert "[FTL]" in said[-1]
    assert not any("Exiting" in line for line in said)
