"""We accept and refuse the same configurations as nats-server; `make oracle` asks it with `-t`.

Each entry says how both judge; where we differ on purpose the group says why.
"""

import re
import subprocess
from pathlib import Path

import pytest

from millstream.config import ConfigError, load_file
from tests.kits.paths import GOLDEN
from tests.kits.patience import PATIENCE_S
from tests.kits.recordings.book import Book
from tests.kits.reference import ServerKind, command_for

USER_KEY = "UCK5N7N66OBOINFXAYC2ACJQYFSOD4VYNU6APEJTAVFZB2SVHLKGEW7L"

BOTH_ACCEPT = [
    "port: 4222",
    "proxy_protocol: true",
    "resolver: MEMORY",
    "resolver: MEM",
    '{"port": -1, "debug": true, "jetstream": false}',
    "listen: 127.0.0.1:4222, debug: yes; trace: off\n",
    "LISTEN: ':4222'\nMax_Payload: 64KB",
    "listen: '[::1]:4222'",
    "port = $PORT\nserver_name = $SOME_NAME",
    "limit: 1k\nmax_payload: $limit",
    "ping_interval: '20s', ping_max: 3, write_deadline: 2m30s, write_timeout: retry",
    "lame_duck_duration: '1m', lame_duck_grace_period: '5s'",
    "max_connections: 0, max_subscriptions: 10, max_sub_tokens: 8, max_pending: 10MB, max_control_line: 2k",
    "authorization { token: abc, timeout: 1.5 }",
    "authorization { user: a, password: $2a$11$W2zko751KUvVy59mUTWmpOdWjpEm5qhcCZRd05GjI/sSOT.xtiHyG }",
    "authorization { users = [ {user: a, password: b, permissions: {pub: 'x.>', sub: {allow: ['q.* "
    "grp'], deny: y}}} ] }",
    f"authorization {{ users: [ {{nkey: {USER_KEY}, allowed_connection_types: [standard, WEBSOCKET]}} ] }}",
    "authorization { users: [] }",
    "authorization { default_permissions: {allow_responses: {max: 2, expires: '1m'}}, users: [{user: a}] }",
    "accounts: [a, b]",
    "accounts { A: {users: [{user: a}], jetstream: enabled, limits: {max_conn: 3, max_subs: 5, "
    "max_payload: 1k}} }",
    "accounts { SYS: {users: [{user: s, password: p}]} }\nsystem_account: SYS",
    "accounts { A: {exports: [{stream: 'a.>'}, {service: 'r', accounts: [B], response_type: stream, "
    "threshold: '5s'}]},"
    " B: {imports: [{stream: {account: A, subject: 'a.*'}, prefix: 'from'}, {service: {account: A, "
    "subject: r}, to: q}]} }",
    "accounts { A: {exports: [{service: 'r.*'}]}, B: {imports: [{service: {account: A, subject: "
    "'r.*'}, to: 'q.$1'}]} }",
    "accounts { A: {msg_trace: 'told.all'}, B: {trace_dest: {dest: a, sampling: '25%'}}, "
    "C: {msg_trace: {dest: a, sampling: 1}} }",
    "accounts { A: {exports: [{service: r, allow_trace: true}, {stream: s}]}, "
    "B: {imports: [{stream: {account: A, subject: s}, allow_trace: yes}]} }",
    "mappings { foo: bar, 'a.*': [{destination: 'b.$1', weight: 40%}, {dest: 'c.{{wildcard(1)}}', "
    "weight: 50}] }",
    "no_auth_user: a\nauthorization { users: [{user: a}] }",
    "jetstream: enabled\nstore_dir: /nowhere",
    "jetstream { store_dir: /nowhere, max_mem: '1G', max_file: 10GiB, sync_interval: always, "
    "domain: hub, strict: false }",
    "jetstream { limits { max_ack_pending: 10, duplicate_window: '1m', default_max_consumers: 5, "
    "batch { max_msgs: 5, timeout: '1s' } } }",
    "websocket { port: 8080, no_tls: true, compression: true, allowed_origins: ['http://a.b:80'], "
    "headers: {X-A: b} }",
    "websocket { listen: '127.0.0.1:-1', no_tls: true, authorization: {token: x}, handshake_timeout: '1s' }",
    "http: '127.0.0.1:8222', http_base_path: '/nats'",
    "server_tags: [a, b]\nserver_metadata { region: eu }",
    "pid_file: /nowhere/x, ports_file_dir: /nowhere, log_file: /nowhere/l, log_size_limit: 10MB, "
    "log_max_num: 5, logtime: false",
    "port: 4222\n}",
    "port\n  4222 // where clients connect\n# the end",
    "feature_flags { anything: false }\nsyslog: false\nproxy_protocol: false",
    "feature_flags { js_ack_fc_v2: true, anything: true }",
    "feature_flags {}",
    "disable_sublist_cache: true, trace_headers: true",
    "no_sublist_cache: false",
    "jetstream { store_dir: /nowhere, max_concurrent_io: 4 }",
]

