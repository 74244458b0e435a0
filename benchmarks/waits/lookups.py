"""Rows that only look: monitoring pages, lists, infos, requests of the system account."""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import ExitStack
from typing import Final

from benchmarks.waits.site import (
    ANSWER_S,
    Operation,
    Prepare,
    Row,
    Site,
    receive,
    subscribe,
    wait_for,
    wait_until,
)

_SYSTEM: Final = """
accounts {
    $SYS { users = [{user: sys, password: sys}] }
    A { users = [{user: a, password: a}], jetstream: enabled }
}
no_auth_user: a
"""


def many_streams(site: Site, size: int) -> None:
    """Make streams in memory, every tenth with a consumer."""
    for number in range(size):
        site.stream(f"many{number}", [f"many.{number}"], "memory")
        if number % 10 == 0:
            site.consumer("d", f"many{number}")


def jsz(site: Site, size: int, kept: ExitStack) -> Operation:
    many_streams(site, size)
    return lambda: site.get("/jsz?streams=1&consumers=1&config=1")


def varz(site: Site, size: int, kept: ExitStack) -> Operation:
    for connection in site.connect(size):
        kept.enter_context(connection)
    return lambda: site.get("/varz")


def connz(site: Site, size: int, kept: ExitStack) -> Operation:
    for connection in site.connect(size):
        kept.enter_context(connection)
    return lambda: site.get(f"/connz?subs=1&limit={size}")


def connz_four_at_once(site: Site, size: int, kept: ExitStack) -> Operation:
    for connection in site.connect(size):
        kept.enter_context(connection)
    return lambda: _at_once(site, [f"/connz?subs=1&limit={size}"] * 4)


def subsz(site: Site, size: int, kept: ExitStack) -> Operation:
    kept.enter_context(subscribe(site, size))
    return lambda: site.get(f"/subsz?subs=1&limit={size}")


def _at_once(site: Site, paths: list[str]) -> None:
    """Ask for several documents on connections of their own."""
    host, _, port = site.monitor_url.removeprefix("http://").partition(":")
    with ExitStack() as kept, selectors.DefaultSelector() as waiting:
        for path in paths:
            connection = kept.enter_context(socket.create_connection((host, int(port)), timeout=ANSWER_S))
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            waiting.register(connection, selectors.EVENT_READ, connection)
        while waiting.get_map():
            for key, _ in waiting.select(ANSWER_S):
                if not key.data.recv(1 << 20):
                    waiting.unregister(key.data)


def all_at_once(site: Site, size: int, kept: ExitStack) -> Operation:
    """Several long documents are asked for at once, of a server with much of everything."""
    many_streams(site, size)
    kept.enter_context(subscribe(site, size * 50))
    for connection in site.connect(size):
        kept.enter_context(connection)
    paths = [
        "/jsz?streams=1&consumers=1",
        "/connz?subs=1&limit=10000",
        "/subsz?subs=1&limit=100000",
        "/metrics",
    ]
    return lambda: _at_once(site, paths)


def slow_reader(site: Site, size: int, kept: ExitStack) -> Operation:
    """Somebody asks for a list of many subjects again and again, and reads slowly."""
    site.subjects(size)
    asker = kept.enter_context(site.dial(b"SUB _INBOX.w 1\r\n"))

    def ask() -> None:
        body = b'{"subjects_filter":">"}'
        asker.sendall(b"PUB $JS.API.STREAM.INFO.S _INBOX.w %d\r\n%b\r\n" % (len(body), body) * 10)
        wait_until(time.monotonic() + 2.0)
        receive(asker, 10, b"io.nats.jetstream.api.v1.stream_info_response")

    return ask


def page(path: str, *, streams: bool = False, subscriptions: bool = False) -> Prepare:
    """A page of a server with many streams, subscriptions of one client, or connections."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        if streams:
            many_streams(site, size)
        elif subscriptions:
            kept.enter_context(subscribe(site, size))
        else:
            for connection in site.connect(size):
                kept.enter_context(connection)
        return lambda: site.get(path.format(size=size))

    return prepare


def system(request: str, *, streams: bool = False) -> Prepare:
    """A request of the system account on a server with many streams or subscriptions."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        if streams:
            many_streams(site, size)
        else:
            kept.enter_context(subscribe(site, size))
        return lambda: site.request(f"$SYS.REQ.{request}", {"subscriptions": True, "limit": size}, user="sys")

    return prepare


