"""Combine settings from file and command line into options, and check the rules that span settings."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from millstream.arrow.options import LOOPBACK, ArrowOptions
from millstream.broker import feature_flags
from millstream.broker.options import (
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    Authorization,
    BrokerOptions,
    TlsOptions,
    User,
    WebSocketOptions,
)
from millstream.config.errors import ConfigError, Notes
from millstream.config.options import LogOptions, MonitorOptions, Overrides, ProcessOptions, ServerOptions
from millstream.config.settings import AuthorizationBlock, FoundSettings, split_host_port
from millstream.jetstream.consumer_subjects import SubjectForms
from millstream.jetstream.options import AccountJetStreamOptions, JetStreamLimits, JetStreamOptions

if TYPE_CHECKING:
    from millstream.config.accounts import AccountBlock

# Settings in which zero or an empty value means the default.
_ZERO_IS_DEFAULT: Final = (
    "host",
    "port",
    "max_control_line",
    "max_payload",
    "max_pending",
    "max_closed_clients",
    "ping_interval_s",
    "ping_max",
    "write_deadline_s",
    "lame_duck_grace_period_s",
)
_BROKER_FIELDS: Final = (
    *_ZERO_IS_DEFAULT,
    "server_name",
    "client_advertise",
    "server_tags",
    "server_metadata",
    "max_connections",
    "max_subscriptions",
    "max_subject_tokens",
    "max_traced_message",
    "write_timeout_retry",
    "no_fast_producer_stall",
    "proxy_protocol",
    "lame_duck_duration_s",
    "mappings",
    "default_js_domains",
    "trace",
    "trace_verbose",
    "trace_headers",
    "feature_flags",
)
_LOG_FIELDS: Final = ("file", "size_limit", "max_files", "time", "utc", "json")
_ARROW_FIELDS: Final = ("enabled", "host", "port", "advertise", "max_clients")
_PROCESS_FIELDS: Final = ("pid_file", "ports_file_dir")
# The user of clients without credentials when only the system account has users.
_ANONYMOUS: Final = "nats-anonymous"


def assemble(settings: FoundSettings, overrides: Overrides, notes: Notes) -> ServerOptions:
    """Build the server's options.  Contradictions between settings are added to `notes`, not raised."""
    _apply_overrides(settings, overrides, notes)
    for name in _ZERO_IS_DEFAULT:
        if not settings.get(name, True):
            del settings[name]
    blocks: tuple[AccountBlock, ...] = settings.get("accounts", ())
    if blocks:
        from millstream.config.account_sharing import check_sharing

        check_sharing(blocks, notes)
    broker = _broker(settings, blocks, notes)
    options = ServerOptions(
        broker=broker,
        jetstream=_jetstream(settings, blocks, broker.system_account, notes),
        monitor=_monitor(settings, broker, notes),
        arrow=_arrow(settings, broker, notes),
        otel=settings.get("otel"),
        log=LogOptions(
            **{name: settings[f"log_{name}"] for name in _LOG_FIELDS if f"log_{name}" in settings},
            debug=settings.get("debug", False),
            trace=broker.trace,
        ),
        process=ProcessOptions(**_some(settings, _PROCESS_FIELDS)),
        overrides=overrides,
    )
    return options


def _some(settings: FoundSettings, names: Sequence[str]) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}


def _apply_overrides(settings: FoundSettings, overrides: Overrides, notes: Notes) -> None:
    given = {
        name: value for name in Overrides.__struct_fields__ if (value := getattr(overrides, name)) is not None
    }
    tls_flags = {name: given.pop(name) for name in list(given) if name.startswith("tls")}
    for name in given:
        settings.places.pop(name, None)
    settings.update(given)
    if tls_flags:
        try:
            settings["tls"] = _tls_from_flags(tls_flags, settings.get("tls"))
        except ConfigError as error:
            notes.errors.extend(error.problems)


