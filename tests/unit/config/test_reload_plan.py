"""Changes of the configuration that a running server can take over."""

from typing import Any

import pytest
from msgspec.structs import replace

from millstream.broker.options import AccountOptions, TlsOptions, User, WebSocketOptions
from millstream.config import ConfigError, ServerOptions
from millstream.config.reload import Area, plan_reload
from millstream.jetstream.options import AccountJetStreamOptions

TLS = TlsOptions(cert_file="c", key_file="k")
OLD = ServerOptions()


def changed(options: ServerOptions, **parts: dict[str, Any]) -> ServerOptions:
    """The options with some fields of some parts set; `authorization` and `websocket` are the broker's."""
    for part, values in parts.items():
        if part in ("authorization", "websocket"):
            inner = replace(getattr(options.broker, part), **values)
            part, values = "broker", {part: inner}
        options = replace(options, **{part: replace(getattr(options, part), **values)})
    return options


@pytest.mark.parametrize(
    ("parts", "area"),
    [
        ({"broker": {"max_payload": 5}}, Area.LIMITS),
        ({"broker": {"max_control_line": 5}}, Area.LIMITS),
        ({"broker": {"max_connections": 5}}, Area.LIMITS),
        ({"broker": {"ping_interval_s": 5.0}}, Area.LIMITS),
        ({"broker": {"ping_max": 5}}, Area.LIMITS),
        ({"broker": {"write_deadline_s": 5.0}}, Area.LIMITS),
        ({"broker": {"no_fast_producer_stall": True}}, Area.LIMITS),
        ({"broker": {"trace": True}}, Area.TRACE),
        ({"broker": {"client_advertise": "a:1"}}, Area.IDENTITY),
        ({"broker": {"server_tags": ("a",)}}, Area.IDENTITY),
        ({"broker": {"accounts": (AccountOptions(name="A"),)}}, Area.ACCOUNTS),
        ({"authorization": {"token": "t"}}, Area.AUTHORIZATION),
        ({"authorization": {"users": (User(name="a"),)}}, Area.AUTHORIZATION),
        ({"authorization": {"timeout_s": 1.0}}, Area.AUTHORIZATION),
        ({"broker": {"tls": TLS}}, Area.TLS),
        ({"log": {"file": "x"}}, Area.LOG),
        ({"log": {"debug": True}}, Area.LOG),
        ({"process": {"pid_file": "x"}}, Area.PROCESS),
        ({"jetstream": {"enabled": True, "store_dir": "/x", "domain": "d"}}, Area.JETSTREAM),
        ({"jetstream": {"accounts": {"A": AccountJetStreamOptions()}}}, Area.JETSTREAM),
    ],
)
def test_what_can_change_while_clients_stay(parts: dict[str, Any], area: Area) -> None:
    new = changed(OLD, **parts)
    plan = plan_reload(OLD, new)
    assert plan.areas == {area}
    assert plan.options == new


def test_a_change_is_told_with_its_values() -> None:
    plan = plan_reload(OLD, changed(OLD, broker={"max_payload": 5}, log={"debug": True}))
    assert [(change.name, change.old, change.new) for change in plan.changes] == [
        ("broker.max_payload", 1048576, 5),
        ("log.debug", False, True),
    ]


def test_equal_options_need_nothing() -> None:
    assert plan_reload(OLD, OLD).changes == ()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"broker": {"port": 5}}, "port: old=4222, new=5"),
        ({"broker": {"host": "h"}}, "host: old=0.0.0.0, new=h"),
        ({"broker": {"server_name": "n"}}, "server_name: old=, new=n"),
        ({"broker": {"max_pending": 5}}, "max_pending: old=67108864, new=5"),
        ({"broker": {"max_subscriptions": 5}}, "max_subscriptions: old=0, new=5"),
        ({"broker": {"lame_duck_duration_s": 40.0}}, "lame_duck_duration: old=120.0, new=40.0"),
        ({"broker": {"system_account": "S"}}, "system_account: old=$SYS, new=S"),
        ({"broker": {"headers": False}}, "headers: old=True, new=False"),
        ({"broker": {"websocket": WebSocketOptions(password="secret")}}, "websocket"),
        ({"broker": {"tls": replace(TLS, verify_and_map=True)}}, "tls.verify_and_map"),
        ({"monitor": {"http_port": 5}}, "http_port: old=None, new=5"),
        ({"log": {"size_limit": 5}}, "size_limit: old=0, new=5"),
    ],
)
def test_what_needs_a_restart_is_refused_by_name(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_reload(OLD, changed(OLD, **parts))
    assert str(caught.value) == f"config reload not supported for {reason}"


def test_all_that_needs_a_restart_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        plan_reload(OLD, changed(OLD, broker={"port": 5, "host": "h"}))
    assert len(caught.value.problems) == 2


def test_any_port_is_satisfied_by_the_one_in_use() -> None:
    plan = plan_reload(OLD, changed(OLD, broker={"port": -1}))
    assert plan.changes == ()
    assert plan.options.broker.port == 4222


def test_of_a_websocket_only_the_certificate_may_change() -> None:
    old = changed(OLD, broker={"websocket": WebSocketOptions(tls=TLS)})
    new = changed(old, websocket={"tls": replace(TLS, cert_file="other")})
    assert plan_reload(old, new).areas == {Area.TLS}
    with pytest.raises(ConfigError, match=r"websocket\.compression"):
        plan_reload(old, changed(old, websocket={"compression": True}))


def test_the_user_of_those_without_credentials_may_only_go_together_with_its_account() -> None:
    users = (User(name="a"), User(name="b"))
    old = changed(OLD, authorization={"users": users, "no_auth_user": "a"})
    assert plan_reload(old, changed(old, authorization={"users": users[1:], "no_auth_user": ""})).changes
    for kept in ({"no_auth_user": ""}, {"no_auth_user": "b"}):
        with pytest.raises(ConfigError, match="no_auth_user"):
            plan_reload(old, changed(old, authorization=kept))


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"max_file": 10}, {"max_file": 20}, None),
        ({"max_file": 10}, {"max_file": 5}, "decreasing jetstream max memory and store"),
        ({"max_memory": None}, {"max_memory": 5}, "jetstream dynamic max memory and store"),
        ({"max_memory": 5}, {"max_memory": None}, "jetstream dynamic max memory and store"),
        ({"max_memory": 5}, {"max_memory": None, "enabled": False}, None),
        ({"store_dir": "/a"}, {"store_dir": "/b"}, "jetstream storage directory"),
        ({"store_dir": "/a"}, {"store_dir": "", "enabled": False}, None),
        ({"domain": ""}, {"domain": "d"}, "jetstream.domain: old=, new=d"),
        ({"sync_interval_s": None}, {"sync_interval_s": 1.0}, "jetstream.sync_interval_s: old=None, new=1.0"),
    ],
)
def test_a_running_jetstream_can_grow_or_stop_but_not_move(
    before: dict[str, Any], after: dict[str, Any], reason: str | None
) -> None:
    old = changed(OLD, jetstream={"enabled": True, **before})
    new = changed(old, jetstream=after)
    if reason is None:
        assert plan_reload(old, new).areas == {Area.JETSTREAM}
        return
    with pytest.raises(ConfigError) as caught:
        plan_reload(old, new)
    assert str(caught.value) == f"config reload not supported for {reason}"
