"""Read the `leafnodes` block: links to other servers, which this one makes or accepts."""

import re
from collections.abc import Collection, Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from millstream.base.nkeys import NkeyError, check_user_key
from millstream.base.tls_files import TlsFileError, client_context
from millstream.broker.leaf.dialer import HubAddress
from millstream.broker.options import (
    GLOBAL_ACCOUNT,
    BrokerOptions,
    CompressionOptions,
    LeafOptions,
    ProxyOptions,
    RemoteOptions,
    RemoteTls,
    TlsOptions,
    User,
)
from millstream.config.errors import ConfigError, Notes
from millstream.config.fields import (
    block,
    boolean,
    duration,
    duration_text,
    field,
    items,
    listen,
    port,
    positive,
    read_block,
    refused,
    seconds,
    secret,
    string,
    strings,
    unsupported,
    wrong,
)
from millstream.config.settings import FoundSettings
from millstream.config.tls import read_tls
from millstream.config.tree import Block, TreeEntry
from millstream.subjects.tokens import valid_subject

_WEBSOCKET: Final = ("ws://", "wss://")
_LEAST_VERSION: Final = (2, 8)
_MODES: Final = {  # by what may be written
    "not supported": "not supported",
    "not_supported": "not supported",
    "disabled": "off",
    "off": "off",
    "false": "off",
    "accept": "accept",
    "auto": "s2_auto",
    "s2_auto": "s2_auto",
    "on": "s2_auto",
    "enabled": "s2_auto",
    "true": "s2_auto",
    "fast": "s2_fast",
    "s2_fast": "s2_fast",
    "better": "s2_better",
    "s2_better": "s2_better",
    "best": "s2_best",
    "s2_best": "s2_best",
}
_MOST_THRESHOLDS: Final = 4
_URL_SCHEMES: Final = ("nats://", "nats-leaf://", "leaf://", "tls://", "nats+tls://", *_WEBSOCKET)


def read_leaf(entry: TreeEntry, notes: Notes) -> LeafOptions | None:
    """Return the links to make and to accept; None if there are none."""
    if isinstance(entry.value.data, Block) and not entry.value.data:
        return None
    settings = read_block(block(entry), _LEAF, notes, whole=True)
    for name in ("host", "reconnect_interval_s", "auth_timeout_s"):
        if not settings.get(name, True):
            del settings[name]
    dial_timeout_s = settings.pop("dial_timeout_s", 0.0)
    leaf = LeafOptions(**settings)
    if dial_timeout_s:
        remotes = [
            replace(each, dial_timeout_s=dial_timeout_s) if each.dial_timeout_s == _DIAL_S else each
            for each in leaf.remotes
        ]
        leaf = replace(leaf, remotes=tuple(remotes))
    return leaf


_DIAL_S: Final = RemoteOptions(urls=()).dial_timeout_s


def check_leaf(
    broker: BrokerOptions, with_jetstream: Collection[str], settings: FoundSettings, notes: Notes
) -> None:
    """Note accounts that do not exist, or whose JetStream cannot be that of another domain."""
    names = {account.name for account in broker.accounts} | {GLOBAL_ACCOUNT, broker.system_account}
    for name, domain in broker.default_js_domains.items():
        at = settings.at("default_js_domains")
        if name == broker.system_account:
            notes.error(f'system account "{name}" can not be in default_js_domain', at)
        elif name not in names and broker.trust is None:
            notes.error(f'default_js_domain references non existing account "{name}"', at)
        elif domain and name in with_jetstream:
            notes.error(f'default_js_domain contains account name "{name}" with enabled JetStream', at)
    if broker.leaf is None or broker.trust is not None:
        return
    accounts = [broker.leaf.account, *(user.account for user in broker.leaf.users)]
    for account in accounts:
        if account and account not in names:
            notes.error(
                f'cannot find local account "{account}" specified in leafnode authorization',
                settings.at("leaf"),
            )
    for remote in broker.leaf.remotes:
        if remote.account not in names:
            notes.error(
                f'cannot find local account "{remote.account}" specified in leafnode remote',
                settings.at("leaf"),
            )