def _tls_from_flags(flags: dict[str, Any], from_file: TlsOptions | None) -> TlsOptions | None:
    """Any TLS flag replaces the file's certificates; `--tls=false` switches TLS off."""
    if flags.get("tls") is False:
        return None
    if not flags.get("tls_cert"):
        raise ConfigError("TLS server certificate must be given (--tlscert)")
    if not flags.get("tls_key"):
        raise ConfigError("TLS server private key must be given (--tlskey)")
    files = {
        "cert_file": flags["tls_cert"],
        "key_file": flags["tls_key"],
        "ca_file": flags.get("tls_ca", ""),
        "verify": flags.get("tls_verify", False),
    }
    from millstream.config.tls import checked_tls

    options = checked_tls(files, None)
    return replace(from_file, **files) if from_file else options


def _broker(settings: FoundSettings, blocks: Sequence[AccountBlock], notes: Notes) -> BrokerOptions:
    values = _some(settings, _BROKER_FIELDS)
    values["max_subscriptions"] = max(0, values.get("max_subscriptions", 0))
    tls: TlsOptions | None = settings.get("tls")
    if tls and settings.get("allow_non_tls"):
        tls = replace(tls, allow_non_tls=True)
    trust = None
    if settings.get("operators") or settings.get("trusted_keys") or settings.get("default_sentinel"):
        from millstream.config.operator import assemble_trust

        trust = assemble_trust(settings, notes)
    system_account = _system_account(settings, blocks, notes)
    broker = BrokerOptions(
        **values,
        headers=not settings.get("no_headers", False),
        tls=tls,
        websocket=settings.get("websocket"),
        leaf=settings.get("leaf"),
        system_account=system_account,
        trust=trust,
        accounts=tuple(block.account for block in blocks),
        authorization=_authorization(settings, blocks, system_account, notes),
    )
    _check_broker(broker, blocks, settings, notes)
    return broker


def _system_account(settings: FoundSettings, blocks: Sequence[AccountBlock], notes: Notes) -> str:
    names = {block.account.name for block in blocks}
    name: str = settings.get("system_account", "")
    if settings.get("operators") or settings.get("trusted_keys"):
        from millstream.config.operator import system_account_of

        return (
            name
            or system_account_of(settings)
            or ("" if settings.get("no_system_account") else SYSTEM_ACCOUNT)
        )
    if name and name not in names and name != SYSTEM_ACCOUNT:
        notes.error(f'system_account: there is no account "{name}"', settings.at("system_account"))
    if name:
        return name
    if settings.get("no_system_account") and SYSTEM_ACCOUNT not in names:
        return ""
    return SYSTEM_ACCOUNT


def _authorization(
    settings: FoundSettings, blocks: Sequence[AccountBlock], system_account: str, notes: Notes
) -> Authorization:
    auth: AuthorizationBlock = settings.get("authorization", AuthorizationBlock())
    # A command-line flag has no location; report its problems at the authorization block.
    username = settings.get("username", auth.username)
    password = settings.get("password", auth.password)
    token = settings.get("token", auth.token)
    users = list(auth.users or ())
    seen = {user.nkey or user.name for user in users}
    if len(seen) < len(users):
        notes.error("authorization: a user is listed twice", auth.at)
    for block in blocks:
        for user in block.users:
            name = user.nkey or user.name
            if name in seen:
                what = "nkey" if user.nkey else "user"
                notes.error(f'Duplicate {what} "{name}" detected', block.users_at)
            seen.add(name)
            users.append(user)
    if users and username:
        notes.error("cannot have both a single user/password and users or accounts with users", auth.at)
    if users and token:
        notes.error("cannot have both a token and users or accounts with users", auth.at)
    if token and username:
        notes.error("cannot have both a user/password and a token", auth.at)
    no_auth_user = settings.get("no_auth_user", "")
    if not no_auth_user and auth.at is None and _only_system_users(blocks, system_account):
        # Users of the system account alone do not make credentials mandatory for the global account.
        users.append(User(name=_ANONYMOUS, password=_ANONYMOUS, account=GLOBAL_ACCOUNT))
        no_auth_user = _ANONYMOUS
    if no_auth_user:
        _check_no_auth_user("no_auth_user", no_auth_user, users, settings, notes)
    if auth.callout is not None:
        from millstream.config.callout import check_callout

        accounts = {block.account.name for block in blocks}
        check_callout(auth.callout, users, accounts, auth.at, notes)
    if auth.oidc is not None:
        from millstream.config.oidc import check_oidc

        check_oidc(auth.oidc, auth, {block.account.name for block in blocks}, settings, notes)
    return Authorization(
        username=username,
        password=password,
        token=token,
        users=tuple(users),
        timeout_s=auth.timeout_s,
        no_auth_user=no_auth_user,
        callout=auth.callout,
        oidc=auth.oidc,
    )


