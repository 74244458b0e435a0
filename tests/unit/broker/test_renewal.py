"""A reload with thousands of clients: in slices, and nobody acts by the old rules meanwhile."""

from typing import Any

import pytest
from msgspec.structs import replace

from millstream.base.slices import finish
from millstream.broker import reload
from millstream.broker.auth import ClientAuthenticator
from millstream.broker.broker import Broker
from millstream.broker.options import (
    AccountOptions,
    Authorization,
    BrokerOptions,
    Export,
    ExportKind,
    Import,
    MapDestination,
    Permissions,
    SubjectMapping,
    SubjectRules,
    User,
)
from tests.kits.broker import client, loop_of, make_broker
from tests.kits.fake_transport import FakeClient

NAMES = [f"u{number}" for number in range(300)]


def options(allowed: str, names: list[str] = NAMES, **more: Any) -> BrokerOptions:
    rules = SubjectRules(allow=(allowed, "_INBOX.>"))
    permissions = Permissions(publish=rules, subscribe=rules)
    users = tuple(User(name=name, password=name, permissions=permissions) for name in names)
    return BrokerOptions(authorization=Authorization(users=users), **more)


def begin(broker: Broker, new: BrokerOptions) -> Any:
    """Put options in force, and check no client."""
    pieces = reload.apply_in_slices(broker, new, ClientAuthenticator(new))
    while broker.options is not new:
        next(pieces)
    return pieces


def joined(**more: Any) -> tuple[Broker, list[FakeClient]]:
    broker = make_broker(authorization=options("old.>").authorization, **more)
    return broker, [client(broker, name) for name in NAMES]


def test_clients_are_checked_in_slices() -> None:
    broker, clients = joined()
    broker.turns.in_slices("reload", begin(broker, options("new.>")))
    checked = []
    while broker.turns.long_works:
        loop_of(broker).run_one_round()
        checked.append(sum(not each.connection.outdated for each in clients))
    assert checked[-1] == len(clients)
    assert clients[0].say(b"PUB new.1 0\r\n\r\n") == b""
    assert broker.renewal is None


def test_a_client_that_was_not_checked_yet_publishes_by_the_new_rules() -> None:
    broker, clients = joined()
    pieces = begin(broker, options("new.>"))
    clients[-1].transport.receive(b"PUB new.1 0\r\n\r\nPUB old.1 0\r\n\r\n")
    heard = bytes(clients[-1].transport.sent)
    assert heard.count(b"-ERR 'Permissions Violation for Publish to \"old.1\"'") == 1
    assert b"new.1" not in heard
    assert clients[-2].connection.outdated
    finish(pieces)


def test_a_client_that_was_not_checked_yet_gets_nothing_that_the_new_rules_deny() -> None:
    broker, clients = joined()
    last, sender = clients[-1], clients[0]
    last.say(b"SUB old.x 1\r\n")
    pieces = begin(broker, replace(options("new.>"), authorization=_open_for("u0")))
    sender.transport.receive(b"PUB old.x 2\r\nno\r\n")
    assert b"MSG" not in bytes(last.transport.sent)
    assert b'-ERR \'Permissions Violation for Subscription to "old.x"' in last.heard()
    finish(pieces)


def _open_for(name: str) -> Authorization:
    users = options("new.>").authorization.users
    return Authorization(
        users=tuple(User(name=name, password=name) if each.name == name else each for each in users)
    )


def test_a_client_that_is_not_restricted_any_more_gets_messages_while_it_is_outdated() -> None:
    broker, clients = joined()
    last = clients[-1]
    last.say(b"SUB old.x 1\r\n")
    free = Authorization(users=tuple(User(name=name, password=name) for name in NAMES))
    pieces = begin(broker, BrokerOptions(authorization=free))
    clients[0].transport.receive(b"PUB old.x 2\r\nhi\r\n")
    assert last.heard() == b"MSG old.x 1 2\r\nhi\r\n"
    assert not last.connection.filters_deliveries
    finish(pieces)


def test_a_client_whose_user_is_gone_sends_nothing_more() -> None:
    broker, clients = joined()
    pieces = begin(broker, options("old.>", NAMES[:-1]))
    clients[0].say(b"SUB old.x 1\r\n")
    clients[-1].transport.receive(b"PUB old.x 2\r\nno\r\n")
    assert clients[-1].closed
    assert clients[0].heard() == b""
    finish(pieces)
    assert len(broker.connections) == len(NAMES) - 1


def test_clients_of_an_account_that_is_gone_are_closed() -> None:
    users = tuple(User(name=name, password=name, account=name) for name in ("A", "B"))
    broker = make_broker(
        accounts=(AccountOptions(name="A"), AccountOptions(name="B")),
        authorization=Authorization(users=users),
    )
    a, b = client(broker, "A"), client(broker, "B")
    reload.apply(
        broker,
        BrokerOptions(accounts=(AccountOptions(name="A"),), authorization=Authorization(users=users[:1])),
    )
    assert (a.closed, b.closed) == (False, True)
    assert b.heard() == b""


def test_a_second_reload_ends_the_first_one() -> None:
    """A client must also be checked against the passwords of the first reload."""
    broker, clients = joined()
    begin(broker, options("new.>", NAMES[:-1]))
    finish(begin(broker, options("new.>")))
    assert clients[-1].closed
    assert not clients[0].closed
    assert broker.renewal is None


