"""The settings of a gateway as frozen values; `config_file` reads files, flags and the environment.

Every duration is in seconds and every size in bytes; zero switches a limit or a timeout off.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from millstream.link.options import LinkOptions, parse_servers
from millstream.otel.options import OtelOptions

MANAGEMENT_PORT: Final = 3000
DATAPLANE_PORT: Final = 3001
LINK_DEFAULTS: Final[Any] = {"connect_timeout_s": 30.0, "request_timeout_s": 5.0}  # httpmq's
_ORIGIN: Final = re.compile(
    r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(:[0-9]{1,5})?/?", re.IGNORECASE
)


class Group(StrEnum):
    """A half of the API: the administration of streams and consumers, or publishing and consuming."""

    MANAGEMENT = "management"
    DATAPLANE = "dataplane"


BOTH_GROUPS: Final = frozenset(Group)


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Certificates of a listener."""

    certificate: Path | None = None
    key: Path | None = None
    authorities: Path | None = None  # CA of client certificates; a listener then requires one


class Nats(msgspec.Struct, frozen=True):
    """The broker, and the gateway's own options of its connections beside `LinkOptions`.

    `link` has the gateway's own credentials, which are used for callers without any.
    """

    link: LinkOptions = LinkOptions(**LINK_DEFAULTS)
    reconnect_wait_s: float = 2.0
    reconnect_attempts: int = -1  # in a row; -1 is no limit
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
        """Return the addresses only, without credentials."""
        return f"<Nats {self.link}>"


class Listener(msgspec.Struct, frozen=True):
    """An address, and the groups that are served there."""

    host: str = "127.0.0.1"
    port: int = MANAGEMENT_PORT
    groups: frozenset[Group] = BOTH_GROUPS
    path_prefix: str = "/"


class Auth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The callers that are allowed.

    With `pass_through`, user and password (Basic), a token (Bearer) or an nkey seed (Nkey) of the
    `Authorization` header (or a credentials file: Creds) open a connection of their own to NATS, whose
    permissions then apply.  `tokens_file` has callers with bearer tokens of the gateway's own.  `required`
    refuses calls without credentials.
    """

    required: bool = False
    pass_through: bool = True
    tokens_file: Path | None = None


class Cors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The other origins whose pages may call; by default none."""

    origins: tuple[str, ...] = ()  # `*` is any
    headers: tuple[str, ...] = ()  # in addition to those of the API
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
    """Limits of a gateway and of each caller."""

    max_body: int = 8 * 1024 * 1024  # bytes of a request that is read as a whole
    bodies: int = 256 * 1024 * 1024  # bytes of all requests together, while they are served
    max_head: int = 64 * 1024
    rate: float = 0.0  # requests a second of one caller (credentials that NATS accepts, else address)
    burst: int = 0  # requests at once; 0 is `rate`
    connections: int = 10_000
    connections_per_address: int = 0
    streams: int = 10_000  # open subscriptions
    stream_buffer: int = 256 * 1024  # bytes that wait for a reader before its consumer is paused
    head_timeout_s: float = 15.0  # for the head of a request to arrive
    body_timeout_s: float = 60.0  # for the body of a request to arrive
    idle_timeout_s: float = 600.0  # between requests of a connection
    write_timeout_s: float = 60.0  # for an answer to be read, unless it is a stream
    stop_timeout_s: float = 10.0
    sql_queries: int = 2  # at once; 0 switches SQL off
    sql_memory: int = 512 * 1024 * 1024  # bytes of one query
    sql_time_s: float = 30.0  # of one query
    sql_rows: int = 100_000  # of one result


class Lake(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The catalog of Iceberg tables that SQL and `/v2/iceberg` serve; the keys are those of a pipeline's."""

    warehouse: str = ""
    name: str = "lake"
    type: str = ""
    uri: str = ""
    properties: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not self.warehouse and not self.type and not self.uri:
            raise ValueError("lake: a catalog needs `warehouse`, or `type` and `uri`")


class Logging(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of the log, and the headers that are never logged."""

    level: str = "warn"
    json: bool = False
    access: bool = False
    headers: bool = False  # log the headers of requests in the access log
    do_not_log_headers: tuple[str, ...] = (
        "WWW-Authenticate",
        "Authorization",
        "Proxy-Authenticate",
        "Proxy-Authorization",
    )


class Settings(msgspec.Struct, frozen=True):
    """All settings of a gateway."""

    nats: Nats = Nats()
    listeners: tuple[Listener, ...] = (Listener(),)
    tls: Tls | None = None
    auth: Auth = Auth()
    cors: Cors = Cors()
    limits: Limits = Limits()
    logging: Logging = Logging()
    request_id_header: str = "Httpmq-Request-ID"
    hosts: tuple[str, ...] = ()  # names of the gateway, in addition to those of this machine
    h2c_upgrade: bool = False  # HTTP/2 by upgrade, which proxies in front must not forward
    strict: bool = True  # /v1 answers with httpmq's statuses, even where others are more specific
    relaxed_names: bool = False  # /v1 accepts every name and subject that NATS accepts
    metrics_path: str = "/metrics"  # empty: not served
    read_only: bool = False  # refuse every request that changes something
    lake: Lake | None = None  # None: no tables
    otel: OtelOptions | None = None  # None: nothing is sent

    @property
    def groups(self) -> frozenset[Group]:
        """Return the groups that any listener serves."""
        return frozenset().union(*(listener.groups for listener in self.listeners))
