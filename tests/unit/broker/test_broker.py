"""The broker as a whole: who is connected, how connections end, and programs in the same process."""

import pytest

from millstream.broker.close_reason import CloseReason
from millstream.broker.history import SubscriptionRecord
from millstream.broker.internal import InternalMessage
from tests.kits.broker import Recorder, client, loop_of, make_broker
from tests.kits.fake_transport import FakeClient


def test_connections_come_and_go() -> None:
    notes = Recorder()
    broker = make_broker(notes)
    clients = [client(broker) for _ in range(3)]
    assert len(broker.connections) == broker.totals.connections == 3
    clients[1].transport.peer_closes()
    loop_of(broker).run_ready()
    assert sorted(broker.connections) == [5, 7]
    assert notes.notes[-1] == ("disconnected", 6, CloseReason.CLIENT_CLOSED)
    assert [record.cid for record in broker.closed] == [6]
    assert broker.totals.connections == 3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, CloseReason.CLIENT_CLOSED),
        (ConnectionResetError(), CloseReason.CLIENT_CLOSED),
        (BrokenPipeError(), CloseReason.CLIENT_CLOSED),
        (OSError("no route"), CloseReason.READ_ERROR),
    ],
)
def test_how_the_line_was_lost_is_recorded(error: Exception | None, reason: CloseReason) -> None:
    broker = make_broker()
    one = client(broker)
    one.transport.peer_closes(error)
    loop_of(broker).run_ready()
    assert one.connection.session.reason is reason


@pytest.mark.parametrize(("limit", "admitted"), [(2, 2), (1, 1), (-1, 0)])
def test_max_connections(limit: int, admitted: int) -> None:
    broker = make_broker(max_connections=limit)
    clients = [FakeClient(broker) for _ in range(4)]
    refusals = [
        each for each in clients if each.greeting.endswith(b"-ERR 'maximum connections exceeded'\r\n")
    ]
    assert len(refusals) == 4 - admitted
    assert all(each.greeting.startswith(b"INFO ") and each.closed for each in refusals)
    assert len(broker.connections) == admitted


def test_a_place_that_became_free_is_given_again() -> None:
    broker = make_broker(max_connections=1)
    first = client(broker)
    assert FakeClient(broker).closed
    first.transport.peer_closes()
    loop_of(broker).run_ready()
    client(broker)


def test_a_lame_duck_takes_nobody() -> None:
    broker = make_broker()
    broker.lame_duck = True
    one = FakeClient(broker)
    assert b'"ldm":true' in one.greeting
    assert one.closed


def test_a_closed_connection_is_remembered_with_what_it_did() -> None:
    broker = make_broker()
    one = client(broker, name="mill")
    one.say(b"SUB foo q 1\r\nUNSUB 1 9\r\nPUB foo 2\r\nhi\r\n")
    one.transport.peer_closes()
    loop_of(broker).run_ready()
    (record,) = broker.closed
    assert record.session.connect.name == "mill"
    assert (record.in_messages, record.in_bytes, record.out_messages, record.out_bytes) == (1, 2, 1, 2)
    assert list(record.subscriptions()) == [SubscriptionRecord(b"foo", b"q", b"1", 1, 9)]
    assert broker.totals.past.in_messages == 1


@pytest.mark.parametrize(("limit", "kept"), [(3, 3), (0, 10)])
def test_only_so_many_closed_connections_are_remembered(limit: int, kept: int) -> None:
    broker = make_broker(max_closed_clients=limit)
    for _ in range(10):
        client(broker).transport.peer_closes()
        loop_of(broker).run_ready()
    assert len(broker.closed) == kept
    assert broker.closed.maxlen is not None


def test_closing_twice_is_closing_once() -> None:
    notes = Recorder()
    broker = make_broker(notes)
    one = client(broker)
    broker.close(one.connection, CloseReason.KICKED)
    broker.close(one.connection, CloseReason.SERVER_SHUTDOWN, b"bye")
    assert one.heard() == b""
    assert notes.notes[1:] == [("disconnected", 5, CloseReason.KICKED)]


