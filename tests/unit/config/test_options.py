"""Effects of each key of a file, and of each flag, on the options."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from millstream.broker.options import (
    AccountOptions,
    AccountQuota,
    Authorization,
    BrokerOptions,
    ConnectionType,
    Export,
    ExportKind,
    Import,
    MapDestination,
    Permissions,
    ResponseRule,
    ResponseType,
    SubjectMapping,
    SubjectRules,
    TlsOptions,
    User,
    WebSocketOptions,
)
from millstream.config import (
    ConfigError,
    LoadedConfig,
    LogOptions,
    MonitorOptions,
    Overrides,
    ProcessOptions,
    ServerOptions,
    load,
    load_again,
    read_config,
)
from millstream.config.schema import TOP_LEVEL
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamLimits, JetStreamOptions
from tests.kits.certs import CertificateAuthority

USER_KEY = "UCK5N7N66OBOINFXAYC2ACJQYFSOD4VYNU6APEJTAVFZB2SVHLKGEW7L"


@pytest.fixture
def loaded(tmp_path: Path) -> "Loader":
    return Loader(tmp_path)


class Loader:
    """Reads configuration text, through a file as users do."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "test.conf"

    def __call__(self, text: str, overrides: Overrides | None = None) -> LoadedConfig:
        self.path.write_text(text)
        return read_config(self.path, overrides, environment={})

    def broker(self, text: str, overrides: Overrides | None = None) -> BrokerOptions:
        return self(text, overrides).options.broker

    def users(self, text: str) -> tuple[User, ...]:
        return self.broker(text).authorization.users


def test_no_key_is_listed_twice() -> None:
    names = [name for field in TOP_LEVEL for name in field.names]
    assert len(names) == len(set(names))


def test_without_a_file_everything_is_as_by_default() -> None:
    expected = ServerOptions(jetstream=JetStreamOptions(accounts={"$G": AccountJetStreamOptions()}))
    assert load() == expected


def test_the_keys_of_the_broker_reach_its_options(loaded: Loader) -> None:
    broker = loaded.broker("""
        listen: 127.0.0.1:4333, server_name: one, client_advertise: "example.org:4222"
        max_control_line: 2KB, max_payload: 10KB, max_pending: 20KB, max_connections: 5, max_subs: 6
        max_sub_tokens: 7, max_closed_clients: 8, max_traced_msg_len: 9
        ping_interval: "30s", ping_max: 3, write_deadline: "1.5s", write_timeout: retry
        no_fast_producer_stall: true, no_header_support: true
        lame_duck_duration: "1m", lame_duck_grace_period: "500ms"
        trace_verbose: true, server_tags: [EU, eu, " Blue "], server_metadata { Rack: "7" }
        no_system_account: true
        mappings { a: b, "c.*": [{dest: "d.$1", weight: "30%"}], e: {destination: f, weight: 100} }
    """)
    assert broker == BrokerOptions(
        host="127.0.0.1",
        port=4333,
        server_name="one",
        client_advertise="example.org:4222",
        max_control_line=2048,
        max_payload=10240,
        max_pending=20480,
        max_connections=5,
        max_subscriptions=6,
        max_subject_tokens=7,
        max_closed_clients=8,
        max_traced_message=9,
        ping_interval_s=30.0,
        ping_max=3,
        write_deadline_s=1.5,
        write_timeout_retry=True,
        no_fast_producer_stall=True,
        headers=False,
        lame_duck_duration_s=60.0,
        lame_duck_grace_period_s=0.5,
        trace=True,
        trace_verbose=True,
        server_tags=("eu", "blue"),
        server_metadata={"Rack": "7"},
        system_account="",
        mappings=(
            SubjectMapping(source="a", destinations=(MapDestination(subject="b"),)),
            SubjectMapping(source="c.*", destinations=(MapDestination(subject="d.$1", weight=30),)),
            SubjectMapping(source="e", destinations=(MapDestination(subject="f", weight=100),)),
        ),
    )


