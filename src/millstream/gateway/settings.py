"""What a gateway can be told, as frozen values; reading files, flags and environment is `config_file`'s.

Every duration is in seconds and every size in bytes; zero switches a limit or a timeout off.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from millstream.link.options import LinkOptions, parse_servers

MANAGEMENT_PORT: Final = 3000
DATAPLANE_PORT: Final = 3001
LINK_DEFAULTS: Final[Any] = {"connect_timeout_s": 30.0, "request_timeout_s": 5.0}  # httpmq's
_ORIGIN: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(:[0-9]{1,5})?/?", re.IGNORECASE
)


class Group(StrEnum):
    """One half of the API: the administration of streams and consumers, or publishing and consuming."""

    MANAGEMENT = "management"
    DATAPLANE = "dataplane"


BOTH_GROUPS: Final = frozenset(Group)


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates of a listener."""

    certificate: Path | None = None
    key: Path | None = None
    authorities: Path | None = None  # who signs the peers' certificates; a listener then asks for one


class Nats(msgspec.Struct, frozen=True):
    """The broker, and what the gateway's connections to it have beside the options of every connection.

    `link` says who the gateway is when the caller of a request does not say who he is.
    """

    link: LinkOptions = LinkOptions(**LINK_DEFAULTS)
    reconnect_wait_s: float = 2.0
    reconnect_attempts: int = -1  # in a row; -1 is for ever
    publish_timeout_s: float = 5.0
    pooled_links: int = 256  # connections with credentials of callers
    pooled_link_idle_s: float = 60.0

    @classmethod
    def at(cls, *servers: str, **options: Any) -> Self:
        """Return settings for these addresses; `options` are fields of this class and of `LinkOptions`."""
        own = {name: options.pop(name) for name in list(options) if name in cls.__struct_fields__}
        link = LinkOptions(servers=parse_servers(servers), **{**LINK_DEFAULTS, **options})
        return cls(link=link, **own)

    def __repr__(self) -> str:
        """Addresses only: neither they nor anything else here may show who the gateway is."""
        return f"<Nats {self.link}>"


class Listener(msgspec.Struct, frozen=True):
    """One address, and what is served there."""

    host: str = "127.0.0.1"
    port: int = MANAGEMENT_PORT
    groups: frozenset[Group] = BOTH_GROUPS
    path_prefix: str = "/"


class Auth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may call.

    With `pass_through`, user and password (Basic), a token (Bearer) or an nkey seed (Nkey) of the
    `Authorization` header (or a credentials file: Creds) make a connection of their own to NATS, whose
    permissions then rule. `tokens_file` names callers by bearer tokens of the gateway's own.  `required`
    refuses calls that say nothing.
    """

    required: bool = False
    pass_through: bool = True
    tokens_file: Path | None = None


class Cors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which pages of other origins may call; no origins: none."""

    origins: tuple[str, ...] = ()  # `*` is any
    headers: tuple[str, ...] = ()  # besides those that the API itself knows
    credentials: bool = False
    max_age_s: int = 600

    def __post_init__(self) -> None:
        if self.credentials and "*" in self.origins:
            raise ValueError("cors: credentials go with named origins only, not with `*`")
        for origin in self.origins:
            if origin not in ("*", "null") and not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"cors: {origin!r} is no origin, like https://app.example or http://localhost:8080"
                )


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one gateway, and one caller, may take."""

    max_body: int = 8 * 1024 * 1024  # of one request that is read as a whole
    bodies: int = 256 * 1024 * 1024  # of all requests together, while they are served
    max_head: int = 64 * 1024
    rate: float = 0.0  # requests a second of one caller (credentials that NATS takes, else address)
    burst: int = 0  # requests at once; 0 is one second's worth
    connections: int = 10_000
    connections_per_address: int = 0
    streams: int = 10_000  # open subscriptions
    stream_buffer: int = 256 * 1024  # bytes that wait for a reader before its consumer is held back
    head_timeout_s: float = 15.0  # for the head of a request to arrive
    body_timeout_s: float = 60.0  # for the body of a request to arrive
    idle_timeout_s: float = 600.0  # between requests of a connection
    write_timeout_s: float = 60.0  # for an answer, that is no stream, to be taken
    stop_timeout_s: float = 10.0


class Logging(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is written about requests, and what never is."""

    level: str = "warn"
    json: bool = False
    access: bool = False
    headers: bool = False  # of requests, in the access log
    do_not_log_headers: tuple[str, ...] = (
        "WWW-Authenticate",
        "Authorization",
        "Proxy-Authenticate",
        "Proxy-Authorization",
    )


class Settings(msgspec.Struct, frozen=True):
    """Everything a gateway is told."""

    nats: Nats = Nats()
    listeners: tuple[Listener, ...] = (Listener(),)
    tls: Tls | None = None
    auth: Auth = Auth()
    cors: Cors = Cors()
    limits: Limits = Limits()
    logging: Logging = Logging()
    request_id_header: str = "Httpmq-Request-ID"
    hosts: tuple[str, ...] = ()  # names under which the gateway is called, besides those of this machine
    h2c_upgrade: bool = False  # HTTP/2 by upgrade, which proxies in front must not forward
    strict: bool = True  # /v1 answers with the statuses of httpmq, also where others would say more
    relaxed_names: bool = False  # /v1 takes any name and subject that NATS takes
    metrics_path: str = "/metrics"  # empty: not served
    read_only: bool = False  # refuse every request that changes something

    @property
    def groups(self) -> frozenset[Group]:
        """What is served anywhere."""
        return frozenset().union(*(listener.groups for listener in self.listeners))
