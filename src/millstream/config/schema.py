"""The top-level keys of a configuration file and the setting that each one fills.

The table lists what Millstream understands.  It also lists the keys of nats-server that Millstream does not
support, so that they are refused with a reason and not as a spelling mistake.
"""

from typing import Any

from millstream.config.accounts import read_accounts, read_mappings
from millstream.config.errors import Notes
from millstream.config.fields import (
    Reader,
    between,
    block,
    boolean,
    choice,
    duration,
    duration_text,
    field,
    integer,
    listen,
    port,
    positive,
    read_block,
    refused,
    secret,
    string,
    strings,
    unsupported,
)
from millstream.config.jetstream import read_jetstream
from millstream.config.millstream import read_millstream
from millstream.config.settings import FoundSettings
from millstream.config.tls import read_tls
from millstream.config.tree import Block, TreeEntry
from millstream.config.users import read_authorization
from millstream.config.websocket import read_websocket

_INT32_MAX = 2**31 - 1
_SHORTEST_LAME_DUCK_S = 30
_CLUSTER = unsupported("clustering; Millstream is a single server")
_PROFILING = unsupported("Go profiling", harmless=(0,))


def read_settings(root: Block, notes: Notes) -> FoundSettings:
    return read_block(root, TOP_LEVEL, notes)


def _operator(name: str) -> Reader:
    """Return a reader of operator mode, whose module is imported when a file needs it."""

    def read(entry: TreeEntry, notes: Notes) -> Any:
        from millstream.config import operator

        return getattr(operator, f"read_{name}")(entry, notes)

    return read


def _read_server_name(entry: TreeEntry, notes: Notes) -> str:
    name = string(entry, notes)
    if " " in name:
        raise refused(entry, "a server name cannot contain spaces")
    return name