def _only_system_users(blocks: Sequence[AccountBlock], system_account: str) -> bool:
    return len(blocks) == 1 and blocks[0].account.name == system_account and bool(blocks[0].users)


def _check_no_auth_user(
    key: str, name: str, users: Sequence[User], settings: FoundSettings, notes: Notes
) -> None:
    at = settings.at("no_auth_user" if key == "no_auth_user" else "websocket")
    if not users:
        notes.error(f'{key}: "{name}" present, but no users or nkeys are defined', at)
    elif name not in {user.nkey or user.name for user in users}:
        notes.error(f'{key}: "{name}" is no user or nkey of the configuration', at)


def _check_broker(
    broker: BrokerOptions, blocks: Sequence[AccountBlock], settings: FoundSettings, notes: Notes
) -> None:
    if broker.lame_duck_grace_period_s >= broker.lame_duck_duration_s:
        notes.error(
            f"lame duck grace period ({broker.lame_duck_grace_period_s:g}s) should be strictly lower than "
            f"lame duck duration ({broker.lame_duck_duration_s:g}s)",
            settings.at("lame_duck_grace_period_s") or settings.at("lame_duck_duration_s"),
        )
    if broker.max_payload > broker.max_pending:
        notes.error(
            f"max_payload ({broker.max_payload}) cannot be higher than max_pending ({broker.max_pending})",
            settings.at("max_payload") or settings.at("max_pending"),
        )
    if broker.proxy_protocol and broker.tls is not None:
        notes.error(
            "proxy_protocol: not supported by Millstream together with tls; let the proxy do TLS",
            settings.at("proxy_protocol"),
        )
    if " " in broker.server_name:
        notes.error("server_name: a server name cannot contain spaces")
    if not -1 <= broker.port <= 65535:
        notes.error(f"there is no port {broker.port}")
    if broker.client_advertise:
        try:
            split_host_port(broker.client_advertise)
        except ValueError:
            # The port is optional; anything else that cannot be parsed is an error.
            if ":" in broker.client_advertise:
                notes.error("client_advertise: expected host or host:port", settings.at("client_advertise"))
    if broker.leaf is not None or broker.default_js_domains:
        from millstream.config.leaf import check_leaf

        check_leaf(broker, [block.account.name for block in blocks if block.jetstream], settings, notes)
    if broker.websocket is not None:
        _check_websocket(broker.websocket, broker.authorization, settings, notes)


def _check_websocket(
    websocket: WebSocketOptions, authorization: Authorization, settings: FoundSettings, notes: Notes
) -> None:
    at = settings.at("websocket")
    if websocket.no_auth_user:
        _check_no_auth_user(
            "websocket no_auth_user", websocket.no_auth_user, authorization.users, settings, notes
        )
    if authorization.users and websocket.username:
        notes.error("websocket: a username is not compatible with the presence of users", at)
    if authorization.users and websocket.token:
        notes.error("websocket: a token is not compatible with the presence of users", at)


