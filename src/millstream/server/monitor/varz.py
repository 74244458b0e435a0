"""`/varz`: the configuration and the counters of the server.

Field names, their order, and the omission of empty fields are nats-server's.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from millstream.base.slices import Pieces
from millstream.broker import feature_flags
from millstream.broker.handshake import auth_timeout_s
from millstream.broker.info import PROTOCOL_VERSION, SERVER_VERSION
from millstream.broker.options import ConnectionType, LeafOptions, TlsOptions, WebSocketOptions
from millstream.golang.time import format_time
from millstream.server.monitor import process, totals
from millstream.server.monitor.formats import nanoseconds, number, uptime
from millstream.server.monitor.jsz import jetstream_of
from millstream.server.monitor.loop_steps import EventLoop, event_loop

if TYPE_CHECKING:
    from millstream.server.server import Server

_DEFAULT_TLS_TIMEOUT_S: Final = 2.0
_DEFAULT_HANDSHAKE_TIMEOUT_S: Final = WebSocketOptions().handshake_timeout_s


class ByKind(msgspec.Struct, frozen=True):
    """A count for each kind of connection; this server has only clients."""

    clients: int = 0
    routes: int = 0
    gateways: int = 0
    leafs: int = 0


class DiskWaits(msgspec.Struct, frozen=True):
    """Waits for a slot to use the disk; always zero, because this server has no such queue."""

    waiters: int = 0
    waits: int = 0
    wait_time: int = 0  # ns
    max_wait_time: int = 0  # ns


class WebSocketVarz(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    host: str = ""
    port: int = 0
    advertise: str = ""
    no_auth_user: str = ""
    handshake_timeout: int = 0  # ns
    auth_timeout: float | int = 0  # s
    no_tls: bool = False
    tls_map: bool = False
    tls_pinned_certs: list[str] = []
    same_origin: bool = False
    allowed_origins: list[str] = []
    compression: bool = False
    tls_cert_not_after: str = ""


class DenyRules(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    exports: list[str] = []
    imports: list[str] = []


class RemoteVarz(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A server that an account is linked to; its URLs are shown without users."""

    local_account: str = ""
    tls_timeout: float | int = 0  # s
    urls: list[str] = []
    deny: DenyRules | None = None


