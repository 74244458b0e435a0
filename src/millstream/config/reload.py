"""Decide what a changed configuration means for a running server.

`plan_reload` compares two sets of options.  Changes that can be applied while clients stay connected are
sorted by the part of the server that applies them; a change that needs a restart raises ConfigError.  The
split is nats-server's.  This module applies nothing.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from millstream.broker.options import LeafOptions, RemoteOptions, TlsOptions
from millstream.config.errors import ConfigError
from millstream.config.options import ServerOptions
from millstream.jetstream.options import JetStreamOptions


class Area(StrEnum):
    """The part of the server that applies a change."""

    LOG = "log"
    TRACE = "trace"
    LIMITS = "limits"  # values that connections read or INFO announces
    AUTHORIZATION = "authorization"  # connected clients are checked again
    ACCOUNTS = "accounts"  # limits, exports, imports and mappings
    TLS = "tls"  # for new connections
    IDENTITY = "identity"  # what monitoring and INFO report about the server
    PROCESS = "process"
    JETSTREAM = "jetstream"
    LEAF = "leaf"  # links are made, ended, or compressed in another way


_RELOADABLE: Final = {
    "broker.client_advertise": Area.IDENTITY,
    "broker.server_tags": Area.IDENTITY,
    "broker.server_metadata": Area.IDENTITY,
    "broker.max_control_line": Area.LIMITS,
    "broker.max_payload": Area.LIMITS,
    "broker.max_connections": Area.LIMITS,
    "broker.ping_interval_s": Area.LIMITS,
    "broker.ping_max": Area.LIMITS,
    "broker.write_deadline_s": Area.LIMITS,
    "broker.no_fast_producer_stall": Area.LIMITS,
    "broker.max_traced_message": Area.TRACE,
    "broker.trace": Area.TRACE,
    "broker.trace_verbose": Area.TRACE,
    "broker.trace_headers": Area.TRACE,
    "broker.accounts": Area.ACCOUNTS,
    "broker.mappings": Area.ACCOUNTS,
    "broker.authorization.token": Area.AUTHORIZATION,
    "broker.authorization.username": Area.AUTHORIZATION,
    "broker.authorization.password": Area.AUTHORIZATION,
    "broker.authorization.users": Area.AUTHORIZATION,
    "broker.authorization.timeout_s": Area.AUTHORIZATION,
    "broker.authorization.oidc": Area.AUTHORIZATION,
    "broker.trust.preload": Area.ACCOUNTS,
    "broker.trust.resolver": Area.ACCOUNTS,
    "broker.tls": Area.TLS,
    "broker.websocket.tls": Area.TLS,
    "broker.leaf.compression": Area.LEAF,
    "monitor.tls": Area.TLS,
    "log.file": Area.LOG,
    "log.time": Area.LOG,
    "log.utc": Area.LOG,
    "log.debug": Area.LOG,
    "log.trace": Area.LOG,
    "process.pid_file": Area.PROCESS,
    "process.ports_file_dir": Area.PROCESS,
    "jetstream.enabled": Area.JETSTREAM,
    "jetstream.accounts": Area.JETSTREAM,
    "jetstream.erase_within_s": Area.JETSTREAM,
    "jetstream.memory_budget": Area.JETSTREAM,
}
_PARTS: Final = ("broker", "jetstream", "monitor", "arrow", "log", "process")
_OPENED: Final = ("broker.authorization", "broker.trust", "broker.websocket")  # compared field by field
_FIXED_TLS: Final = ("verify_and_map", "allow_non_tls", "connection_rate_limit")
_SECRET: Final = ("authorization", "leaf", "trust", "websocket", "tls", "otel")


class Change(msgspec.Struct, frozen=True):
    name: str  # dotted name of the option, such as `broker.max_payload`
    old: Any
    new: Any
    area: Area


class ReloadPlan(msgspec.Struct, frozen=True):
    """The changes to apply; `options` is the server's configuration afterwards."""

    options: ServerOptions
    changes: tuple[Change, ...] = ()

    @property
    def areas(self) -> frozenset[Area]:
        return frozenset(change.area for change in self.changes)