def test_zero_stands_for_the_default(loaded: Loader) -> None:
    text = (
        "port: 0, max_payload: 0, max_pending: 0, max_control_line: 0, ping_max: 0, max_closed_clients: 0\n"
    )
    assert loaded.broker(text + "ping_interval: '0s', write_deadline: '0', host: ''") == BrokerOptions()


def test_zero_connections_means_that_nobody_may_connect(loaded: Loader) -> None:
    assert loaded.broker("max_connections: 0").max_connections == -1


def test_keys_have_no_case_and_the_later_wins(loaded: Loader) -> None:
    assert loaded.broker("PORT: 1\nport: 2\nPort: 3\nlisten: 'h:4'").port == 4
    assert loaded.broker("listen: 'h:4'\nPort: 3\nport: 2\nPORT: 1\nPort: 3").port == 3


def test_a_bare_integer_for_a_duration_means_seconds_and_is_warned_of(loaded: Loader) -> None:
    config = loaded("port: 4222\nping_interval: 20")
    assert config.options.broker.ping_interval_s == 20.0
    assert [str(warning) for warning in config.warnings] == [
        f'{loaded.path}:2:1: invalid use of field "ping_interval": '
        "ping_interval should be converted to a duration"
    ]


def test_an_empty_file_is_warned_of(loaded: Loader) -> None:
    assert [str(warning) for warning in loaded("# nothing").warnings] == [
        f"{loaded.path}: config has no values or is empty"
    ]


def test_single_credentials(loaded: Loader) -> None:
    assert loaded.broker("authorization {user: a, pass: b, timeout: 3}").authorization == Authorization(
        username="a", password="b", timeout_s=3.0
    )
    assert loaded.broker("authorization {token: t}").authorization == Authorization(token="t")


def test_users_and_their_permissions(loaded: Loader) -> None:
    users = loaded.users(f"""
        PERMS: {{ publish: ["a", "b.>"], subscribe: {{ allow: "c.* q", deny: [d] }} }}
        authorization {{
          default_permissions: {{ pub: x }}
          users: [
            {{ user: one, password: p, permissions: $PERMS, allowed_connection_types: [standard, WebSocket] }}
            {{ nkey: {USER_KEY} }}
            {{ user: three, permissions: {{ publish: {{}}, sub: [] }} }}
          ]
        }}
    """)
    assert users == (
        User(
            name="one",
            password="p",
            permissions=Permissions(
                publish=SubjectRules(allow=("a", "b.>")),
                subscribe=SubjectRules(allow=("c.* q",), deny=("d",)),
            ),
            connection_types=frozenset({ConnectionType.STANDARD, ConnectionType.WEBSOCKET}),
        ),
        User(nkey=USER_KEY, permissions=Permissions(publish=SubjectRules(allow=("x",)))),
        User(name="three", permissions=Permissions()),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", ResponseRule()),
        ("false", None),
        ("{}", ResponseRule()),
        ("{max: 0, expires: '0s'}", ResponseRule()),
        ("{max: 5, expires: '1m'}", ResponseRule(max_messages=5, expires_s=60.0)),
        ("{max_msgs: -1, ttl: '-1s'}", ResponseRule(max_messages=-1, expires_s=-1.0)),
    ],
)
def test_permission_to_respond(loaded: Loader, text: str, expected: ResponseRule | None) -> None:
    users = loaded.users(
        f"authorization {{ users: [{{user: a, permissions: {{allow_responses: {text}}}}}] }}"
    )
    assert users[0].permissions is not None
    assert users[0].permissions.allow_responses == expected
    # Who may respond may publish nothing else, unless told.
    assert users[0].permissions.publish.allow == (() if expected else None)


