"""Rows about consumers that change or end with much on their hands, and about many of them."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack
from typing import Any, Final

from benchmarks.waits.consumers import make_many, pull_from_each
from benchmarks.waits.site import Operation, Prepare, Row, Site, next_message, receive
from benchmarks.wire import PING, WireError, dial

_LONG: Final = 3600 * 1_000_000_000


def consumers_go(site: Site, size: int, kept: ExitStack) -> Operation:
    """One client deletes many consumers, each of which has messages pending, one after the other."""
    _many_pending(site, size)

    def operate() -> None:
        with dial(site.address, greeting=b"SUB _INBOX.c 1\r\n") as connection:
            for number in range(size):
                connection.sendall(b"PUB $JS.API.CONSUMER.DELETE.S.d%d _INBOX.c 0\r\n\r\n" % number)
                if b'"error"' in next_message(connection):
                    raise WireError("cannot delete a consumer")

    return operate


def purge_of_many_pending(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream is purged while each of many consumers waits for acknowledgements."""
    _many_pending(site, size)
    return lambda: site.ask("STREAM.PURGE.S")


def fewer_consumers(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream with many consumers may have fewer from now on."""
    _many_pending(site, size)
    body = {"name": "S", "subjects": ["s.*"], "max_consumers": 1}
    return lambda: json.loads(site.request("$JS.API.STREAM.UPDATE.S", body))


def _many_pending(site: Site, size: int) -> None:
    site.stream("S", ["s.*"], max_consumers=size)
    make_many(site, size)
    site.fill(1000, lambda number: f"s.{number % 10}")
    with dial(site.address, greeting=b"SUB _INBOX.n 1\r\n") as connection:
        pull_from_each(connection, size, 200)


def filters_of_pending_change(site: Site, size: int, kept: ExitStack) -> Operation:
    """A consumer that waits for many acknowledgements wants other subjects."""
    site.stream("S", ["s.*"], retention="interest")
    kept.enter_context(site.take(size, ack_wait=_LONG))
    return lambda: site.consumer("d", max_ack_pending=-1, ack_wait=_LONG, filter_subject="s.1")


def filters_of_lasts_change(site: Site, size: int, kept: ExitStack) -> Operation:
    """A consumer that is to deliver the last message of many subjects wants other ones."""
    site.subjects(size)
    config: dict[str, Any] = {"deliver_policy": "last_per_subject"}
    site.consumer("d", filter_subject="s.*", **config)
    return lambda: site.consumer("d", filter_subjects=["s.1", "s.2"], **config)


def asked(endpoint: str) -> Prepare:
    """A consumer that many requests wait at goes."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.stream("S", ["s.*"])
        site.consumer("d", max_waiting=size)
        body = json.dumps({"batch": 1, "expires": _LONG}).encode()
        line = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.d _INBOX.n.%d %d\r\n%b\r\n"
        connection = kept.enter_context(dial(site.address, greeting=b"SUB _INBOX.n.* 1\r\n"))
        lines = [line % (number, len(body), body) for number in range(size)]
        connection.sendall(b"".join(lines) + PING)
        receive(connection, 1, b"PONG")

        def operate() -> None:
            site.ask(endpoint)
            receive(connection, size, b" 409 ")

        return operate

    return prepare


def reset_by_key(site: Site, size: int, kept: ExitStack) -> Operation:
    """A consumer with an order by key, which waits for an acknowledgement of each key, begins anew."""
    site.stream("S", ["s.*"])
    metadata = {"millstream.max_ack_pending_per_subject": "1"}
    site.consumer("d", max_ack_pending=size, ack_wait=_LONG, metadata=metadata)
    site.fill(size, lambda number: f"s.{number}")
    connection = kept.enter_context(dial(site.address, greeting=b"SUB _INBOX.n 1\r\n"))
    body = json.dumps({"batch": size, "expires": _LONG}).encode()
    connection.sendall(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.d _INBOX.n %d\r\n%b\r\n" % (len(body), body))
    receive(connection, size)
    return lambda: site.ask("CONSUMER.RESET.S.d")


def pages_of_connections(site: Site, size: int, kept: ExitStack) -> Operation:
    """Pages of many connections are asked for in every order."""
    for each in site.connect(size):
        kept.enter_context(each)

    def operate() -> None:
        for order in ("cid", "subs", "pending", "bytes_to", "msgs_from", "last", "idle", "uptime", "rtt"):
            site.get(f"/connz?sort={order}&limit={size}")

    return operate


def proxied_clients_come(site: Site, size: int, kept: ExitStack) -> Operation:
    """Clients connect through a proxy, which says where they come from."""
    header = b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 4222\r\n"
    hello = b'CONNECT {"verbose":false,"protocol":1}\r\n' + PING

    def operate() -> None:
        found = [kept.enter_context(_socket(site)) for _ in range(size)]
        for each in found:
            each.sendall(header + hello)
        for each in found:
            receive(each, 1, b"PONG")
        time.sleep(0.1)

    return operate


def _socket(site: Site) -> socket.socket:
    return socket.create_connection((site.address.host, site.address.port))


ROWS: Final[dict[str, Row]] = {
    "consumers-go": Row(consumers_go, 1_000),
    "purge-many-pending": Row(purge_of_many_pending, 1_000),
    "fewer-consumers": Row(fewer_consumers, 5_000),
    "filters-change-pending": Row(filters_of_pending_change, 1_000_000),
    "filters-of-lasts-change": Row(filters_of_lasts_change, 1_000_000),
    "consumer-goes-asked": Row(asked("CONSUMER.DELETE.S.d"), 50_000),
    "delete-stream-asked": Row(asked("STREAM.DELETE.S"), 50_000),
    "keys-reset": Row(reset_by_key, 300_000, both=False),
    "connz-sorted": Row(pages_of_connections, 5_000),
    "proxied-open": Row(proxied_clients_come, 1_000, "proxy_protocol: true\n"),
}
