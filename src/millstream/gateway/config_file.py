"""Settings from httpmq's YAML file, which may have further sections of ours.

A missing key has its default.  An unknown key is an error, because it would have no effect.  httpmq's file
has an address for each group; a gateway that serves both groups listens on both addresses, and serves
everything on each.

    nats:         the keys of `LinkOptions`, server_uri and connect_timeout_sec among them
                  and: reconnect: {max_attempts, wait_interval_sec}, publish_timeout_sec,
                  pooled_links, pooled_link_idle_sec
    management:   endpoint_config: {path_prefix}
    dataplane:    api_server: {server_config: {listen_on, listen_port, read_timeout_sec, write_timeout_sec,
                  idle_timeout_sec}, logging_config: {request_id_header, do_not_log_headers}}
    gateway:      tls, auth, cors, limits, logging, hosts, h2c_upgrade, strict, relaxed_names, metrics_path,
                  read_only, lake: {warehouse, name, type, uri, properties},
                  otel: {endpoint, headers, service_name, traces, metrics, sampling, interval_s, timeout_s,
                  queue}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import yaml

from millstream.base.documents import problem_of, unknown_keys
from millstream.base.errors import MillstreamError
from millstream.base.reasons import file_reason
from millstream.gateway.settings import (
    BOTH_GROUPS,
    DATAPLANE_PORT,
    LINK_DEFAULTS,
    MANAGEMENT_PORT,
    Auth,
    Cors,
    Group,
    Lake,
    Limits,
    Listener,
    Logging,
    Nats,
    Settings,
    Tls,
)
from millstream.link.errors import BadLinkOptions
from millstream.link.layers import Layer
from millstream.link.sections import section_layer, section_struct
from millstream.link.sources import environment_layer, link_options
from millstream.otel.options import MISSING, OtelOptions, is_installed

_LOOPBACK: Final = "127.0.0.1"
_PORTS: Final = {Group.MANAGEMENT: MANAGEMENT_PORT, Group.DATAPLANE: DATAPLANE_PORT}


class ConfigFileError(MillstreamError):
    """Raised if the file cannot be read, or has an invalid value."""


class _Reconnect(msgspec.Struct, forbid_unknown_fields=True):
    max_attempts: int = -1
    wait_interval_sec: float = 2.0


if TYPE_CHECKING:
    _Nats: TypeAlias = Any
else:
    _Nats = section_struct(
        "_Nats",
        ("reconnect", _Reconnect, msgspec.field(default_factory=_Reconnect)),
        ("publish_timeout_sec", float, 5.0),
        ("pooled_links", int, 256),
        ("pooled_link_idle_sec", float, 60.0),
    )


class _Endpoint(msgspec.Struct, forbid_unknown_fields=True):
    path_prefix: str = "/"


class _Server(msgspec.Struct, forbid_unknown_fields=True):
    listen_on: str | None = None
    listen_port: int | None = None
    read_timeout_sec: float | None = None
    write_timeout_sec: float | None = None
    idle_timeout_sec: float | None = None


class _RequestLog(msgspec.Struct, forbid_unknown_fields=True):
    request_id_header: str | None = None
    do_not_log_headers: list[str] | None = None


class _Api(msgspec.Struct, forbid_unknown_fields=True):
    server_config: _Server = msgspec.field(default_factory=_Server)
    logging_config: _RequestLog = msgspec.field(default_factory=_RequestLog)


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    endpoint_config: _Endpoint = msgspec.field(default_factory=_Endpoint)
    api_server: _Api = msgspec.field(default_factory=_Api)


class _Gateway(msgspec.Struct, forbid_unknown_fields=True):
    tls: Tls | None = None
    auth: Auth = Auth()
    cors: Cors = Cors()
    limits: Limits = Limits()
    logging: Logging = Logging()
    hosts: tuple[str, ...] = ()
    h2c_upgrade: bool = False
    strict: bool = True
    relaxed_names: bool = False
    metrics_path: str = "/metrics"
    read_only: bool = False
    lake: Lake | None = None
    otel: OtelOptions | bool | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    nats: _Nats = msgspec.field(default_factory=_Nats)
    management: _Group | None = None
    dataplane: _Group | None = None
    gateway: _Gateway = msgspec.field(default_factory=_Gateway)


class Flags(msgspec.Struct, frozen=True):
    """The flags of the command line; they override the file."""

    link: Layer = msgspec.field(default_factory=Layer)
    management: bool = False
    dataplane: bool = False
    host: str | None = None
    port: int | None = None
    access_log: bool = False
    log_level: str | None = None
    json_log: bool = False
    read_only: bool = False

    @property
    def groups(self) -> frozenset[Group]:
        return (
            BOTH_GROUPS
            if self.management == self.dataplane
            else frozenset([Group.MANAGEMENT if self.management else Group.DATAPLANE])
        )

    def over(self, settings: Settings) -> Settings:
        replace = msgspec.structs.replace
        listeners, logging = settings.listeners, settings.logging
        if self.host is not None:
            listeners = tuple(replace(listener, host=self.host) for listener in listeners)
        if self.port is not None:
            listeners = (replace(listeners[0], port=self.port),)
        logging = replace(
            logging,
            level=self.log_level or logging.level,
            json=self.json_log or logging.json,
            access=self.access_log or logging.access,
        )
        return replace(
            settings,
            listeners=listeners,
            logging=logging,
            read_only=self.read_only or settings.read_only,
        )


def load_settings(
    path: Path | None, flags: Flags | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings from a file (the defaults if None), the command line and the environment."""
    flags = flags or Flags()
    file = _File() if path is None else _read(path)
    try:
        nats = _nats(file.nats, flags.link, environment or {})
    except BadLinkOptions as error:
        raise ConfigFileError(f"{path}: nats: {error}" if path is not None else str(error)) from None
    return flags.over(_settings(file, flags.groups, nats))