def _read_trace_verbose(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    verbose = boolean(entry, notes)
    return {"trace_verbose": verbose, "trace": verbose}


def _read_max_connections(entry: TreeEntry, notes: Notes) -> int:
    # Zero in a file means that no client may connect.
    return integer(entry, notes) or -1


def _read_lame_duck(entry: TreeEntry, notes: Notes) -> float:
    length = duration_text(entry, notes)
    if length < _SHORTEST_LAME_DUCK_S:
        raise refused(entry, f"{entry.value.data} is too short, the minimum is 30 seconds")
    return length


def _read_tags(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
    # Tags are unique and lower case.
    return tuple(dict.fromkeys(tag.strip().lower() for tag in strings(entry, notes)))


def _read_metadata(entry: TreeEntry, notes: Notes) -> dict[str, str]:
    return {item.key: string(item, notes) for item in block(entry).values()}


def _read_trace_headers(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    only = boolean(entry, notes)
    return {"trace_headers": only, "trace": only}


def _read_feature_flags(entry: TreeEntry, notes: Notes) -> dict[str, bool]:
    return {flag.key: boolean(flag, notes) for flag in block(entry).values()}


def _leaf(name: str) -> Reader:
    """Return a reader of leaf links, whose module is imported when a file needs it."""

    def read(entry: TreeEntry, notes: Notes) -> Any:
        from millstream.config import leaf

        return getattr(leaf, f"read_{name}")(entry, notes)

    return read


def _read_nothing(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    """Check a switch that has no effect here."""
    boolean(entry, notes)
    return {}


TOP_LEVEL = (
    # Addresses and names.
    field("listen", listen()),
    field("host net", string, "host"),
    field("port", port, "port"),
    field("server_name", _read_server_name, "server_name"),
    field("client_advertise", string, "client_advertise"),
    field("server_tags", _read_tags, "server_tags"),
    field("server_metadata", _read_metadata, "server_metadata"),
    field("tls", read_tls, "tls"),
    field("allow_non_tls", boolean, "allow_non_tls"),
    field("websocket ws", read_websocket, "websocket"),
    field("leafnodes leaf", _leaf("leaf"), "leaf"),
    # Monitoring.
    field("http", listen(host="http_host", port="http_port")),
    field("https", listen(host="http_host", port="https_port")),
    field("http_port monitor_port", port, "http_port"),
    field("https_port", port, "https_port"),
    field("http_base_path", string, "http_base_path"),
    # Limits for clients.
    field("proxy_protocol", boolean, "proxy_protocol"),
    field("max_control_line", between(0, _INT32_MAX), "max_control_line"),
    field("max_payload", between(0, _INT32_MAX), "max_payload"),
    field("max_pending", between(0), "max_pending"),
    field("max_connections max_conn", _read_max_connections, "max_connections"),
    field("max_subscriptions max_subs", integer, "max_subscriptions"),
    field("max_sub_tokens max_subscription_tokens", between(1, 255), "max_subject_tokens"),
    field("max_closed_clients", between(0), "max_closed_clients"),
    field("ping_interval", positive(duration), "ping_interval_s"),
    field("ping_max", between(0), "ping_max"),
    field("write_deadline", positive(duration), "write_deadline_s"),
    field(
        "write_timeout",
        choice({"default": False, "close": False, "retry": True}),
        "write_timeout_retry",
    ),
    field("no_fast_producer_stall", boolean, "no_fast_producer_stall"),
    field("no_header_support", boolean, "no_headers"),
    field("lame_duck_duration", _read_lame_duck, "lame_duck_duration_s"),
    field("lame_duck_grace_period", positive(duration_text), "lame_duck_grace_period_s"),
    # Users and accounts.
    field("authorization", read_authorization, "authorization"),
    field("accounts", read_accounts, "accounts"),
    field("mappings maps", read_mappings, "mappings"),
    field("no_auth_user", string, "no_auth_user"),
    field("system_account system", string, "system_account"),
    field("no_system_account no_system no_sys_acc", boolean, "no_system_account"),
    # Operator mode.
    field("operator operators roots root root_operators root_operator", _operator("operators"), "operators"),
    field("resolver account_resolver accounts_resolver", _operator("resolver"), "resolver"),
    field("resolver_tls", _operator("resolver_tls")),
    field("resolver_preload", _operator("preload"), "preload"),
    field("resolver_pinned_accounts", strings, "pinned_accounts"),
    field("trusted_keys trusted", _operator("trusted_keys"), "trusted_keys"),
    field("default_sentinel", secret, "default_sentinel"),
    # JetStream.
    field("jetstream", read_jetstream),
    field("store_dir storedir", string, "store_dir"),
    # Settings that nats-server does not have.
    field("millstream", read_millstream),
    # Log and process.
    field("debug", boolean, "debug"),
    field("trace", boolean, "trace"),
    field("trace_verbose", _read_trace_verbose),
    field("trace_headers", _read_trace_headers),
    field("max_traced_msg_len", between(0), "max_traced_message"),
    field("logtime", boolean, "log_time"),
    field("logtime_utc", boolean, "log_utc"),
    field("log_file logfile", string, "log_file"),
    field("log_size_limit logfile_size_limit", between(0), "log_size_limit"),
    field("log_max_num logfile_max_num", between(0), "log_max_files"),
    field("pid_file pidfile", string, "pid_file"),
    field("ports_file_dir", string, "ports_file_dir"),
    field("feature_flags", _read_feature_flags, "feature_flags"),
    field("disable_sublist_cache no_sublist_cache", _read_nothing),
    # Settings of nats-server, refused unless the value changes nothing.
    field("syslog", unsupported("syslog; log to a file or to standard error", harmless=(False,))),
    field("remote_syslog", unsupported("syslog; log to a file or to standard error", harmless=("",))),
    field("proxies", unsupported("proxies in front of clients")),
    field("default_js_domain", _leaf("js_domains"), "default_js_domains"),
    field("mqtt", unsupported("MQTT")),
    field("cluster", _CLUSTER),
    field("gateway", _CLUSTER),
    field("connect_error_reports", _CLUSTER),
    field("reconnect_error_reports", _CLUSTER),
    field("ocsp", unsupported("OCSP", harmless=(False,))),
    field("ocsp_cache", unsupported("OCSP", harmless=(False,))),
    field("prof_port", _PROFILING),
    field("prof_block_rate", _PROFILING),
)