def _monitor(settings: FoundSettings, broker: BrokerOptions, notes: Notes) -> MonitorOptions:
    http_port = settings.get("http_port") or None
    https_port = settings.get("https_port") or None
    for number in (http_port, https_port):
        if number is not None and not -1 <= number <= 65535:
            notes.error(f"there is no port {number}")
    if http_port and https_port:
        notes.error(
            f"can't specify both HTTP ({http_port}) and HTTPS ({https_port}) ports", settings.at("https_port")
        )
    if https_port and broker.tls is None:
        notes.error("https_port: a tls block is required for HTTPS", settings.at("https_port"))
    return MonitorOptions(
        host=settings.get("http_host") or broker.host,
        http_port=http_port,
        https_port=https_port,
        base_path=_base_path(settings.get("http_base_path", "")),
        tls=broker.tls if https_port else None,
    )


def _arrow(settings: FoundSettings, broker: BrokerOptions, notes: Notes) -> ArrowOptions:
    """Return the options of the Arrow endpoint.

    With a port it listens on the broker's host, without one on a free port of the loopback interface.
    """
    values = {name: settings[f"arrow_{name}"] for name in _ARROW_FIELDS if f"arrow_{name}" in settings}
    port = values.pop("port", None)
    if port is not None and not -1 <= port <= 65535:
        notes.error(f"there is no port {port}")
    if port == 0 or not values.get("enabled", True):
        return ArrowOptions(enabled=False)
    if (port is not None or values) and not settings.get("jetstream"):
        notes.error("millstream.arrow: streams cannot be served without JetStream", settings.at("arrow_port"))
    values["host"] = values.get("host") or (LOOPBACK if port is None else broker.host)
    return ArrowOptions(port=-1 if port is None else port, **values)


def _base_path(path: str) -> str:
    # normpath keeps two leading slashes, which POSIX leaves undefined.
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def _jetstream(
    settings: FoundSettings, blocks: Sequence[AccountBlock], system_account: str, notes: Notes
) -> JetStreamOptions:
    values = {
        name.removeprefix("jetstream_"): value
        for name, value in settings.items()
        if name.startswith("jetstream_")
    }
    _merge_store_dir(values, settings, notes)
    _check_domain(values.get("domain", ""), settings, notes)
    for name in ("request_queue_limit", "max_buffered_messages", "max_buffered_size"):
        if values.get(name, 1) <= 0:
            del values[name]
    # Without a limit of its own, the queue of info requests is as long as that of the others.
    if values.get("info_queue_limit", 0) <= 0:
        values["info_queue_limit"] = values.get("request_queue_limit", JetStreamOptions().request_queue_limit)
    accounts = {block.account.name: block.jetstream for block in blocks if block.jetstream is not None}
    if system_account in accounts and settings.get("jetstream"):
        notes.error(
            "JetStream cannot be enabled on the system account",
            next(block.at for block in blocks if block.account.name == system_account),
        )
    if settings.get("operators") or settings.get("trusted_keys"):
        accounts = {}  # the tokens of accounts say it
    elif all(block.account.name == system_account for block in blocks):
        accounts = {GLOBAL_ACCOUNT: AccountJetStreamOptions()}
    flags = feature_flags.in_force(settings.get("feature_flags", {}))
    return JetStreamOptions(
        forms=SubjectForms(flags[feature_flags.ACK_FC_V2], flags[feature_flags.API_REPLY_V2]),
        enabled=settings.get("jetstream", False),
        limits=values.pop("limits", JetStreamLimits()),
        accounts=accounts,
        **values,
    )


def _merge_store_dir(values: dict[str, Any], settings: FoundSettings, notes: Notes) -> None:
    """Choose `store_dir`: a flag, or the file's top level or block; setting both in the file is an error."""
    top = settings.get("store_dir", "")
    from_file = settings.at("store_dir") is not None
    if top and from_file and values.get("store_dir"):
        notes.error("Duplicate 'store_dir' configuration", settings.at("store_dir"))
    if top:
        values["store_dir"] = top


def _check_domain(domain: str, settings: FoundSettings, notes: Notes) -> None:
    if any(character in domain for character in " \t\r\n\f.*>"):
        notes.error(
            f'jetstream: the domain "{domain}" may not contain blanks, ".", "*" or ">"',
            settings.at("jetstream_domain"),
        )