def test_accounts(loaded: Loader) -> None:
    config = loaded("""
        jetstream: enabled
        accounts {
          A {
            users: [{user: a, password: p}]
            default_permissions: { publish: "x" }
            jetstream { max_mem: 1MB, max_file: 2MB, max_streams: 3, max_consumers: 4, max_ack_pending: 5,
                        max_bytes_required: true, mem_max_stream_bytes: 6, disk_max_stream_bytes: 7 }
            limits { max_conn: 1, max_subs: 2, max_payload: 3 }
            exports: [
              { stream: "s.>", accounts: [B] }
              { service: "r.*", response_type: Chunked, threshold: "5s", account_token_position: 2 }
            ]
            mappings { m: n }
          }
          B {
            jetstream: disabled
            imports: [
              { stream: {account: A, subject: "s.x"}, prefix: from.a }
              { service: {account: A, subject: "r.B"}, to: "ask", share: true }
            ]
          }
          $SYS { users: [{user: admin, password: p}] }
        }
    """)
    broker = config.options.broker
    assert broker.accounts == (
        AccountOptions(
            name="A",
            limits=AccountQuota(max_connections=1, max_subscriptions=2, max_payload=3),
            exports=(
                Export(kind=ExportKind.STREAM, subject="s.>", accounts=("B",)),
                Export(
                    kind=ExportKind.SERVICE,
                    subject="r.*",
                    response_type=ResponseType.CHUNKED,
                    response_threshold_s=5.0,
                    account_token_position=2,
                ),
            ),
            mappings=(SubjectMapping(source="m", destinations=(MapDestination(subject="n"),)),),
        ),
        AccountOptions(
            name="B",
            imports=(
                Import(kind=ExportKind.STREAM, account="A", subject="s.x", prefix="from.a"),
                Import(kind=ExportKind.SERVICE, account="A", subject="r.B", to="ask", share=True),
            ),
        ),
        AccountOptions(name="$SYS"),
    )
    assert broker.authorization.users == (
        User(
            name="a",
            password="p",
            account="A",
            permissions=Permissions(publish=SubjectRules(allow=("x",))),
        ),
        User(name="admin", password="p", account="$SYS"),
    )
    assert config.options.jetstream.accounts == {
        "A": AccountJetStreamOptions(
            max_memory=1 << 20,
            max_store=2 << 20,
            max_streams=3,
            max_consumers=4,
            max_ack_pending=5,
            max_bytes_required=True,
            memory_max_stream_bytes=6,
            store_max_stream_bytes=7,
        )
    }


def test_users_of_the_system_account_alone_leave_the_global_account_open(loaded: Loader) -> None:
    text = "accounts { SYS { users: [{user: admin, password: p}] } }, system_account: SYS, jetstream: true"
    options = loaded(text).options
    authorization = options.broker.authorization
    anonymous = next(user for user in authorization.users if user.name == authorization.no_auth_user)
    assert anonymous.account == "$G"
    assert options.broker.system_account == "SYS"
    assert options.jetstream.accounts == {"$G": AccountJetStreamOptions()}
    assert loaded.broker(text + "\nauthorization {timeout: 1}").authorization.no_auth_user == ""