def read_js_domains(entry: TreeEntry, notes: Notes) -> dict[str, str]:
    """Read `default_js_domain`: the domain that an account's plain JetStream subjects mean."""
    domains = {item.key: string(item, notes) for item in block(entry).values()}
    for account, domain in domains.items():
        if domain and not valid_subject(f"$JS.{domain}.API".encode()):
            raise refused(entry, f'the domain "{domain}" of account "{account}" is not valid')
    return domains


def _read_remotes(entry: TreeEntry, notes: Notes) -> tuple[RemoteOptions, ...]:
    remotes: list[RemoteOptions] = []
    for item in items(entry, "a list of remotes"):
        try:
            remotes.append(_read_remote(item, notes))
        except ConfigError as error:
            notes.errors.extend(error.problems)
    _refuse_duplicates(entry, remotes)
    return tuple(remotes)


def _read_remote(entry: TreeEntry, notes: Notes) -> RemoteOptions:
    settings = read_block(block(entry), _REMOTE, notes, whole=True)
    if not settings.get("urls"):
        raise refused(entry, "a remote needs `url` or `urls`")
    if settings.get("creds_file") and settings.get("nkey_seed"):
        raise refused(entry, "Remote leafnode can not have both creds and nkey defined")
    for name in ("first_info_timeout_s", "dial_timeout_s", "account"):
        if not settings.get(name, True):
            del settings[name]
    return RemoteOptions(**settings)


def _refuse_duplicates(entry: TreeEntry, remotes: Iterable[RemoteOptions]) -> None:
    seen: set[tuple[object, ...]] = set()
    for remote in remotes:
        if remote.name in seen:
            raise refused(entry, f"duplicate remote of account {remote.account}")
        seen.add(remote.name)