def test_what_was_queued_is_written_before_the_end() -> None:
    broker = make_broker()
    one = client(broker)
    one.connection.send(b"PING\r\n")
    broker.close(one.connection, CloseReason.KICKED, b"Go away")
    assert one.heard() == b"PING\r\n-ERR 'Go away'\r\n"


async def test_closing_all_ends_every_connection_even_one_that_does_not_read() -> None:
    broker = make_broker()
    clients = [client(broker) for _ in range(3)]
    clients[1].transport.stop_taking()
    clients[1].say(b"PING\r\n")
    await broker.close_all(CloseReason.SERVER_SHUTDOWN, 0.01)
    loop_of(broker).run_ready()
    assert broker.connections == {}
    assert all(each.transport.lost for each in clients)
    assert all(each.connection.session.reason is CloseReason.SERVER_SHUTDOWN for each in clients)


async def test_a_socket_that_was_accepted_while_all_were_closed_is_closed_too() -> None:
    broker = make_broker()
    await broker.close_all(CloseReason.SERVER_SHUTDOWN, 0.01)
    late = FakeClient(broker)
    assert late.closed
    assert broker.connections == {}


# -- in the same process ------------------------------------------------------------------------------


def test_a_callback_gets_a_copy_of_each_message() -> None:
    broker = make_broker()
    got: list[InternalMessage] = []
    subscription = broker.subscribe(broker.global_account, b"foo.*", got.append)
    one = client(broker)
    one.say(b"HPUB foo.x inbox 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPUB foo.y 1\r\n!\r\n")
    assert [(m.subject, m.reply, m.headers, m.payload) for m in got] == [
        (b"foo.x", b"inbox", b"NATS/1.0\r\n\r\n", b"hi"),
        (b"foo.y", b"", b"", b"!"),
    ]
    assert got[0].source is one.connection
    broker.unsubscribe(broker.global_account, subscription)
    one.say(b"PUB foo.x 0\r\n\r\n")
    assert len(got) == 2


def test_our_own_messages_reach_clients_when_the_current_work_is_done() -> None:
    broker = make_broker()
    one = client(broker)
    one.say(b"SUB foo 1\r\n")
    assert broker.publish(broker.global_account, b"foo", b"hi", reply=b"r", headers=b"NATS/1.0\r\n\r\n") == 1
    assert bytes(one.transport.sent) == b""
    assert one.heard() == b"HMSG foo 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"


def test_publishing_to_nobody_says_so() -> None:
    broker = make_broker()
    assert broker.publish(broker.global_account, b"foo", b"") == 0
    assert not broker.has_interest(broker.global_account, b"foo")
    client(broker).say(b"SUB > 1\r\n")
    assert broker.has_interest(broker.global_account, b"foo")


def test_an_answer_given_inside_the_callback_comes_with_the_request() -> None:
    broker = make_broker()

    def answer(message: InternalMessage) -> None:
        broker.publish(broker.global_account, message.reply, b"re: " + message.payload)

    broker.subscribe(broker.global_account, b"help", answer)
    one = client(broker)
    one.say(b"SUB inbox 1\r\n")
    assert one.say(b"PUB help inbox 2\r\nhi\r\n") == b"MSG inbox 1 6\r\nre: hi\r\n"


def test_callbacks_share_a_queue_with_clients() -> None:
    broker = make_broker()
    got: list[InternalMessage] = []
    broker.subscribe(broker.global_account, b"foo", got.append, b"q")
    sender, member = client(broker), client(broker)
    member.say(b"SUB foo q 1\r\n")
    sender.say(b"PUB foo 0\r\n\r\n" * 100)
    heard = member.heard().count(b"MSG")
    assert heard + len(got) == 100
    assert 20 < heard < 80


def test_a_line_for_many_reaches_each() -> None:
    broker = make_broker()
    clients = [client(broker) for _ in range(3)]
    broker.broadcast(lambda each: b"-ERR '%d'\r\n" % each.cid, broker.connections.values())
    assert [each.heard() for each in clients] == [b"-ERR '5'\r\n", b"-ERR '6'\r\n", b"-ERR '7'\r\n"]