def test_jetstream_is_refused_on_the_system_account(loaded: Loader) -> None:
    with pytest.raises(ConfigError, match="cannot be enabled on the system account") as caught:
        loaded("jetstream: true\naccounts { $SYS: { jetstream: enabled } }")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", JetStreamOptions(enabled=True)),
        ("disabled", JetStreamOptions()),
        ("Enabled", JetStreamOptions(enabled=True)),
        ("{}", JetStreamOptions(enabled=True)),
        ("{enabled: false, domain: hub}", JetStreamOptions(domain="hub")),
        ("{max_mem: 1G}", JetStreamOptions(enabled=True, max_memory=10**9)),
        ('{max_mem: "1G"}', JetStreamOptions(enabled=True, max_memory=1 << 30)),
        ("{max_mem: -1, max_file: 0}", JetStreamOptions(enabled=True, max_file=0)),
        ("{sync_interval: always}", JetStreamOptions(enabled=True)),
        ("{sync: '10s'}", JetStreamOptions(enabled=True, sync_interval_s=10.0)),
        (
            "{strict: false, unique_tag: ' AZ: '}",
            JetStreamOptions(enabled=True, strict=False, unique_tag="az:"),
        ),
        (
            "{request_queue_limit: 7, max_buffered_msgs: 8, max_buffered_size: '1M', store_dir: /data}",
            JetStreamOptions(
                enabled=True,
                request_queue_limit=7,
                info_queue_limit=7,
                max_buffered_messages=8,
                max_buffered_size=1 << 20,
                store_dir="/data",
            ),
        ),
        (
            "{limits {max_ack_pending: 1, max_ha_assets: 2, max_request_batch: 3, duplicate_window: '4s',"
            " default_max_consumers: 5, batch {max_inflight_per_stream: 6, max_inflight_total: 7,"
            " max_msgs: 8, timeout: '9s'}}}",
            JetStreamOptions(
                enabled=True,
                limits=JetStreamLimits(
                    max_ack_pending=1,
                    max_ha_assets=2,
                    max_request_batch=3,
                    duplicate_window_s=4.0,
                    default_max_consumers=5,
                    batch_max_inflight_per_stream=6,
                    batch_max_inflight_total=7,
                    batch_max_messages=8,
                    batch_timeout_s=9.0,
                ),
            ),
        ),
    ],
)
def test_jetstream(loaded: Loader, text: str, expected: JetStreamOptions) -> None:
    expected = replace(expected, accounts={"$G": AccountJetStreamOptions()})
    assert loaded(f"jetstream: {text}").options.jetstream == expected