def plan_reload(old: ServerOptions, new: ServerOptions) -> ReloadPlan:
    """Return the changes from `old` to `new`; raise ConfigError naming each option that needs a restart."""
    if new.broker.port == -1:
        # "Any port" accepts the port in use.
        new = replace(new, broker=replace(new.broker, port=old.broker.port))
    changes: list[Change] = []
    refused: list[ConfigError] = []
    for name, before, after in _differences(old, new):
        area, reason = _judge(name, before, after, old, new)
        if area is None:
            refused.append(ConfigError(f"config reload not supported for {reason}"))
        else:
            changes.append(Change(name, before, after, area))
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise ConfigError(refused[0].reason, problems=tuple(refused))
    return ReloadPlan(new, tuple(changes))


def _differences(old: ServerOptions, new: ServerOptions) -> Iterator[tuple[str, Any, Any]]:
    for part in _PARTS:
        yield from _compare(part, getattr(old, part), getattr(new, part))
    if old.otel != new.otel:
        yield "millstream.otel", old.otel, new.otel


def _compare(prefix: str, old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    for field in old.__struct_fields__:
        name = f"{prefix}.{field}"
        before, after = getattr(old, field), getattr(new, field)
        if before == after:
            continue
        if name == "broker.leaf":
            yield from _compare(name, before or LeafOptions(), after or LeafOptions())
        elif name in _OPENED and isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
            yield from _compare(name, before, after)
        else:
            yield name, before, after


def _judge(
    name: str, before: Any, after: Any, old: ServerOptions, new: ServerOptions
) -> tuple[Area | None, str]:
    """Return the area of a change and "", or None and the reason why it needs a restart."""
    secret = any(word in name for word in _SECRET)
    key = name.partition(".")[2].removesuffix("_s")
    reason = key if secret else f"{key}: old={before}, new={after}"
    if name == "broker.authorization.no_auth_user":
        # It may be removed together with its user; connections that used it are then checked again.
        gone = not after and before not in {user.name for user in new.broker.authorization.users}
        return (Area.AUTHORIZATION, "") if gone else (None, reason)
    if name == "broker.authorization.callout":
        # The server has keys to sign with only if it started with a callout.
        return (None, reason) if before is None else (Area.AUTHORIZATION, "")
    if name == "broker.leaf.remotes":
        return (None, reason) if _is_rebuilt(before, after) else (Area.LEAF, "")
    if name == "broker.leaf.tls" and (before is None or after is None):
        return None, reason
    if name in ("broker.tls", "monitor.tls", "broker.websocket.tls", "broker.leaf.tls"):
        fixed = [part for part in _FIXED_TLS if _tls_part(before, part) != _tls_part(after, part)]
        return (None, f"{key}.{fixed[0]}") if fixed else (Area.TLS, "")
    if name.startswith("jetstream.") and name not in _RELOADABLE:
        return _judge_jetstream(name, before, after, old.jetstream, new.jetstream)
    return _RELOADABLE.get(name), reason


def _is_rebuilt(before: tuple[RemoteOptions, ...], after: tuple[RemoteOptions, ...]) -> bool:
    """Return True if a remote stays and changes in more than what a running link can follow."""
    old = {each.name: each for each in before}
    return any(
        each.name in old
        and replace(old[each.name], compression=each.compression, disabled=each.disabled, tls=each.tls)
        != each
        for each in after
    )


def _tls_part(tls: TlsOptions | None, part: str) -> Any:
    return getattr(tls, part) if tls else 0 if part == "connection_rate_limit" else False


def _judge_jetstream(
    name: str, before: Any, after: Any, old: JetStreamOptions, new: JetStreamOptions
) -> tuple[Area | None, str]:
    if not (old.enabled and new.enabled):
        return Area.JETSTREAM, ""  # JetStream is off, or starts or stops as a whole
    if name in ("jetstream.max_memory", "jetstream.max_file"):
        if before is None or after is None:
            return None, "jetstream dynamic max memory and store"
        if after < before:
            return None, "decreasing jetstream max memory and store"
        return Area.JETSTREAM, ""
    if name == "jetstream.store_dir":
        return None, "jetstream storage directory"
    return None, f"{name}: old={before}, new={after}"
