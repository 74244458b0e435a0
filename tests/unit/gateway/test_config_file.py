"""Settings out of httpmq's file and the command line."""

from pathlib import Path

import pytest

from millstream.gateway.config_file import ConfigFileError, Flags, load_settings
from millstream.gateway.settings import BOTH_GROUPS, LINK_DEFAULTS, Group, Limits, Listener
from millstream.link.layers import Layer
from millstream.link.options import parse_servers

FULL = """
nats:
  server_uri: nats://a:4222,nats://b:4222
  connect_timeout_sec: 7
  reconnect: {max_attempts: 3, wait_interval_sec: 9}
management:
  endpoint_config: {path_prefix: /mq}
  api_server:
    server_config:
      {listen_on: 1.2.3.4, listen_port: 1, read_timeout_sec: 2, write_timeout_sec: 3, idle_timeout_sec: 4}
    logging_config: {request_id_header: X-Id, do_not_log_headers: [X-Secret]}
dataplane:
  api_server: {server_config: {listen_port: 5}}
gateway:
  limits: {rate: 10}
  relaxed_names: true
"""


def test_without_a_file_one_port_serves_both_groups() -> None:
    assert load_settings(None).listeners == (Listener("127.0.0.1", 3000, BOTH_GROUPS),)


@pytest.mark.parametrize(
    ("flags", "listener"),
    [
        (Flags(management=True), Listener("127.0.0.1", 3000, frozenset([Group.MANAGEMENT]))),
        (Flags(dataplane=True), Listener("127.0.0.1", 3001, frozenset([Group.DATAPLANE]))),
        (Flags(management=True, dataplane=True), Listener("127.0.0.1", 3000, BOTH_GROUPS)),
        (Flags(host="::1", port=7), Listener("::1", 7, BOTH_GROUPS)),
    ],
)
def test_flags_choose_groups_and_address(flags: Flags, listener: Listener) -> None:
    assert load_settings(None, flags).listeners == (listener,)


def test_every_key_of_httpmq_means_something(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FULL)
    settings = load_settings(path)
    assert str(settings.nats.link) == "nats://a:4222, nats://b:4222"
    nats = settings.nats
    assert (nats.link.connect_timeout_s, nats.reconnect_attempts, nats.reconnect_wait_s) == (7, 3, 9)
    assert settings.listeners == (
        Listener("1.2.3.4", 1, BOTH_GROUPS, "/mq"),
        Listener("127.0.0.1", 5, BOTH_GROUPS, "/"),
    )
    assert settings.limits == Limits(
        rate=10, head_timeout_s=2, body_timeout_s=2, write_timeout_s=3, idle_timeout_s=4
    )
    assert settings.request_id_header == "X-Id"
    assert settings.logging.do_not_log_headers == ("X-Secret",)
    assert settings.relaxed_names


def test_one_group_takes_its_own_section_only(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FULL)
    settings = load_settings(path, Flags(dataplane=True))
    assert settings.listeners == (Listener("127.0.0.1", 5, frozenset([Group.DATAPLANE]), "/"),)
    assert settings.request_id_header == "Httpmq-Request-ID"


@pytest.mark.parametrize("text", ["", "nats:", "management:\n  api_server:", "gateway: {}"])
def test_partial_files_leave_the_defaults(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    assert load_settings(path) == load_settings(None)


@pytest.mark.parametrize(
    "text", ["[]", "nats: 5", "unknown: {}", "gateway: {limits: {unknown: 1}}", "a: b: c"]
)
def test_what_is_not_understood_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(ConfigFileError):
        load_settings(path)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(FULL)
    flags = Flags(link=Layer({"servers": parse_servers("c")}), log_level="debug", json_log=True)
    settings = load_settings(path, flags, {"NATS_URL": "d", "NATS_USER": "u"})
    assert (str(settings.nats.link), settings.nats.link.user) == ("nats://c:4222", "u")
    assert (settings.logging.level, settings.logging.json) == ("debug", True)


def test_the_file_is_weaker_than_the_environment_and_stronger_than_a_context(tmp_path: Path) -> None:
    folder = tmp_path / "nats" / "context"
    folder.mkdir(parents=True)
    (folder / "ours.json").write_text('{"url": "nats://c", "token": "t", "inbox_prefix": "_C"}')
    path = tmp_path / "file.yaml"
    path.write_text("nats: {context: ours, servers: [a, b], creds: f, inbox_prefix: _F}")
    link = load_settings(path, None, {"XDG_CONFIG_HOME": str(tmp_path), "NATS_URL": "e, f"}).nats.link
    assert str(link) == "nats://e:4222, nats://f:4222"
    assert (link.creds_file, link.token, link.inbox_prefix) == ("f", "", "_F")
    assert (link.connect_timeout_s, link.request_timeout_s) == tuple(LINK_DEFAULTS.values())


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ("{user: a, token: b}", r'nats: give one way to log in, not key "user" and key "token"'),
        ("{server_uri: 'ws://h'}", r"nats: .* begins with nats:// or tls://"),
        ("{password: x}", 'nats: key "password" needs a user'),
        ("{context: none}", 'nats: there is no NATS context "none"'),
    ],
)
def test_a_connection_that_can_not_be_is_told_with_the_file(
    tmp_path: Path, section: str, complaint: str
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(f"nats: {section}")
    with pytest.raises(ConfigFileError, match=rf"file\.yaml: {complaint}"):
        load_settings(path, None, {"XDG_CONFIG_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("cors", "complaint"),
    [
        ('{origins: ["*"], credentials: true}', "credentials go with named origins only"),
        (
            '{origins: ["https://a.example", "*"], credentials: true}',
            "credentials go with named origins only",
        ),
        ('{origins: ["app.example"]}', "is no origin"),
        ('{origins: ["https://app.example/path"]}', "is no origin"),
        ('{origins: ["https://user@app.example"]}', "is no origin"),
    ],
)
def test_origins_that_open_the_gateway_to_everybody_or_are_none_are_refused(
    tmp_path: Path, cors: str, complaint: str
) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"gateway: {{cors: {cors}}}")
    with pytest.raises(ConfigFileError, match=complaint):
        load_settings(file)


def test_names_and_the_upgrade_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("gateway: {hosts: [mq.example], h2c_upgrade: true}")
    settings = load_settings(file)
    assert (settings.hosts, settings.h2c_upgrade) == (("mq.example",), True)
