"""`/routez` and `/gatewayz`: empty documents, because this server has no such connections."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.golang.time import format_time

if TYPE_CHECKING:
    from millstream.server.server import Server


class Routez(msgspec.Struct, frozen=True, kw_only=True):
    server_id: str
    server_name: str
    now: str
    num_routes: int = 0
    routes: list[Any] = []


class Gatewayz(msgspec.Struct, frozen=True, kw_only=True):
    server_id: str
    now: str
    outbound_gateways: dict[str, Any] = {}
    inbound_gateways: dict[str, Any] = {}


def routez(server: Server) -> Routez:
    broker = server.broker
    return Routez(
        server_id=broker.identity.server_id,
        server_name=broker.identity.server_name,
        now=format_time(time.time_ns()),
    )


def gatewayz(server: Server) -> Gatewayz:
    return Gatewayz(server_id=server.broker.identity.server_id, now=format_time(time.time_ns()))
