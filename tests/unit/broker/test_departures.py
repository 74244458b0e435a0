"""Clients that leave with many subscriptions, or many at once: in slices, and as if they had gone at once."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from millstream.broker import reload
from millstream.broker.broker import Broker
from millstream.broker.close_reason import CloseReason
from millstream.broker.departures import AT_ONCE
from millstream.broker.options import (
    AccountOptions,
    Authorization,
    BrokerOptions,
    Export,
    ExportKind,
    Import,
    Permissions,
    SubjectRules,
    User,
)
from tests.kits.broker import Recorder, client, loop_of, make_accounts, make_broker
from tests.kits.fake_transport import FakeClient

MANY = AT_ONCE * 300  # several slices


def crowded(broker: Broker, count: int = MANY, user: str = "") -> FakeClient:
    """A client with `count` subscriptions: on s.0, s.1, and so on."""
    one = client(broker, user)
    one.say(b"".join(b"SUB s.%d %d\r\n" % (number, number) for number in range(count)))
    assert len(one.connection.subscriptions) == count
    return one


def lose(one: FakeClient) -> None:
    """Let the server hear of the end of a connection, and nothing else."""
    one.transport.closing = one.transport.aborted = one.transport.lost = True
    one.connection.connection_lost(None)


def tree_size(broker: Broker) -> int:
    return broker.global_account.space.tree.count


def test_a_client_with_few_subscriptions_loses_them_at_once() -> None:
    broker = make_broker()
    one = crowded(broker, AT_ONCE)
    lose(one)
    assert tree_size(broker) == 0
    assert broker.turns.long_works == 0


def test_many_subscriptions_go_in_slices_that_let_others_in() -> None:
    broker = make_broker()
    other = client(broker)
    one = crowded(broker)
    lose(one)
    assert tree_size(broker) == MANY
    for _ in range(3):
        loop_of(broker).run_one_round()
    assert 0 < tree_size(broker) < MANY
    loop_of(broker).run_ready()
    assert tree_size(broker) == 0
    assert broker.global_account.space.tree.root.is_empty()
    assert other.say(b"PING\r\n") == b"PONG\r\n"


def test_a_client_that_is_leaving_is_nobodys_receiver() -> None:
    broker = make_broker()
    one = crowded(broker)
    asker = client(broker, no_responders=True)
    member = client(broker)
    member.say(b"SUB g.1 q 1\r\n")
    one.say(b"SUB g.1 q g\r\n")
    asker.say(b"SUB inbox 1\r\nPUB s.5 1\r\na\r\n")  # a route through it is in the cache
    assert one.heard() == b"MSG s.5 5 1\r\na\r\n"
    lose(one)
    assert tree_size(broker) > MANY
    asker.connection.data_received(b"PUB s.5 inbox 0\r\n\r\n")
    assert b"NATS/1.0 503" in bytes(asker.transport.sent)
    assert not broker.has_interest(broker.global_account, b"s.7")
    asker.connection.data_received(b"PUB g.1 1\r\nx\r\n" * 20)
    assert bytes(member.transport.sent).count(b"MSG g.1 1 1\r\nx\r\n") == 20
    assert one.connection.out_messages == 1


def test_who_watches_a_subject_hears_of_the_end_of_interest() -> None:
    broker = make_broker()
    one = crowded(broker)
    space = broker.global_account.space
    heard: list[bool] = []
    space.watch(b"s.0", lambda: heard.append(broker.has_interest(broker.global_account, b"s.0")))
    lose(one)
    loop_of(broker).run_ready()
    assert heard == [False]


def test_the_end_is_told_at_once_and_the_closed_connection_lists_everything_all_the_time() -> None:
    recorder = Recorder()
    broker = make_broker(recorder)
    one = crowded(broker)
    lose(one)
    assert recorder.notes[-1] == ("disconnected", one.connection.cid, CloseReason.CLIENT_CLOSED)
    assert one.connection.cid not in broker.connections
    (closed,) = broker.closed
    every = {b"s.%d" % number for number in range(MANY)}
    assert closed.subscription_count() == MANY
    assert {each.subject for each in closed.subscriptions()} == every
    loop_of(broker).run_one_round()
    assert 0 < len(closed.ended) < MANY
    assert {each.subject for each in closed.subscriptions()} == every
    loop_of(broker).run_ready()
    assert len(closed.ending) == 0
    assert {each.subject for each in closed.subscriptions()} == every


def test_shadows_in_other_accounts_go_too() -> None:
    export = Export(kind=ExportKind.STREAM, subject="s.>")
    taken = Import(kind=ExportKind.STREAM, account="EX", subject="s.>")
    broker = make_accounts(
        AccountOptions(name="EX", exports=(export,)), AccountOptions(name="IM", imports=(taken,))
    )
    one = crowded(broker, AT_ONCE * 3, "IM")
    publisher = client(broker, "EX", no_responders=True)
    space = broker.accounts["EX"].space
    assert space.tree.count == AT_ONCE * 3
    lose(one)
    publisher.connection.data_received(b"SUB inbox 1\r\nPUB s.5 inbox 0\r\n\r\n")
    assert b"NATS/1.0 503" in bytes(publisher.transport.sent)
    loop_of(broker).run_ready()
    assert space.tree.count == 1
    assert broker.accounts["IM"].space.tree.count == 0


def test_a_second_connect_waits_until_the_last_subscription_has_ended() -> None:
    broker = make_broker()
    one = crowded(broker)
    one.connection.data_received(b'CONNECT {"verbose":false,"name":"again"}\r\nSUB new 1\r\n')
    assert not one.transport.reading
    assert tree_size(broker) == MANY
    loop_of(broker).run_ready()
    assert one.transport.reading
    assert sorted(one.connection.subscriptions) == [b"1"]
    assert tree_size(broker) == 1
    assert one.connection.session.connect.name == "again"


def test_a_client_that_leaves_while_it_connects_anew_is_forgotten() -> None:
    broker = make_broker()
    one = crowded(broker)
    one.connection.data_received(b'CONNECT {"verbose":false}\r\nSUB new 1\r\n')
    lose(one)
    loop_of(broker).run_ready()
    assert tree_size(broker) == 0
    assert not broker.connections


def test_the_subscriptions_of_a_stopped_server_are_dropped() -> None:
    broker = make_broker()
    one = crowded(broker)
    lose(one)
    asyncio.run(broker.close_all(CloseReason.SERVER_SHUTDOWN, 0.0))
    assert tree_size(broker) == 0
    assert broker.turns.long_works == 0
    loop_of(broker).run_ready()


def hang_up(one: FakeClient) -> None:
    assert one.connection.eof_received()


@pytest.mark.parametrize("end", [lose, hang_up])
def test_of_many_that_end_at_once_each_gets_its_turn(end: Callable[[FakeClient], None]) -> None:
    recorder = Recorder()
    broker = make_broker(recorder)
    clients = [crowded(broker, 1) for _ in range(500)]
    for one in clients:
        end(one)
    assert len(broker.connections) > 400
    assert all(one.connection.closed for one in clients)
    loop_of(broker).run_ready()
    assert not broker.connections
    assert tree_size(broker) == 0
    assert len(broker.closed) == 500
    assert [note[0] for note in recorder.notes].count("disconnected") == 500
    assert all(one.transport.closing for one in clients)


def test_a_client_that_has_hung_up_gets_what_was_written_before() -> None:
    broker = make_broker()
    one = client(broker)
    one.transport.stop_taking()
    one.connection.data_received(b"PING\r\n")
    hang_up(one)
    loop_of(broker).run_ready()
    assert not one.transport.lost
    one.transport.take()
    loop_of(broker).run_ready()
    assert bytes(one.transport.sent) == b"PONG\r\n"
    assert one.transport.lost


def test_a_client_that_has_hung_up_and_does_not_read_is_cut_off() -> None:
    broker = make_broker()
    one = client(broker)
    one.transport.stop_taking()
    one.connection.data_received(b"PING\r\n")
    hang_up(one)
    loop_of(broker).advance(60)
    assert one.transport.lost


def test_a_reload_takes_away_many_subscriptions_in_slices() -> None:
    users = (User(name="u", password="u"),)
    before = BrokerOptions(authorization=Authorization(users=users))
    broker = make_broker(authorization=before.authorization)
    one = crowded(broker, user="u")
    one.say(b"SUB t.1 t\r\n")
    denied = Permissions(subscribe=SubjectRules(deny=("s.*",)))
    after = Authorization(users=(User(name="u", password="u", permissions=denied),))
    reload.apply(broker, msgspec.structs.replace(broker.options, authorization=after))
    assert tree_size(broker) > MANY / 2
    told = one.heard()
    assert told.count(b"-ERR 'Permissions Violation") == MANY
    assert sorted(one.connection.subscriptions) == [b"t"]
    assert tree_size(broker) == 1
