"""Rows about clients: subscriptions, wide deliveries, imports, reloads, and clients that go."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Final

from benchmarks.waits.site import Operation, Prepare, Row, Site, more, next_message, receive, subscribe
from benchmarks.wire import PING, dial


def subscriber_leaves(site: Site, size: int, kept: ExitStack) -> Operation:
    leaver = subscribe(site, size)
    kept.callback(leaver.close)
    return leaver.close


def connections_close(site: Site, size: int, kept: ExitStack) -> Operation:
    leavers = site.connect(size)

    def close() -> None:
        for each in leavers:
            each.close()

    kept.callback(close)
    return close


def wide(group: bytes = b"", messages: int = 1) -> Prepare:
    """Messages go to many subscriptions of one connection."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        lines = b"".join(b"SUB wide %b%d\r\n" % (group, number) for number in range(1, size + 1))
        receiver = kept.enter_context(dial(site.address, greeting=lines))
        sender = kept.enter_context(dial(site.address))

        def publish() -> None:
            sender.sendall(b"PUB wide 2\r\nhi\r\n" * messages)
            receive(receiver, messages if group else size * messages, b"MSG wide ")

        return publish

    return prepare


def wide_connections(site: Site, size: int, kept: ExitStack) -> Operation:
    """One message goes to many connections."""
    receivers = site.connect(size)
    for each in receivers:
        kept.enter_context(each)
    sender = kept.enter_context(dial(site.address))

    def publish() -> None:
        sender.sendall(b"PUB conn 2\r\nhi\r\n")
        for each in receivers:
            receive(each, 1, b"MSG conn ")

    return publish


def wide_groups(site: Site, size: int, kept: ExitStack) -> Operation:
    """Each message goes to one connection of a large queue group."""
    receivers = site.connect(size, b"SUB conn workers 1\r\n")
    for each in receivers:
        kept.enter_context(each)
    sender = kept.enter_context(dial(site.address))

    def publish() -> None:
        sender.sendall(b"PUB conn 2\r\nhi\r\n" * 5_000 + PING)
        receive(sender, 1, b"PONG")
        for each in receivers:
            each.close()

    return publish


def all_is_heard(site: Site, size: int, kept: ExitStack) -> Operation:
    """Somebody subscribes to everything beside many subscriptions and subjects in use."""
    kept.enter_context(subscribe(site, size))
    sender = kept.enter_context(dial(site.address))
    sender.sendall(b"".join(b"PUB waits.%d.y 0\r\n\r\n" % number for number in range(size)) + PING)
    receive(sender, 1, b"PONG")

    def listen() -> None:
        with dial(site.address, greeting=b"SUB > 1\r\nSUB waits.*.x 2\r\nSUB waits.> 3 \r\n"):
            pass

    return listen


def subscriptions_end(site: Site, size: int, kept: ExitStack) -> Operation:
    """A client ends its subscriptions one by one."""
    client = kept.enter_context(subscribe(site, size))
    lines = b"".join(b"UNSUB %d\r\n" % number for number in range(1, size + 1)) + PING

    def end() -> None:
        client.sendall(lines)
        receive(client, 1, b"PONG")

    return end


def large_headers(site: Site, size: int, kept: ExitStack) -> Operation:
    """A stream takes messages with headers of 60 KiB."""
    site.stream("S", ["s.*"], allow_msg_ttl=True)
    head = "\r\n".join(f"X-{number}: {number}" for number in range(4_500))
    return lambda: site.fill(size, lambda number: "s.1", lambda _: head)


def users(size: int, allowed: str, accounts: bool = False) -> str:
    """A configuration with so many users, in one account or in one each."""
    permissions = f'permissions: {{publish: {{allow: ["{allowed}", "x.>"]}}, subscribe: {{allow: [">"]}}}}'
    if not accounts:
        each = "\n".join(f"{{user: u{n}, password: u{n}, {permissions}}}" for n in range(size))
        return f"authorization {{ users = [{{user: any, password: any}}\n{each}] }}\nno_auth_user: any\n"
    each = "\n".join(
        f"A{n} {{ users = [{{user: u{n}, password: u{n}, {permissions}}}] }}" for n in range(size)
    )
    return f"accounts {{ G {{ users = [{{user: any, password: any}}] }}\n{each} }}\nno_auth_user: any\n"


