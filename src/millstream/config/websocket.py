"""Read the `websocket` block.  Without a port there is no listener, whatever else the block contains."""

from typing import Any
from urllib.parse import urlsplit

from millstream.broker.options import WebSocketOptions
from millstream.config.errors import Notes
from millstream.config.fields import (
    block,
    boolean,
    duration,
    field,
    listen,
    port,
    positive,
    read_block,
    refused,
    seconds,
    string,
    strings,
)
from millstream.config.settings import FoundSettings
from millstream.config.tls import read_tls
from millstream.config.tree import TreeEntry
from millstream.config.users import SIMPLE_AUTHORIZATION

_OWN_HEADERS = frozenset({"host", "content-length", "connection", "upgrade", "nats-no-masking"})


def read_websocket(entry: TreeEntry, notes: Notes) -> WebSocketOptions | None:
    settings = read_block(block(entry), _WEBSOCKET, notes, whole=True)
    no_tls = settings.pop("no_tls", False)
    if not settings.get("port"):
        return None
    if settings.get("tls") is None and not no_tls:
        raise refused(entry, "requires a tls block, or `no_tls: true`")
    if settings.get("token") and settings.get("username"):
        raise refused(entry, "cannot have both a user/password and a token")
    _drop_defaults(settings)
    return WebSocketOptions(**settings)


def _drop_defaults(settings: FoundSettings) -> None:
    """Drop settings whose value means "use the default"."""
    for name in ("host", "handshake_timeout_s", "ping_interval_s", "auth_timeout_s"):
        if not settings.get(name, True):
            del settings[name]


def _read_origins(entry: TreeEntry, notes: Notes) -> tuple[str, ...]:
    origins = strings(entry, notes)
    for origin in origins:
        try:
            url = urlsplit(origin)
            usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise refused(entry, f'"{origin}" is not an absolute http or https URL')
    return origins


def _read_headers(entry: TreeEntry, notes: Notes) -> tuple[tuple[str, str], ...]:
    headers = tuple((header.key, string(header, notes)) for header in block(entry).values())
    for name, _ in headers:
        if name.lower() in _OWN_HEADERS or name.lower().startswith("sec-websocket-"):
            raise refused(entry, f'the header "{name}" belongs to the handshake')
    return headers


def _read_authorization(entry: TreeEntry, notes: Notes) -> dict[str, Any]:
    return dict(read_block(block(entry), SIMPLE_AUTHORIZATION, notes))


_WEBSOCKET = (
    field("listen", listen()),
    field("port", port, "port"),
    field("host net", string, "host"),
    field("advertise", string, "advertise"),
    field("no_tls", boolean, "no_tls"),
    field("tls", read_tls, "tls"),
    field("same_origin", boolean, "same_origin"),
    field(
        "allowed_origins allowed_origin allow_origins allow_origin origins origin",
        _read_origins,
        "allowed_origins",
    ),
    field("compression compress", boolean, "compression"),
    field("handshake_timeout", positive(seconds), "handshake_timeout_s"),
    field("authorization authentication", _read_authorization),
    field("no_auth_user", string, "no_auth_user"),
    field("user_cookie", string, "user_cookie"),
    field("pass_cookie", string, "password_cookie"),
    field("token_cookie", string, "token_cookie"),
    field("jwt_cookie", string, "jwt_cookie"),
    field("headers", _read_headers, "headers"),
    field("ping_interval", positive(duration), "ping_interval_s"),
)