def _read_urls(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
    urls = tuple(text.strip() for text in strings(entry, notes))
    for url in urls:
        if "://" in url and not url.lower().startswith(_URL_SCHEMES):
            raise refused(
                entry, "the URL of a remote begins with nats://, nats-leaf://, tls://, ws:// or wss://"
            )
        try:
            HubAddress.of(url)
        except ValueError:
            raise refused(entry, "a URL of a remote is not valid: expected nats-leaf://host:port") from None
    if len({url.lower().startswith(_WEBSOCKET) for url in urls}) > 1:
        raise refused(
            entry, "remote leaf node configuration cannot have a mix of websocket and non-websocket urls"
        )
    return urls


def _read_proxy(entry: TreeEntry, notes: Notes) -> ProxyOptions:
    settings = read_block(block(entry), _PROXY, notes, whole=True)
    if not settings.get("url"):
        raise refused(entry, "a proxy needs `url`")
    proxy = ProxyOptions(**settings)
    if bool(proxy.username) != bool(proxy.password):
        raise refused(entry, "proxy username and password must both be specified or both be empty")
    return proxy


def _read_proxy_url(entry: TreeEntry, notes: Notes) -> str:
    url = string(entry, notes)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise refused(entry, "the URL of the proxy is not valid") from None
    if parts.scheme == "https":
        raise refused(entry, "a proxy is not reached over TLS: its password would go out in clear; use http")
    if parts.scheme != "http":
        raise refused(entry, f"proxy URL scheme must be http, got: {parts.scheme}")
    if not host:
        raise refused(entry, "proxy URL must specify a host")
    return url


def _read_seed(entry: TreeEntry, notes: Notes) -> str:
    from millstream.base.seeds import Signer  # imports cryptography, which is slow

    seed = secret(entry, notes)
    try:
        key = Signer(seed).public_key
    except NkeyError as error:
        raise refused(entry, f"Remote leafnode nkey is not a valid seed: {error}") from None
    if not key.startswith("U"):
        raise refused(entry, "Remote leafnode nkey is not a valid seed: it is not that of a user")
    return seed


def _read_subjects(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
    subjects = strings(entry, notes)
    for subject in subjects:
        if not valid_subject(subject.encode()):
            raise refused(entry, f'subject "{subject}" is not a valid subject')
    return subjects


def _read_compression(entry: TreeEntry, notes: Notes) -> CompressionOptions:
    if isinstance(entry.value.data, Block):
        return CompressionOptions(**read_block(block(entry), _COMPRESSION, notes, whole=True))
    return CompressionOptions(mode=_read_mode(entry, notes))


def _read_mode(entry: TreeEntry, notes: Notes) -> str:
    if isinstance(entry.value.data, bool):
        return _MODES[str(entry.value.data).lower()]
    text = string(entry, notes)
    mode = _MODES.get(text.lower())
    if mode is None:
        raise refused(entry, f'unsupported compression mode "{text}"')
    return mode


def _read_thresholds(entry: TreeEntry, notes: Notes) -> tuple[float, ...]:
    found: list[float] = []
    for item in items(entry, "a list of durations"):
        threshold_s = max(duration_text(item, notes), 0.0)
        if threshold_s and threshold_s < max(found, default=0.0):
            raise refused(entry, "RTT threshold values should be in ascending order")
        found.append(threshold_s)
    while found and not found[-1]:
        found.pop()
    if not found:
        raise refused(entry, 'compression mode "s2_auto" requires at least one RTT threshold')
    if len(found) > _MOST_THRESHOLDS:
        text = f'compression mode "s2_auto" should have no more than {_MOST_THRESHOLDS} RTT thresholds'
        raise refused(entry, text)
    return tuple(found)


def _read_tls(entry: TreeEntry, notes: Notes) -> RemoteTls:
    tls = RemoteTls(**read_block(block(entry), _REMOTE_TLS, notes, whole=True))
    if bool(tls.cert_file) != bool(tls.key_file):
        raise refused(entry, "cert_file and key_file go together")
    try:
        client_context(tls.ca_file, tls.cert_file, tls.key_file, verify=not tls.insecure)
    except TlsFileError as error:
        raise refused(entry, str(error)) from None
    return tls


def _read_min_version(entry: TreeEntry, notes: Notes) -> str:
    if entry.value.data not in ("1.2", "1.3"):
        raise wrong(entry, 'the string "1.2" or "1.3"')
    return str(entry.value.data)


def _nothing(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    """Check the value and drop it: it is for listeners."""
    boolean(entry, notes)
    return {}


def _read_listener_tls(entry: TreeEntry, notes: Notes) -> TlsOptions:
    tls = read_tls(entry, notes)
    if tls.verify_and_map:
        raise refused(entry, "not supported by Millstream: verify_and_map for leaf nodes")
    return tls


def _read_least_version(entry: TreeEntry, notes: Notes) -> str:
    text = string(entry, notes)
    found = re.fullmatch(r"v?(\d+)\.(\d+)\.(\d+)(-.*)?", text)
    if found is None:
        raise refused(entry, f'invalid leafnode\'s minimum version: "{text}"')
    if (int(found[1]), int(found[2])) < _LEAST_VERSION:
        raise refused(entry, "the minimum version should be at least 2.8.0")
    return text


def _read_authorization(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    settings = dict(read_block(block(entry), _AUTHORIZATION, notes, whole=True))
    users: tuple[User, ...] = settings.get("users", ())
    if users and settings.get("username"):
        raise refused(entry, "can not have a single user/pass and a users array")
    if users and settings.get("nkey"):
        raise refused(entry, "can not have a single nkey and a users array")
    names = [user.nkey or user.name for user in users]
    for name in names:
        if names.count(name) > 1:
            raise refused(entry, f'duplicate user "{name}" detected in leafnode authorization')
    return settings


def _read_users(entry: TreeEntry, notes: Notes) -> tuple[User, ...]:
    users = [
        User(**read_block(block(item), _USER, notes, whole=True)) for item in items(entry, "a list of users")
    ]
    if any(not (user.name or user.nkey) for user in users):
        raise refused(entry, "a user needs `user` or `nkey`")
    return tuple(users)


def _read_nkey(entry: TreeEntry, notes: Notes) -> str:
    key = secret(entry, notes)
    try:
        check_user_key(key)
    except NkeyError:
        raise refused(entry, "Not a valid public nkey for leafnode authorization") from None
    return key


_NO_PROXIES: Final = unsupported("proxies in front of leaf nodes", harmless=(False,))

_USER = (
    field("user username", string, "name"),
    field("pass password", secret, "password"),
    field("nkey", _read_nkey, "nkey"),
    field("account", string, "account"),
    field("proxy_required", _NO_PROXIES),
)

_AUTHORIZATION = (
    field("user username", string, "username"),
    field("pass password", secret, "password"),
    field("nkey", _read_nkey, "nkey"),
    field("account", string, "account"),
    field("timeout", positive(seconds), "auth_timeout_s"),
    field("users", _read_users, "users"),
    field("proxy_required", _NO_PROXIES),
)

_PROXY = (
    field("url", _read_proxy_url, "url"),
    field("username", string, "username"),
    field("password", secret, "password"),
    field("timeout", positive(duration), "timeout_s"),
)

_COMPRESSION = (
    field("mode", _read_mode, "mode"),
    field("rtt_thresholds thresholds rtts rtt", _read_thresholds, "rtt_thresholds_s"),
)

_REMOTE_TLS = (
    field("cert_file", string, "cert_file"),
    field("key_file", string, "key_file"),
    field("ca_file", string, "ca_file"),
    field("insecure", boolean, "insecure"),
    field("timeout", positive(seconds), "timeout_s"),
    field("min_version", _read_min_version, "min_version"),
    field("handshake_first first immediate", boolean, "handshake_first"),
    field("verify", _nothing),
)

_REMOTE = (
    field("url urls", _read_urls, "urls"),
    field("account local", string, "account"),
    field("creds credentials", string, "creds_file"),
    field("nkey seed", _read_seed, "nkey_seed"),
    field("tls", _read_tls, "tls"),
    field("hub", boolean, "hub"),
    field("deny_imports deny_import", _read_subjects, "deny_imports"),
    field("deny_exports deny_export", _read_subjects, "deny_exports"),
    field("isolate_leafnode_interest isolate", boolean, "isolate"),
    field("request_isolation", boolean, "request_isolation"),
    field("no_randomize dont_randomize", boolean, "no_randomize"),
    field("ignore_discovered_servers", boolean, "ignore_discovered"),
    field("first_info_timeout", positive(duration), "first_info_timeout_s"),
    field("dial_timeout", positive(duration), "dial_timeout_s"),
    field("disabled", boolean, "disabled"),
    field("compression", _read_compression, "compression"),
    field("jetstream_cluster_migrate js_cluster_migrate", unsupported("clustering", harmless=(False,))),
    field("ws_compression ws_compress websocket_compress websocket_compression", boolean, "ws_compression"),
    field("ws_no_masking websocket_no_masking", boolean, "ws_no_masking"),
    field("proxy", _read_proxy, "proxy"),
)

_LEAF = (
    field("remotes", _read_remotes, "remotes"),
    field("reconnect_interval reconnect reconnect_delay", positive(duration), "reconnect_interval_s"),
    field("dial_timeout", positive(duration), "dial_timeout_s"),
    field("isolate_leafnode_interest isolate", boolean, "isolate"),
    field("compression", _read_compression, "compression"),
    field("write_deadline", unsupported("a write deadline for links alone; use the one of the server")),
    field("write_timeout", unsupported("a write timeout for links alone; use the one of the server")),
    field("listen", listen()),
    field("port", port, "port"),
    field("host net", string, "host"),
    field("authorization", _read_authorization),
    field("tls", _read_listener_tls, "tls"),
    field("advertise leafnode_advertise", string, "advertise"),
    field("no_advertise", boolean, "no_advertise"),
    field("min_version minimum_version", _read_least_version, "min_version"),
)