@pytest.mark.parametrize("count", [3, 1000])
def test_imports_change_for_existing_subscriptions(count: int) -> None:
    export = Export(kind=ExportKind.STREAM, subject="a.>")
    users = tuple(User(name=name, password=name, account=name) for name in ("A", "B"))
    accounts = (AccountOptions(name="A", exports=(export,)), AccountOptions(name="B"))
    broker = make_broker(accounts=accounts, authorization=Authorization(users=users))
    sender, receiver = client(broker, "A"), client(broker, "B")
    receiver.say(b"".join(b"SUB a.%d %d\r\n" % (number, number) for number in range(count)))
    sender.say(b"PUB a.1 1\r\n0\r\n")
    imported = AccountOptions(name="B", imports=(Import(kind=ExportKind.STREAM, account="A", subject="a.>"),))
    reload.apply(broker, replace(broker.options, accounts=(accounts[0], imported)))
    loop_of(broker).run_ready()
    sender.say(b"PUB a.1 1\r\n1\r\n")
    assert receiver.heard() == b"MSG a.1 1 1\r\n1\r\n"
    reload.apply(broker, replace(broker.options, accounts=accounts))
    loop_of(broker).run_ready()
    sender.say(b"PUB a.1 1\r\n2\r\n")
    assert receiver.heard() == b""


def test_a_mapping_that_is_added_applies_to_a_client_with_a_route() -> None:
    broker = make_broker()
    one = client(broker)
    assert one.say(b"SUB b 1\r\nPUB a 0\r\n\r\n") == b""
    mapping = SubjectMapping(source="a", destinations=(MapDestination(subject="b"),))
    reload.apply(broker, BrokerOptions(mappings=(mapping,)))
    assert one.say(b"PUB a 0\r\n\r\n") == b"MSG b 1 0\r\n\r\n"
    reload.apply(broker, BrokerOptions())
    assert one.say(b"PUB a 0\r\n\r\n") == b""


def _shared(local: str, *, chained: bool = False) -> tuple[AccountOptions, ...]:
    """Accounts of which C calls a service of A as `local`; through B, if it is `chained`."""
    export = Export(kind=ExportKind.SERVICE, subject="svc")
    direct = Import(kind=ExportKind.SERVICE, account="A", subject="svc", to="" if chained else local)
    through = Import(kind=ExportKind.SERVICE, account="B", subject="svc", to=local)
    return (
        AccountOptions(name="A", exports=(export,)),
        AccountOptions(name="B", exports=(export,), imports=(direct,) if chained else ()),
        AccountOptions(name="C", imports=(through if chained else direct,)),
    )


def _with_shared(accounts: tuple[AccountOptions, ...]) -> BrokerOptions:
    users = tuple(User(name=each.name, password=each.name, account=each.name) for each in accounts)
    return BrokerOptions(accounts=accounts, authorization=Authorization(users=users))


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "new"])
def test_a_client_uses_the_new_imports_before_its_account_had_its_turn(
    connected: bool, chained: bool
) -> None:
    old = _with_shared(_shared("old"))
    broker = make_broker(accounts=old.accounts, authorization=old.authorization)
    service = client(broker, "A")
    service.say(b"SUB svc 1\r\n")
    asker = client(broker, "C") if connected else None
    pieces = begin(broker, _with_shared(_shared("new", chained=chained)))
    asker = asker or client(broker, "C")
    asker.transport.receive(b"PUB old 3\r\nold\r\nPUB new 3\r\nnew\r\n")
    heard = service.heard()
    assert heard.count(b"MSG svc 1") == 1
    assert b"\r\nnew\r\n" in heard
    finish(pieces)
    asker.say(b"PUB new 3\r\nnew\r\n")
    assert service.heard().count(b"MSG svc 1") == 1


def test_a_reload_leaves_imports_alone_that_do_not_change() -> None:
    new = _with_shared(_shared("svc"))
    broker = make_broker(accounts=new.accounts, authorization=new.authorization)
    before = dict(broker.imports._services)
    others = (*new.accounts, AccountOptions(name="D", imports=new.accounts[2].imports))
    more = replace(others[0], exports=(*others[0].exports, Export(kind=ExportKind.SERVICE, subject="x")))
    reload.apply(broker, replace(new, accounts=(more, *others[1:])))
    after = dict(broker.imports._services)
    assert {account.name for account in after.keys() - before.keys()} == {"D"}
    assert all(after[account] is subscriptions for account, subscriptions in before.items())
    shared = Export(kind=ExportKind.SERVICE, subject="svc", response_threshold_s=7.0)
    reload.apply(broker, replace(new, accounts=(replace(more, exports=(shared,)), *others[1:])))
    assert all(broker.imports._services[account] is not after[account] for account in after)


def test_imports_that_still_wait_are_there_when_the_next_reload_begins() -> None:
    first = _with_shared(_shared("old"))
    broker = make_broker(accounts=first.accounts, authorization=first.authorization)
    service, asker = client(broker, "A"), client(broker, "C")
    service.say(b"SUB svc 1\r\n")
    begin(broker, _with_shared(_shared("new")))
    finish(begin(broker, replace(_with_shared(_shared("new")), max_payload=100)))
    asker.say(b"PUB old 0\r\n\r\nPUB new 0\r\n\r\n")
    assert service.heard().count(b"MSG svc 1") == 1