BOTH_REFUSE = [
    'operator: "eyJ.x.y"',
    "operator: /no/such/file",
    "resolver: NOWHERE",
    "resolver: 5",
    "resolver { type: full }",
    'resolver { type: cache, dir: "/tmp", allow_delete: true }',
    'resolver_preload { A: "x" }',
    "resolver_preload: x",
    "trusted_keys: x",
    "trusted_keys: [5]",
    "",
    "prot: 4222",
    "port: '4222'",
    "port:\n 4222",
    "port: 4222 4223",
    "debug: maybe",
    "port: $NOT_SET_ANYWHERE",
    "port: [",
    "websocket { port: 80",
    "include 'gone.conf'",
    "server_name: 'a b'",
    "listen: here",
    "max_payload: 3GB",
    "max_sub_tokens: 0",
    "max_sub_tokens: 256",
    "ping_interval: 20",
    "ping_interval: 'soon'",
    "write_timeout: never",
    "lame_duck_duration: '10s'",
    "lame_duck_duration: 60",
    "authorization { user: a, password: b, token: c }",
    "authorization { user: a, users: [{user: b}] }",
    "authorization { token: a, users: [{user: b}] }",
    "authorization { users: [{user: a}, {user: a}] }",
    "authorization { users: [{password: a}] }",
    "authorization { users: [{nkey: UABC}] }",
    f"authorization {{ users: [{{nkey: {USER_KEY}, user: a}}] }}",
    "authorization { users: [{user: a, permissions: {pub: 'a..b'}}] }",
    "authorization { users: [{user: a, permissions: {pub: 'a q'}}] }",
    "authorization { users: [{user: a, allowed_connection_types: [PIGEON]}] }",
    "authorization { timeout: 2m }",
    "accounts { $G: {} }",
    "accounts: [a, a]",
    "accounts { A: {users: [{user: a}]}, B: {users: [{user: a}]} }",
    "accounts { A: {users: [{user: a}]} }\nauthorization { user: x, password: y }",
    "accounts { A: {imports: [{stream: {account: B, subject: x}}]}, B: {} }",
    "accounts { A: {imports: [{service: {account: C, subject: x}}]} }",
    "accounts { A: {msg_trace: 'told.*'} }",
    "accounts { A: {msg_trace: ''} }",
    "accounts { A: {msg_trace: 7} }",
    "accounts { A: {msg_trace: {dest: a, sampling: 0}} }",
    "accounts { A: {msg_trace: {dest: a, sampling: 101}} }",
    "accounts { A: {msg_trace: {dest: a, sampling: some}} }",
    "accounts { A: {msg_trace: {dest: a, zork: 1}} }",
    "accounts { A: {exports: [{stream: x, allow_trace: true}]} }",
    "accounts { A: {exports: [{service: x}]}, "
    "B: {imports: [{service: {account: A, subject: x}, allow_trace: true}]} }",
    "accounts { A: {exports: [{stream: x, accounts: [C]}]} }",
    "accounts { A: {exports: [{stream: x, response_type: stream}]} }",
    "accounts { A: {exports: [{stream: x, latency: y}]} }",
    "accounts { A: {exports: [{service: x, latency: {sampling: 50}}]} }",
    "accounts { A: {exports: [{service: x, latency: {sampling: 0, subject: y}}]} }",
    "accounts { A: {exports: [{service: x, latency: {sampling: '101%', subject: y}}]} }",
    "accounts { A: {exports: [{service: x, latency: {sampling: often, subject: y}}]} }",
    "accounts { A: {exports: [{service: x, latency: {sampling: true, subject: y}}]} }",
    "accounts { A: {exports: [{service: x, latency: {subject: 5}}]} }",
    "accounts { A: {exports: [{service: x, latency: [y]}]} }",
    "accounts { A: {exports: [{service: x, latency: y, response_type: stream}]} }",
    "accounts { A: {exports: [{service: 'a.b', account_token_position: 2}]} }",
    "accounts { A: {exports: [{service: q}], imports: [{service: {account: B, subject: q}}]},"
    " B: {exports: [{service: q}], imports: [{service: {account: A, subject: q}}]} }",
    "mappings { foo: 'bar.$1' }",
    "mappings { 'a.*': [{destination: 'b.$1', weight: 60%}, {destination: 'c.$1', weight: 60%}] }",
    "mappings { 'a.*': [{destination: 'b.$1'}] }",
    "jetstream: sometimes",
    "jetstream { max_mem: '1GB' }",
    "jetstream { store_dir: a }\nstore_dir: b",
    "jetstream { limits { foo: 1 } }",
    "websocket { foo: 1 }",
    "tls { cert_file: gone.pem, key_file: gone.pem }",
    "tls { cert_file: gone.pem }",
    "tls { cipher_suites: [NOT_ONE] }",
    "tls { min_version: '1.1' }",
    "server_metadata { a: 1 }",
    "feature_flags { js_ack_fc_v2: 1 }",
    "feature_flags: true",
    "jetstream { max_concurrent_io: 3 }",
    "jetstream { max_concurrent_io: 8193 }",
    "jetstream { max_concurrent_io: many }",
]