def _nats(section: _Nats, flags: Layer, environment: Mapping[str, str]) -> Nats:
    layers = (flags, environment_layer(environment), section_layer(section, environment))
    return Nats(
        link=link_options(*layers, environment=environment, defaults=LINK_DEFAULTS),
        reconnect_wait_s=section.reconnect.wait_interval_sec,
        reconnect_attempts=section.reconnect.max_attempts,
        publish_timeout_s=section.publish_timeout_sec,
        pooled_links=section.pooled_links,
        pooled_link_idle_s=section.pooled_link_idle_sec,
    )


def _read(path: Path) -> _File:
    try:
        document: Any = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigFileError(f"cannot read {path}: {file_reason(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigFileError(_not_yaml(path, error)) from None
    document = {} if document is None else _without_nulls(document)
    problems = unknown_keys(document, _File)
    if not problems:
        try:
            return msgspec.convert(document, _File, dec_hook=_decode)
        except msgspec.ValidationError as error:
            problems.append(problem_of(error))
    raise ConfigFileError("\n".join(f"{path}: {_place(problem)}" for problem in problems))


def _not_yaml(path: Path, error: yaml.YAMLError | UnicodeDecodeError) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark is not None else str(path)
    return f"{place}: not YAML: {getattr(error, 'problem', None) or 'the text is not UTF-8'}"


def _place(problem: str) -> str:
    """Return msgspec's path without its root: `$.nats: …` as `nats: …`."""
    path, _, what = problem.partition(": ")
    place = path.removeprefix("$").removeprefix(".")
    return f"{place}: {what}" if place else what


def _decode(kind: type, value: Any) -> Any:
    """Decode paths, which msgspec does not know."""
    if kind is not Path or not isinstance(value, str):
        raise ValueError("expected the path of a file")
    return Path(value).expanduser()


def _without_nulls(value: Any) -> Any:
    """Remove keys without a value: they count as missing."""
    if isinstance(value, dict):
        return {str(key): _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _settings(file: _File, groups: frozenset[Group], nats: Nats) -> Settings:
    sections = {Group.MANAGEMENT: file.management, Group.DATAPLANE: file.dataplane}
    listeners: list[Listener] = []
    limits, logging, request_id_header = file.gateway.limits, file.gateway.logging, "Httpmq-Request-ID"
    for group in (Group.MANAGEMENT, Group.DATAPLANE):
        section = sections[group]
        if group not in groups:
            continue
        if section is None:
            continue
        listeners.append(_listener(section, group, groups))
        limits = _limits(limits, section.api_server.server_config)
        request_log = section.api_server.logging_config
        if request_log.request_id_header:
            request_id_header = request_log.request_id_header
        if request_log.do_not_log_headers is not None:
            logging = msgspec.structs.replace(
                logging, do_not_log_headers=tuple(request_log.do_not_log_headers)
            )
    if not listeners:
        port = MANAGEMENT_PORT if Group.MANAGEMENT in groups else DATAPLANE_PORT
        listeners.append(Listener(port=port, groups=groups))
    return Settings(
        nats=nats,
        listeners=tuple(listeners),
        tls=file.gateway.tls,
        auth=file.gateway.auth,
        cors=file.gateway.cors,
        limits=limits,
        logging=logging,
        request_id_header=request_id_header,
        hosts=file.gateway.hosts,
        h2c_upgrade=file.gateway.h2c_upgrade,
        strict=file.gateway.strict,
        relaxed_names=file.gateway.relaxed_names,
        metrics_path=file.gateway.metrics_path,
        read_only=file.gateway.read_only,
        lake=file.gateway.lake,
        otel=_otel(file.gateway.otel),
    )


def _otel(chosen: OtelOptions | bool | None) -> OtelOptions | None:
    """Return the options; `true` has all values from the environment."""
    options = OtelOptions() if chosen is True else chosen or None
    if options is not None and not is_installed():
        raise ConfigFileError(f"gateway.otel: {MISSING}")
    return options


def _listener(section: _Group, group: Group, groups: frozenset[Group]) -> Listener:
    server = section.api_server.server_config
    return Listener(
        host=server.listen_on if server.listen_on is not None else _LOOPBACK,
        port=server.listen_port if server.listen_port is not None else _PORTS[group],
        groups=groups,
        path_prefix=section.endpoint_config.path_prefix,
    )


def _limits(limits: Limits, server: _Server) -> Limits:
    """Return the limits with httpmq's time-outs in them; no time-out ends a subscription."""
    if server.read_timeout_sec is not None:
        seconds = server.read_timeout_sec
        limits = msgspec.structs.replace(limits, head_timeout_s=seconds, body_timeout_s=seconds)
    if server.write_timeout_sec is not None:
        limits = msgspec.structs.replace(limits, write_timeout_s=server.write_timeout_sec)
    if server.idle_timeout_sec is not None:
        limits = msgspec.structs.replace(limits, idle_timeout_s=server.idle_timeout_sec)
    return limits