def test_tls_and_https_monitoring(loaded: Loader, tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    issued = authority.issue_for_loopback()
    files = (
        f'cert_file: "{issued.cert_file}", key_file: "{issued.key_file}", ca_file: "{authority.cert_file}"'
    )
    pin = "AB" * 32
    options = loaded(f"""
        tls {{ {files}, verify_and_map: true, timeout: 3, min_version: "1.3", insecure: true
               cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256], curve_preferences: [X25519]
               pinned_certs: ["{pin}"], connection_rate_limit: 5, handshake_first: auto }}
        allow_non_tls: true, https: "127.0.0.1:8443"
    """).options
    expected = TlsOptions(
        cert_file=str(issued.cert_file),
        key_file=str(issued.key_file),
        ca_file=str(authority.cert_file),
        verify=True,
        verify_and_map=True,
        timeout_s=3.0,
        min_version="1.3",
        cipher_suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",),
        curve_preferences=("X25519",),
        pinned_certs=frozenset({pin.lower()}),
        connection_rate_limit=5,
        handshake_first=True,
        handshake_first_fallback_s=0.05,
        allow_non_tls=True,
    )
    assert options.broker.tls == expected
    assert options.monitor == MonitorOptions(host="127.0.0.1", https_port=8443, tls=expected)
    one = loaded.broker(f"tls {{ certs: [{{{files.rpartition(',')[0]}}}], handshake_first: '300ms' }}").tls
    assert one == TlsOptions(
        cert_file=str(issued.cert_file),
        key_file=str(issued.key_file),
        handshake_first=True,
        handshake_first_fallback_s=0.3,
    )


def test_tls_flags_replace_the_files_of_the_configuration(loaded: Loader, tmp_path: Path) -> None:
    issued = CertificateAuthority(tmp_path).issue_for_loopback()
    text = f"tls {{ cert_file: '{issued.cert_file}', key_file: '{issued.key_file}', timeout: 5 }}"
    assert loaded.broker(text, Overrides(tls=False)).tls is None
    flags = Overrides(tls_verify=True, tls_cert=str(issued.cert_file), tls_key=str(issued.key_file))
    tls = loaded.broker(text, flags).tls
    assert tls is not None
    assert (tls.timeout_s, tls.verify) == (5.0, True)
    with pytest.raises(ConfigError, match="--tlskey"):
        loaded(text, Overrides(tls=True, tls_cert="x"))


def test_websocket(loaded: Loader) -> None:
    websocket = loaded.broker("""
        websocket {
          listen: "127.0.0.1:8080", no_tls: true, advertise: "ws.example.org:80", same_origin: true
          allowed_origins: ["http://a.example", "https://b.example:444"], compression: true
          handshake_timeout: "5s", authorization { user: u, pass: p, timeout: 4 }, ping_interval: "9s"
          user_cookie: a, pass_cookie: b, token_cookie: c, headers { X-One: "1" }
        }
    """).websocket
    assert websocket == WebSocketOptions(
        host="127.0.0.1",
        port=8080,
        advertise="ws.example.org:80",
        same_origin=True,
        allowed_origins=("http://a.example", "https://b.example:444"),
        compression=True,
        handshake_timeout_s=5.0,
        username="u",
        password="p",
        auth_timeout_s=4.0,
        ping_interval_s=9.0,
        user_cookie="a",
        password_cookie="b",
        token_cookie="c",
        headers=(("X-One", "1"),),
    )


def test_a_websocket_block_without_a_port_opens_nothing(loaded: Loader) -> None:
    assert loaded.broker("websocket { no_tls: true }").websocket is None


def test_monitoring_listens_where_clients_connect_unless_told(loaded: Loader) -> None:
    assert loaded(
        "host: 127.0.0.1, monitor_port: -1, http_base_path: 'a//b/'"
    ).options.monitor == MonitorOptions(host="127.0.0.1", http_port=-1, base_path="/a/b")
    assert loaded("host: 127.0.0.1, http: '10.0.0.1:8222'").options.monitor.host == "10.0.0.1"
    assert not loaded("port: 4222").options.monitor.enabled


def test_log_and_process(loaded: Loader) -> None:
    options = loaded("""
        debug: true, trace: true, logtime: false, logtime_utc: true
        log_file: /l, log_size_limit: 1k, log_max_num: 4, pid_file: /p, ports_file_dir: /d
    """).options
    assert options.log == LogOptions(
        file="/l", size_limit=1000, max_files=4, time=False, utc=True, debug=True, trace=True
    )
    assert options.process == ProcessOptions(pid_file="/p", ports_file_dir="/d")


def test_the_command_line_wins_over_the_file(loaded: Loader) -> None:
    flags = Overrides(
        host="127.0.0.1",
        port=5,
        server_name="flag",
        debug=False,
        trace=True,
        http_port=6,
        log_file="/flag",
        log_json=True,
        pid_file="/flag.pid",
        jetstream=True,
        store_dir="/flag",
        max_traced_message=7,
        token="t",
    )
    options = loaded(
        "port: 1, server_name: file, debug: true, http_port: 2, log_file: /file\n"
        "jetstream { store_dir: /file }",
        flags,
    ).options
    assert options.broker == BrokerOptions(
        host="127.0.0.1",
        port=5,
        server_name="flag",
        trace=True,
        max_traced_message=7,
        authorization=Authorization(token="t"),
    )
    assert options.log == LogOptions(file="/flag", trace=True, json=True)
    assert options.monitor == MonitorOptions(host="127.0.0.1", http_port=6)
    assert options.process.pid_file == "/flag.pid"
    assert (options.jetstream.enabled, options.jetstream.store_dir) == (True, "/flag")


def test_reading_again_applies_the_same_command_line(loaded: Loader) -> None:
    options = loaded("port: 1, ping_max: 3", Overrides(port=5)).options
    loaded.path.write_text("port: 2, ping_max: 4")
    again = load_again(options).options
    assert (again.broker.port, again.broker.ping_max) == (5, 4)
    assert again.config_digest != options.config_digest