def reload(accounts: bool) -> Prepare:
    """The permissions of all users change, each of whom is connected."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        site.server.reload(users(size, "a.>", accounts))
        for number in range(size):
            kept.enter_context(site.dial(b"SUB a.%d 1\r\n" % number, user=f"u{number}"))
        return lambda: site.server.reload(users(size, "b.>", accounts))

    return prepare


def wide_consumer(site: Site, size: int, kept: ExitStack) -> Operation:
    """A push consumer delivers to many connections."""
    receivers = site.connect(size, b"SUB push 1\r\n")
    for each in receivers:
        kept.enter_context(each)
    site.stream("S", ["s"])
    site.fill(20, lambda _: "s")

    def deliver() -> None:
        site.consumer("d", ack_policy="none", deliver_subject="push")
        for each in receivers:
            receive(each, 20, b"MSG s ")

    return deliver


def reload_revokes(site: Site, size: int, kept: ExitStack) -> Operation:
    """A client with many subscriptions may no longer have any of them."""
    site.server.reload(_subscriber(">"))
    lines = b"".join(b"SUB a.%d %d\r\n" % (number, number) for number in range(1, size + 1))
    client = kept.enter_context(site.dial(lines, user="u"))

    def revoke() -> None:
        site.server.reload(_subscriber("b.>"))
        receive(client, size, b"-ERR ")

    return revoke


def _subscriber(allowed: str) -> str:
    user = f'{{user: u, password: u, permissions: {{subscribe: {{allow: ["{allowed}"]}}}}}}'
    return f"authorization {{ users = [{{user: any, password: any}}, {user}] }}\nno_auth_user: any\n"


def imports_answered(site: Site, size: int, kept: ExitStack) -> Operation:
    """Requests to a service of another account are under way together, and answered."""
    client, service = _import(site, kept)

    def exchange() -> None:
        _ask(client, size)
        seen = b""
        replies: list[bytes] = []
        while len(replies) < size:
            *lines, seen = more(service, seen).split(b"\r\n")
            replies += [line.split(b" ")[3] for line in lines if b"MSG svc." in line]
        service.sendall(b"".join(b"PUB %b 2\r\nho\r\n" % reply for reply in replies))
        receive(client, size, b"MSG _INBOX.")

    return exchange


def importer_leaves(site: Site, size: int, kept: ExitStack) -> Operation:
    """A client goes whose requests to a service of another account are not answered."""
    client, service = _import(site, kept)
    _ask(client, size)
    receive(service, size, b"MSG svc.")
    return client.close


def _import(site: Site, kept: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Connect a client, and the service that it imports."""
    service = kept.enter_context(site.dial(b"SUB svc.> 1\r\n", user="s"))
    return kept.enter_context(site.dial(b"SUB _INBOX.r.* 1\r\n", user="c")), service


def _ask(client: socket.socket, size: int) -> None:
    client.sendall(b"".join(b"PUB svc.%d _INBOX.r.%d 2\r\nhi\r\n" % (n % 100, n) for n in range(size)))


_IMPORTS: Final = """
accounts {
  S { users = [{user: s, password: s}], exports = [{service: "svc.>"}] }
  C { users = [{user: c, password: c}], imports = [{service: {account: S, subject: "svc.>"}}] }
  A { users = [{user: a, password: a}] }
}
no_auth_user: a
"""


def account_goes(site: Site, size: int, kept: ExitStack) -> Operation:
    """An account with many streams is not in the configuration any more."""
    with site.dial(b"SUB _INBOX.w 1\r\n", user="b") as client:
        for number in range(size):
            body = b'{"name":"S%d","subjects":["s.%d"]}' % (number, number)
            line = b"PUB $JS.API.STREAM.CREATE.S%d _INBOX.w %d\r\n%b\r\n" % (number, len(body), body)
            client.sendall(line)
            next_message(client)
    return lambda: site.server.reload(_accounts())


def _accounts(more: str = "") -> str:
    a = "A { users = [{user: a, password: a}], jetstream: enabled }"
    return f"accounts {{ {a}\n{more} }}\nno_auth_user: a\n"


ROWS: Final[dict[str, Row]] = {
    "subscriber-leaves": Row(subscriber_leaves, 250_000),
    "subscriptions-end": Row(subscriptions_end, 250_000),
    "all-is-heard": Row(all_is_heard, 250_000),
    "connections-close": Row(connections_close, 5_000),
    "wide-one": Row(wide(), 250_000),
    "wide-connections": Row(wide_connections, 5_000),
    "group-one": Row(wide(b"workers ", 1_000), 50_000),
    "group-connections": Row(wide_groups, 5_000),
    "large-headers": Row(large_headers, 1_000),
    "wide-consumer": Row(wide_consumer, 5_000),
    "reload-revokes": Row(reload_revokes, 100_000, _subscriber(">")),
    "reload-account-goes": Row(
        account_goes, 500, _accounts("B { users = [{user: b, password: b}], jetstream: enabled }")
    ),
    "imports-answered": Row(imports_answered, 50_000, _IMPORTS),
    "importer-leaves": Row(importer_leaves, 50_000, _IMPORTS),
    "reload-users": Row(reload(accounts=False), 2_000, users(1, "a.>")),
    "reload-accounts": Row(reload(accounts=True), 1_000, users(1, "a.>", accounts=True)),
}
