"""Rows about accounts: imports, mappings, reloads that add and remove them, and their tokens."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from functools import cache
from typing import Any, Final

from benchmarks.waits.site import Operation, Prepare, Row, Site, wait_for
from benchmarks.wire import WireError
from tests.kits.operator import Account, Operator, User
from tests.kits.wire import WireClient

_OPEN: Final = "any { users = [{user: any, password: any}], jetstream: enabled }"
_ANY: Final = "no_auth_user: any\n"


def _config(*accounts: str, more: str = "") -> str:
    lines = "\n".join(accounts)
    return f"accounts {{ {_OPEN}\n{lines} }}\n{_ANY}{more}"


def _importers(size: int, subject: str) -> list[str]:
    """An account with a service, and so many that import it."""
    exporter = f'X {{ users = [{{user: x, password: x}}], exports = [{{service: "{subject}"}}] }}'
    importer = (
        "A{0} {{ users = [{{user: u{0}, password: u{0}}}],"
        ' imports = [{{service: {{account: X, subject: "{1}"}}}}] }}'
    )
    return [exporter, *(importer.format(number, subject) for number in range(size))]


def accounts_come(site: Site, size: int, kept: ExitStack) -> Operation:
    return lambda: site.server.reload(_config(*_importers(size, "svc.>")))


def accounts_go(site: Site, size: int, kept: ExitStack) -> Operation:
    site.server.reload(_config(*_importers(size, "svc.>")))
    return lambda: site.server.reload(_config())


def imports_change(site: Site, size: int, kept: ExitStack) -> Operation:
    site.server.reload(_config(*_importers(size, "svc.>")))
    return lambda: site.server.reload(_config(*_importers(size, "other.>")))


def _imports_of_one(size: int, word: str) -> str:
    exports = ", ".join(f'{{stream: "{word}.{number}"}}' for number in range(size))
    imports = ", ".join(f'{{stream: {{account: X, subject: "{word}.{number}"}}}}' for number in range(size))
    return _config(
        f"X {{ users = [{{user: x, password: x}}], exports = [{exports}] }}",
        f"C {{ users = [{{user: c, password: c}}], imports = [{imports}] }}",
    )


def many_imports_change(site: Site, size: int, kept: ExitStack) -> Operation:
    """An account with many imports, to all of which a client subscribes, gets others."""
    site.server.reload(_imports_of_one(size, "a"))
    for number in range(20):
        kept.enter_context(site.dial(b"SUB > %d\r\n" % number, user="c"))
    return lambda: site.server.reload(_imports_of_one(size, "b"))


def mappings_change(site: Site, size: int, kept: ExitStack) -> Operation:
    """All mappings of an account change, beside many subscriptions."""

    def mapped(word: str) -> str:
        lines = "\n".join(f'"m.{number}": "{word}.{number}"' for number in range(size))
        return f"mappings {{ {lines} }}\n"

    lines = b"".join(b"SUB a.%d %d\r\n" % (number, number) for number in range(size))
    kept.enter_context(site.dial(lines))
    site.server.reload(mapped("a"))
    return lambda: site.server.reload(mapped("b"))


# -- tokens ---------------------------------------------------------------------------------------

_OPERATOR: Final = Operator("waits")
_AT_ONCE: Final = 100  # tokens; a server refuses many more


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="millstream-waits-")


def _tokens(more: str = "") -> str:
    resolver = f'{{ type: full, dir: "{tempfile.mkdtemp(dir=_folder().name)}", allow_delete: true }}'
    return _OPERATOR.config([_OPERATOR.account("any")], more, resolver) + _guest()


def _guest() -> str:
    return f'default_sentinel: "{_OPERATOR.account("any").user("any", bearer_token=True).token}"\n'


def _join(site: Site, user: User) -> WireClient:
    client: WireClient = user.join(lambda server: WireClient.connect(server.port), site.server)
    return client


def _push(client: WireClient, accounts: list[Account]) -> None:
    """Send the tokens of accounts, some at a time; return when all are accepted."""
    client.send(b"SUB box 1\r\n")
    for start in range(0, len(accounts), _AT_ONCE):
        tokens = [each.token.encode() for each in accounts[start : start + _AT_ONCE]]
        lines = (b"PUB $SYS.REQ.CLAIMS.UPDATE box %d\r\n%b\r\n" % (len(each), each) for each in tokens)
        client.send(b"".join(lines))
        for _ in tokens:
            answer = client.read_frame()
            if b"jwt updated" not in answer:
                raise WireError(f"a token was refused: {answer!r}")
    client.send(b"UNSUB 1\r\n")


def tokens(request: str) -> Prepare:
    """Tokens of many accounts are sent, or asked for."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        system = kept.enter_context(_join(site, _OPERATOR.system.user("sys")))
        many = [_OPERATOR.account(f"A{number}") for number in range(size)]
        if not request:
            return lambda: _push(system, many)
        _push(system, many)

        def ask() -> None:
            system.send(b"SUB answer 2\r\nPUB $SYS.REQ.CLAIMS.%b answer 0\r\n\r\n" % request.encode())
            frames = size + 3 if request == "PACK" else 1
            for _ in range(frames):
                system.read_frame()

        return ask

    return prepare


def token_changes(**changes: Any) -> Prepare:
    """The token of an account with many connected users changes."""

    def prepare(site: Site, size: int, kept: ExitStack) -> Operation:
        system = kept.enter_context(_join(site, _OPERATOR.system.user("sys")))
        account = _OPERATOR.account("B")
        _push(system, [account])
        user = account.user("one")
        for number in range(size):
            client = kept.enter_context(_join(site, user))
            client.send(b"SUB a.%d 1\r\n" % number)
        return lambda: _push(system, [account.but(**changes)])

    return prepare


def tokens_of_users(site: Site, size: int, kept: ExitStack) -> Operation:
    """Users with tokens connect one after the other; each signs a nonce."""
    system = kept.enter_context(_join(site, _OPERATOR.system.user("sys")))
    account = _OPERATOR.account("B")
    _push(system, [account])
    users = [account.user(f"u{number}") for number in range(size)]

    def connect() -> None:
        for each in users:
            kept.enter_context(_join(site, each))

    return connect


def users_revoked(site: Site, size: int, kept: ExitStack) -> Operation:
    """All users of an account are revoked, each of whom is connected."""
    system = kept.enter_context(_join(site, _OPERATOR.system.user("sys")))
    account = _OPERATOR.account("B")
    _push(system, [account])
    for number in range(size):
        kept.enter_context(_join(site, account.user(f"u{number}")))

    def revoke() -> None:
        _push(system, [account.but(revocations={"*": 4_000_000_000})])
        wait_for(lambda: json.loads(site.get("/varz"))["connections"] <= 2)

    return revoke


ROWS: Final[dict[str, Row]] = {
    "accounts-come": Row(accounts_come, 5_000, _config),
    "accounts-go": Row(accounts_go, 5_000, _config),
    "imports-change": Row(imports_change, 2_000, _config),
    "many-imports-change": Row(many_imports_change, 2_000, _config),
    "mappings-change": Row(mappings_change, 5_000, "mappings {}\n"),
    "tokens-come": Row(tokens(""), 2_000, _tokens),
    "tokens-listed": Row(tokens("LIST"), 2_000, _tokens),
    "tokens-packed": Row(tokens("PACK"), 2_000, _tokens),
    "token-changes": Row(token_changes(limits={"subs": 50_000}), 2_000, _tokens),
    "token-revokes": Row(users_revoked, 2_000, _tokens),
    "tokens-of-users": Row(tokens_of_users, 1_000, _tokens),
}