# Found by nats-server only when it starts, not by its check.
REFUSED_LATER_THERE = [
    "max_payload: 10MB, max_pending: 1MB",
    "no_auth_user: nobody",
    "lame_duck_duration: '30s', lame_duck_grace_period: '30s'",
    "websocket { port: 8080 }",
    "websocket { port: 8080, no_tls: true, headers: {Upgrade: x} }",
    "system_account: NOBODY",
    "http_port: 8222, https_port: 8223",
    "jetstream { domain: 'a.b' }",
]

# Features we do not have.
UNSUPPORTED_HERE = [
    "cluster { port: -1 }",
    "mqtt { port: 1883 }",
    "jetstream { key: secret }",
    "syslog: true",
    "prof_port: 6060",
]

# Mistakes that nats-server does not notice.
STRICTER_HERE = [
    'leafnodes { remotes: [ { url: "ws://h:1", proxy { url: "https://proxy:443" } } ] }',
    "{ port: 4222\n",
    "tls {}",
    "port: 70000",
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PORT", "4222")
    monkeypatch.setenv("SOME_NAME", "a")
    return tmp_path / "test.conf"


def check(path: Path) -> subprocess.CompletedProcess[str]:
    """Let nats-server check a file, and return the finished process."""
    return subprocess.run(
        [*command_for(ServerKind.NATS_SERVER), "-t", "-c", str(path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def accepted_here(path: Path) -> bool:
    try:
        return not load_file(path).warnings
    except ConfigError:
        return False


@pytest.mark.parametrize(
    ("text", "here", "there"),
    [
        *((text, True, True) for text in BOTH_ACCEPT),
        *((text, False, False) for text in BOTH_REFUSE),
        *((text, False, True) for text in REFUSED_LATER_THERE + UNSUPPORTED_HERE + STRICTER_HERE),
    ],
)
def test_a_file_is_judged_as_by_nats_server(
    server_kind: ServerKind, text: str, here: bool, there: bool, path: Path
) -> None:
    path.write_text(text)
    if server_kind is ServerKind.MILLSTREAM:
        assert accepted_here(path) == here
    else:
        assert (check(path).returncode == 0) == there


@pytest.mark.parametrize("text", BOTH_ACCEPT)
def test_the_digest_is_the_one_nats_server_prints(
    request: pytest.FixtureRequest, server_kind: ServerKind, text: str, path: Path
) -> None:
    path.write_text(text)
    if server_kind is ServerKind.MILLSTREAM:
        digest = load_file(path).options.config_digest
    else:
        found = re.search(r"sha256:[0-9a-f]{64}", check(path).stderr)
        assert found is not None
        digest = found[0]
    Book(GOLDEN / "config" / "digests.txt").compare(request.node, repr(text), [digest])
