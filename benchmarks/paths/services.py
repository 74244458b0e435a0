"""Accounts: permissions, imports, exports, subject mappings."""

import socket

from benchmarks.paths.client import BODY, Client, pub
from benchmarks.paths.routing import _plain, _send_all
from benchmarks.paths.run import Run, path

_SOME = 50_000
_ACCOUNTS = 200


def _login(run: Run, user: str) -> Client:
    connection = socket.create_connection(("127.0.0.1", run.server.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.recv(1 << 16)
    options = b'"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"user":"%b","pass":"p"'
    connection.sendall(b"CONNECT {%b}\r\n" % (options % user.encode()))
    return run.keep(Client(run.server.port, connection, b"_INBOX.%b" % user.encode()))


_PERMISSIONS = """
authorization { users: [
  { user: free, password: p }
  { user: bound, password: p, permissions: {
      publish: { allow: ["a.>", "b.*.c", "d.e.f", "_INBOX.>", "$JS.API.>"], deny: ["a.secret.>", "b.x.c"] },
      subscribe: { allow: ["a.>", "_INBOX.>"], deny: ["a.secret.>"] } } }
] }
"""


@path(10, 50_000, config=_PERMISSIONS)
def permissions(run: Run) -> None:
    """A restricted user that publishes and listens, to so many subjects."""
    for user in ("free", "bound"):
        client, listener = _login(run, user), _login(run, user)
        listener.send(b"SUB a.> 5\r\n")
        listener.flush()
        with run.timed(f"{user}: publish", _SOME):
            _send_all(client, [_plain(b"a.%d" % (number % run.size)) for number in range(_SOME)])
            listener.receive(_SOME)


_IMPORTS = """
accounts {
  A: { users: [{ user: a, password: p }], exports: [{ service: "svc.>" }, { stream: "feed.>" }] }
  B: { users: [{ user: b, password: p }], imports: [
    { service: { account: A, subject: "svc.>" }, to: "there.>" },
    { stream: { account: A, subject: "feed.>" }, prefix: "in" } ] }
}
"""


def _many_accounts() -> str:
    each = "".join(
        f"A{n} {{ jetstream: enabled, users: [{{user: u{n}, password: p}}] }}\n" for n in range(_ACCOUNTS)
    )
    return f"accounts {{\n{each}}}\n"


@path(1, _ACCOUNTS, config=_many_accounts)
def accounts(run: Run) -> None:
    """Streams of many accounts, one each, with one connection to each account."""
    clients = [_login(run, f"u{number}") for number in range(run.size)]
    with run.timed("create", run.size):
        for client in clients:
            client.stream("S", "s.*")
    rounds = 20_000 // run.size
    with run.timed("publish", rounds * run.size):
        for client in clients:
            client.send(pub(b"s.1", BODY, client.inbox) * rounds)
        for client in clients:
            client.receive(rounds)
    with run.timed("account info", 10 * run.size):
        for client in clients:
            client.exchange([pub(b"$JS.API.INFO", b"", client.inbox)] * 10, 1)
    run.restart("restart after a kill", kill=True)


@path(1, 10_000, config=_IMPORTS)
def imports(run: Run) -> None:
    """Requests and a feed of messages between two accounts, over so many subjects."""
    server, client = _login(run, "a"), _login(run, "b")
    server.send(b"SUB svc.> 5\r\n")
    server.flush()
    count = 20_000
    with run.timed("requests", count):
        for start in range(0, count, 100):
            numbers = range(start, start + 100)
            client.send(
                b"".join(b"PUB there.%d _INBOX.b.%d 2\r\nhi\r\n" % (n % run.size, n) for n in numbers)
            )
            server.send(b"".join(b"PUB %b 2\r\nho\r\n" % reply for reply in server.replies(100)))
            client.receive(100)
    client.send(b"SUB in.feed.> 6\r\n")
    client.flush()
    with run.timed("feed", _SOME):
        _send_all(server, [_plain(b"feed.%d" % (number % run.size)) for number in range(_SOME)])
        client.receive(_SOME)


_MAPPINGS = """
mappings {
  "in.*.*": "out.{{wildcard(2)}}.{{wildcard(1)}}"
  "part.*": "parts.{{partition(16,1)}}.{{wildcard(1)}}"
  "split": [ { destination: "split.a", weight: 50% }, { destination: "split.b", weight: 50% } ]
}
"""


@path(10, 50_000, config=_MAPPINGS)
def mappings(run: Run) -> None:
    client, listener = run.client(), run.client()
    listener.send(b"SUB out.> 5\r\nSUB parts.> 6\r\nSUB split.* 7\r\nSUB plain.> 8\r\n")
    listener.flush()
    for name, subject in (("tokens", b"in.%d.x"), ("partition", b"part.%d"), ("not mapped", b"plain.%d")):
        with run.timed(name, _SOME):
            _send_all(client, [_plain(subject % (number % run.size)) for number in range(_SOME)])
            listener.receive(_SOME)
    with run.timed("weights", _SOME):
        _send_all(client, [b"PUB split 128\r\n%b\r\n" % BODY] * _SOME)
        listener.receive(_SOME)


_RULES = (10, 1_000)  # with a wildcard each, of the two users


def _many_rules() -> str:
    users = []
    for count in _RULES:
        allow = ", ".join(f'"a{number}.*.x"' for number in range(count))
        deny = ", ".join(f'"a{number}.secret.>"' for number in range(count))
        rules = f'{{ allow: [{allow}, "_INBOX.>"], deny: [{deny}] }}'
        users.append(
            f"{{ user: u{count}, password: p, permissions: {{ publish: {rules}, subscribe: {rules} }} }}"
        )
    return f"authorization {{ users: [ {', '.join(users)} ] }}\n"


@path(*_RULES, config=_many_rules)
def many_rules(run: Run) -> None:
    """A user with so many permissions publishes to changing subjects, subscribes and connects."""
    user = f"u{run.size}"
    client, listener = _login(run, user), _login(run, user)
    with run.timed("publish", _SOME):
        _send_all(client, [_plain(b"a%d.%d.x" % (number % run.size, number)) for number in range(_SOME)])
        client.flush()
    with run.timed("subscribe", _SOME):
        listener.send(
            b"".join(
                b"SUB a%d.%d.x %d\r\n" % (number % run.size, number, number + 10) for number in range(_SOME)
            )
        )
        listener.flush()
    with run.timed("connect", 200):
        for _ in range(200):
            _login(run, user).flush()


_SOURCES = 1_000


def _many_mappings() -> str:
    shares = "[{{ destination: n{0}.$1, weight: 60 }}, {{ destination: o{0}.$1, weight: 40 }}]"
    lines = "".join(f"m{number}.*: {shares.format(number)}\n" for number in range(_SOURCES))
    return f"mappings = {{\n{lines}}}\n"


@path(1, _SOURCES, config=_many_mappings)
def many_mappings(run: Run) -> None:
    """Publish to the first so many of a thousand weighted mappings, and to subjects that none covers."""
    client = run.client()
    for name, start in (("mapped", b"m"), ("not mapped", b"q")):
        with run.timed(name, _SOME):
            _send_all(
                client, [_plain(b"%b%d.%d" % (start, number % run.size, number)) for number in range(_SOME)]
            )
            client.flush()


_SHARED = 3_000


def _many_imports() -> str:
    kinds = [f"{kind}{number}" for number in range(_SHARED) for kind in ("service", "stream")]
    exports = ", ".join(f'{{ {kind.rstrip("0123456789")}: "{kind}.>" }}' for kind in kinds)
    imports = ", ".join(
        f'{{ {kind.rstrip("0123456789")}: {{ account: A, subject: "{kind}.>" }} }}' for kind in kinds
    )
    users = "users: [{{ user: {0}, password: p }}]"
    return (
        f"accounts {{ A: {{ {users.format('a')}, exports: [{exports}] }}\n"
        f" B: {{ {users.format('b')}, imports: [{imports}] }} }}\n"
    )


@path(2 * _SHARED, config=_many_imports)
def many_imports(run: Run) -> None:
    """Start with so many imports, and use one of them."""
    run.restart("start")
    server, client = _login(run, "a"), _login(run, "b")
    server.send(b"SUB service7.> 3\r\n")
    server.flush()
    count, at_once = 5_000, 100
    with run.timed("requests", count):
        for _ in range(count // at_once):
            client.send(b"".join([pub(b"service7.x", b"hi", client.inbox)] * at_once))
            server.send(b"".join(b"PUB %b 2\r\nok\r\n" % reply for reply in server.replies(at_once)))
            client.receive(at_once)