def stream_names(site: Site, size: int, kept: ExitStack) -> Operation:
    many_streams(site, size)
    return lambda: [site.ask("STREAM.NAMES", {"offset": at}) for at in range(0, size, 1024)]


def stream_list(site: Site, size: int, kept: ExitStack) -> Operation:
    many_streams(site, size)
    return lambda: [site.ask("STREAM.LIST", {"offset": at}) for at in range(0, size, 256)]


def account_info(site: Site, size: int, kept: ExitStack) -> Operation:
    many_streams(site, size)
    return lambda: site.ask("INFO")


def _with_consumers(site: Site, size: int) -> None:
    site.stream("C", ["c.>"], "memory")
    for number in range(size):
        config = {"durable_name": f"d{number}", "ack_policy": "explicit"}
        site.ask(f"CONSUMER.DURABLE.CREATE.C.d{number}", {"stream_name": "C", "config": config})


def consumer_names(site: Site, size: int, kept: ExitStack) -> Operation:
    _with_consumers(site, size)
    return lambda: [site.ask("CONSUMER.NAMES.C", {"offset": at}) for at in range(0, size, 1024)]


def consumer_list(site: Site, size: int, kept: ExitStack) -> Operation:
    _with_consumers(site, size)
    return lambda: [site.ask("CONSUMER.LIST.C", {"offset": at}) for at in range(0, size, 256)]


def info_with_subjects(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number * 7919 % size}")
    return lambda: site.ask("STREAM.INFO.S", {"subjects_filter": ">"})


def info_with_deleted(site: Site, size: int, kept: ExitStack) -> Operation:
    site.stream("S", ["s.*"])
    site.fill(size, lambda number: f"s.{number % 2}")
    site.ask("STREAM.PURGE.S", {"filter": "s.1"})
    return lambda: site.ask("STREAM.INFO.S", {"deleted_details": True})


def account_purge(site: Site, size: int, kept: ExitStack) -> Operation:
    many_streams(site, size)

    def purge() -> None:
        site.request("$JS.API.ACCOUNT.PURGE.A", user="sys")
        wait_for(lambda: site.ask("INFO")["streams"] == 0)

    return purge


ROWS: Final[dict[str, Row]] = {
    "jsz": Row(jsz, 2_000),
    "varz": Row(varz, 5_000),
    "connz": Row(connz, 5_000),
    "connz-four-at-once": Row(connz_four_at_once, 5_000),
    "all-at-once": Row(all_at_once, 1_000, both=False),
    "slow-reader": Row(slow_reader, 100_000),
    "connz-detail": Row(page("/connz?subs=detail&limit={size}"), 5_000),
    "connz-one-client": Row(page("/connz?subs=detail", subscriptions=True), 250_000),
    "subsz": Row(subsz, 250_000),
    "subsz-test": Row(page("/subsz?subs=1&test=waits.7.x&limit={size}", subscriptions=True), 250_000),
    "accountz": Row(page("/accountz?acc=$G", subscriptions=True), 250_000),
    "accstatz": Row(page("/accstatz?unused=1"), 5_000),
    "healthz": Row(page("/healthz", streams=True), 2_000),
    "metrics": Row(page("/metrics", streams=True), 2_000, both=False),
    "metrics-connections": Row(page("/metrics"), 5_000, both=False),
    "system-connz": Row(system("SERVER.PING.CONNZ"), 250_000, _SYSTEM),
    "system-subsz": Row(system("SERVER.PING.SUBSZ"), 250_000, _SYSTEM),
    "system-statsz": Row(system("SERVER.PING.STATSZ"), 250_000, _SYSTEM),
    "system-accountz": Row(system("SERVER.PING.ACCOUNTZ"), 250_000, _SYSTEM),
    "system-jsz": Row(system("SERVER.PING.JSZ", streams=True), 2_000, _SYSTEM),
    "account-purge": Row(account_purge, 500, _SYSTEM),
    "stream-names": Row(stream_names, 2_000),
    "stream-list": Row(stream_list, 2_000),
    "account-info": Row(account_info, 2_000),
    "consumer-names": Row(consumer_names, 1_000),
    "consumer-list": Row(consumer_list, 1_000),
    "info-subjects": Row(info_with_subjects, 1_000_000),
    "info-deleted": Row(info_with_deleted, 1_000_000),
}