class LeafVarz(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    host: str = ""
    port: int = 0
    auth_timeout: float | int = 0  # s
    tls_timeout: float | int = 0  # s
    tls_required: bool = False
    tls_verify: bool = False
    remotes: list[RemoteVarz] = []


class Varz(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    server_id: str
    server_name: str
    version: str
    proto: int
    go: str
    host: str
    port: int
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    max_connections: int
    max_subscriptions: int = 0
    ping_interval: int  # ns
    ping_max: int
    http_host: str
    http_port: int
    http_base_path: str
    https_port: int
    auth_timeout: float | int  # s
    max_control_line: int
    max_payload: int
    max_pending: int
    cluster: dict[str, Any]
    gateway: dict[str, Any]
    leaf: LeafVarz
    mqtt: dict[str, Any]
    websocket: WebSocketVarz
    jetstream: Any
    tls_timeout: float | int  # s
    write_deadline: int  # ns
    write_timeout: str = ""
    start: str
    now: str
    uptime: str
    mem: int
    cores: int
    gomaxprocs: int
    cpu: float | int  # percent
    connections: int
    total_connections: int
    routes: int
    remotes: int
    leafnodes: int
    in_msgs: int
    in_bytes: int
    in_client_msgs: int
    in_client_bytes: int
    out_msgs: int
    out_bytes: int
    out_client_msgs: int
    out_client_bytes: int
    slow_consumers: int
    stale_connections: int
    stalled_clients: int
    subscriptions: int
    http_req_stats: dict[str, int]
    config_load_time: str
    config_digest: str
    tags: list[str] = []
    metadata: dict[str, str] = {}
    feature_flags: dict[str, bool]
    system_account: str = ""
    slow_consumer_stats: ByKind
    stale_connection_stats: ByKind
    disk_io_wait_stats: DiskWaits
    tls_cert_not_after: str = ""
    event_loop: EventLoop  # ours: nats-server has no event loop


def varz(server: Server) -> Pieces[Varz]:
    """Return the current document."""
    broker = server.broker
    options = broker.options
    now_ns = time.time_ns()
    traffic = yield from totals.server_traffic(broker)
    links = yield from totals.link_traffic(broker)
    host, port = _client_address(server)
    monitor = server.monitor
    monitor_options = server.options.monitor
    tls = options.tls
    view = jetstream_of(server)
    return Varz(
        server_id=broker.identity.server_id,
        server_name=broker.identity.server_name,
        version=SERVER_VERSION,
        proto=PROTOCOL_VERSION,
        go="millstream",
        host=host,
        port=port,
        auth_required=broker.authenticator.required,
        tls_required=tls is not None and not tls.allow_non_tls,
        tls_verify=tls is not None and (tls.verify or tls.verify_and_map),
        max_connections=options.max_connections,
        max_subscriptions=options.max_subscriptions,
        ping_interval=nanoseconds(options.ping_interval_s),
        ping_max=options.ping_max,
        http_host=monitor_options.host if monitor is not None else "",
        http_port=monitor.port if monitor is not None and monitor.scheme == "http" else 0,
        http_base_path=monitor_options.base_path if monitor_options.base_path != "/" else "",
        https_port=monitor.port if monitor is not None and monitor.scheme == "https" else 0,
        auth_timeout=number(auth_timeout_s(broker, ConnectionType.STANDARD)),
        max_control_line=options.max_control_line,
        max_payload=options.max_payload,
        max_pending=options.max_pending,
        cluster={},
        gateway={},
        leaf=_leaf(options.leaf, broker.leafs.hub.port if broker.leafs and broker.leafs.hub else 0),
        mqtt={},
        websocket=_websocket(options.websocket, broker.identity.websocket_port),
        jetstream=view.varz() if view is not None else {},
        tls_timeout=number(float(tls.timeout_s if tls is not None else _DEFAULT_TLS_TIMEOUT_S)),
        write_deadline=nanoseconds(options.write_deadline_s),
        write_timeout="retry" if options.write_timeout_retry else "",
        start=format_time(server.started_ns),
        now=format_time(now_ns),
        uptime=uptime(now_ns - server.started_ns),
        mem=process.resident_bytes(),
        cores=process.cores(),
        gomaxprocs=1,  # messages are handled by one thread
        cpu=number(process.processor_load.percent()),
        connections=len(broker.connections),
        total_connections=broker.totals.connections,
        routes=0,
        remotes=0,
        leafnodes=len(broker.leafs.links) if broker.leafs is not None else 0,
        in_msgs=traffic.in_messages + links.in_messages,
        in_bytes=traffic.in_bytes + links.in_bytes,
        in_client_msgs=traffic.in_messages,
        in_client_bytes=traffic.in_bytes,
        out_msgs=traffic.out_messages + links.out_messages,
        out_bytes=traffic.out_bytes + links.out_bytes,
        out_client_msgs=traffic.out_messages,
        out_client_bytes=traffic.out_bytes,
        slow_consumers=broker.totals.slow_consumers,
        stale_connections=broker.totals.stale_connections,
        stalled_clients=broker.totals.stalled_clients,
        subscriptions=totals.subscription_count(broker),
        http_req_stats=dict(sorted(monitor.request_counts.items())) if monitor is not None else {},
        config_load_time=format_time(server.configured_ns),
        config_digest=server.options.config_digest,
        tags=list(options.server_tags),
        metadata=dict(sorted(options.server_metadata.items())),
        feature_flags=feature_flags.in_force(options.feature_flags),
        system_account=options.system_account,
        slow_consumer_stats=ByKind(clients=broker.totals.slow_consumers),
        stale_connection_stats=ByKind(clients=broker.totals.stale_connections),
        disk_io_wait_stats=DiskWaits(),
        tls_cert_not_after=_expiry(tls),
        event_loop=event_loop(broker.turns.watchdog),
    )


def _client_address(server: Server) -> tuple[str, int]:
    """Return the address that clients are told to connect to."""
    broker = server.broker
    advertised = broker.options.client_advertise
    if not advertised:
        return broker.identity.listen_host, broker.identity.listen_port
    host, colon, port = advertised.rpartition(":")
    if not colon or not port.isdigit():
        return advertised, broker.identity.listen_port
    return host.removeprefix("[").removesuffix("]"), int(port)


def _leaf(options: LeafOptions | None, port: int) -> LeafVarz:
    if options is None:
        return LeafVarz()
    remotes = [
        RemoteVarz(
            local_account=remote.account,
            tls_timeout=number(float(remote.tls.timeout_s)) if remote.tls is not None else 0,
            urls=[url.rpartition("@")[2].rpartition("//")[2] for url in remote.urls],
            deny=DenyRules(exports=list(remote.deny_exports), imports=list(remote.deny_imports))
            if remote.deny_exports or remote.deny_imports
            else None,
        )
        for remote in options.remotes
    ]
    tls = options.tls
    return LeafVarz(
        host=options.host if port else "",
        port=port,
        auth_timeout=number(float(options.auth_timeout_s or 0)),
        tls_timeout=number(float(tls.timeout_s)) if tls is not None else 0,
        tls_required=tls is not None,
        tls_verify=tls is not None and tls.verify,
        remotes=remotes,
    )


def _websocket(options: WebSocketOptions | None, port: int) -> WebSocketVarz:
    if options is None:
        return WebSocketVarz()
    timeout_s = options.handshake_timeout_s
    return WebSocketVarz(
        host=options.host,
        port=port,
        advertise=options.advertise,
        no_auth_user=options.no_auth_user,
        handshake_timeout=0 if timeout_s == _DEFAULT_HANDSHAKE_TIMEOUT_S else nanoseconds(timeout_s),
        auth_timeout=number(float(options.auth_timeout_s or 0)),
        no_tls=options.tls is None,
        tls_map=options.tls is not None and options.tls.verify_and_map,
        tls_pinned_certs=sorted(options.tls.pinned_certs) if options.tls is not None else [],
        same_origin=options.same_origin,
        allowed_origins=list(options.allowed_origins),
        compression=options.compression,
        tls_cert_not_after=_expiry(options.tls),
    )


def _expiry(tls: TlsOptions | None) -> str:
    """Return the expiry time of our certificate, or an empty string without one."""
    if tls is None:
        return ""
    path = Path(tls.cert_file)
    try:
        return _certificate_expiry(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=4)
def _certificate_expiry(path: Path, changed_ns: int) -> str:
    from cryptography import x509  # imported here, because most servers have no certificate

    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")
