"""Rows about leaf links: a spoke with many subscriptions comes, asks and goes."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from functools import cache
from typing import Final

from benchmarks.waits.site import Operation, Row, Site, more, receive, subscribe, wait_for
from benchmarks.wire import PING, prepare
from tests.kits.ports import free_ports


@cache
def _port() -> int:
    return free_ports(1)[0]


def _config() -> str:
    return f'server_name: hub\nleafnodes {{ listen: "127.0.0.1:{_port()}", compression: off }}\n'


def _spoke(kept: ExitStack) -> socket.socket:
    """Connect as a spoke does."""
    connection = kept.enter_context(prepare(socket.create_connection(("127.0.0.1", _port()))))
    seen = b""
    while b"\r\n" not in seen:
        seen = more(connection, seen)
    login = {"name": "spoke", "server_id": "spoke", "headers": True, "remote_account": "$G"}
    connection.sendall(b"CONNECT %b\r\n%b" % (json.dumps(login).encode(), PING))
    return connection


def leaf_comes(site: Site, size: int, kept: ExitStack) -> Operation:
    """A spoke is told of many subscriptions."""
    kept.enter_context(subscribe(site, size))
    return lambda: receive(_spoke(kept), size, b"LS+ waits.")


def _asks(size: int) -> bytes:
    return b"".join(b"LS+ there.%d\r\n" % number for number in range(size)) + PING


def leaf_asks(site: Site, size: int, kept: ExitStack) -> Operation:
    """A spoke asks for many subjects, and for none of them any more."""
    lines = _asks(size)

    def operate() -> None:
        spoke = _spoke(kept)
        spoke.sendall(lines)
        receive(spoke, 2, b"PONG")
        spoke.sendall(lines.replace(b"LS+", b"LS-"))
        receive(spoke, 1, b"PONG")

    return operate


def leaf_goes(site: Site, size: int, kept: ExitStack) -> Operation:
    """A spoke goes that has asked for many subjects."""
    spoke = _spoke(kept)
    spoke.sendall(_asks(size))
    receive(spoke, 2, b"PONG")

    def operate() -> None:
        spoke.close()
        wait_for(lambda: json.loads(site.get("/leafz"))["leafnodes"] == 0)

    return operate


def leaf_page(site: Site, size: int, kept: ExitStack) -> Operation:
    spoke = _spoke(kept)
    spoke.sendall(_asks(size))
    receive(spoke, 2, b"PONG")
    return lambda: site.get("/leafz?subs=1")


def leaf_subscribes(site: Site, size: int, kept: ExitStack) -> Operation:
    """A client subscribes to much and goes, of which a spoke is told."""
    spoke = _spoke(kept)

    def operate() -> None:
        subscribe(site, size).close()
        receive(spoke, size, b"LS- waits.")

    return operate


ROWS: Final[dict[str, Row]] = {
    "leaf-comes": Row(leaf_comes, 100_000, _config),
    "leaf-asks": Row(leaf_asks, 100_000, _config),
    "leaf-goes": Row(leaf_goes, 100_000, _config),
    "leaf-subscribes": Row(leaf_subscribes, 100_000, _config),
    "leafz": Row(leaf_page, 100_000, _config),
}
