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
