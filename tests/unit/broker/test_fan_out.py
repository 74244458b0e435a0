"""Messages to very many subscriptions or connections: in slices, in order, with bounded memory."""

import itertools

import pytest

from millstream.base import slices
from millstream.broker.broker import Broker
from millstream.broker.options import (
    AccountOptions,
    BrokerOptions,
    Export,
    ExportKind,
    Import,
)
from millstream.broker.outlet import SubjectOutlet
from millstream.protocol.parser import make_frame
from tests.kits.broker import client, loop_of, make_accounts, make_broker
from tests.kits.fake_transport import FakeClient, FakeLoop

WIDE = 10_000  # subscriptions, so several slices
MANY = 200  # subscriptions, too few for that if messages are short
LONG = bytes(64 * 1024)


def listener(broker: Broker, count: int = WIDE, subject: bytes = b"wide", user: str = "") -> FakeClient:
    one = client(broker, user)
    one.say(b"".join(b"SUB %b %d\r\n" % (subject, number) for number in range(count)))
    return one


def send(one: FakeClient, data: bytes) -> None:
    """Let the server read something, and do nothing else."""
    one.transport.receive(data)


def rounds(broker: Broker, count: int) -> None:
    for _ in range(count):
        loop_of(broker).run_one_round()


def test_a_wide_message_lets_others_in_between() -> None:
    broker = make_broker()
    receiver, sender, other = listener(broker), client(broker), client(broker)
    send(sender, b"PUB wide 2\r\nhi\r\n")
    rounds(broker, 2)
    assert 0 < receiver.connection.out_messages < WIDE
    send(other, b"PING\r\n")
    assert bytes(other.transport.sent) == b"PONG\r\n"
    assert receiver.heard().count(b" 2\r\nhi\r\n") == WIDE


def test_a_sender_of_a_wide_message_is_read_on_when_all_have_it() -> None:
    broker = make_broker()
    receiver, sender = listener(broker), client(broker)
    send(sender, b"PUB wide 1\r\na\r\nPUB wide 1\r\nb\r\nPING\r\n")
    assert not sender.transport.reading
    assert not sender.transport.sent
    heard = receiver.heard()
    assert heard.rindex(b" 1\r\na\r\n") < heard.index(b" 1\r\nb\r\n")
    assert (heard.count(b"\r\na\r\n"), heard.count(b"\r\nb\r\n")) == (WIDE, WIDE)
    assert sender.heard() == b"PONG\r\n"
    assert sender.transport.reading


def test_a_message_of_another_kind_does_not_overtake_a_wide_one() -> None:
    broker = make_broker()
    receiver, sender = listener(broker), client(broker)
    receiver.say(b"SUB narrow n\r\n")
    send(sender, b"PUB wide 1\r\na\r\nPUB narrow 1\r\nb\r\n")
    assert receiver.heard().endswith(b"MSG narrow n 1\r\nb\r\n")


def test_two_senders_alternate() -> None:
    broker = make_broker()
    receiver, one, two = listener(broker), client(broker), client(broker)
    send(one, b"PUB wide 1\r\na\r\n")
    send(two, b"PUB wide 1\r\nb\r\n")
    heard = receiver.heard()
    assert heard.index(b"\r\nb\r\n") < heard.rindex(b"\r\na\r\n")
    assert (heard.count(b"\r\na\r\n"), heard.count(b"\r\nb\r\n")) == (WIDE, WIDE)


def test_a_wide_message_keeps_its_headers_and_reply() -> None:
    broker = make_broker()
    receiver, sender = listener(broker), client(broker)
    send(sender, b"HPUB wide back 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPUB wide 0\r\n\r\n")
    heard = receiver.heard()
    assert heard.count(b" back 12 14\r\nNATS/1.0\r\n\r\nhi\r\n") == WIDE
    assert heard.endswith(b" 0\r\n\r\n")


def test_a_subscription_that_ends_meanwhile_gets_nothing_more() -> None:
    broker = make_broker()
    receiver, sender = listener(broker), client(broker)
    send(sender, b"PUB wide 2\r\nhi\r\n")
    rounds(broker, 2)
    send(receiver, b"".join(b"UNSUB %d\r\n" % number for number in range(WIDE)))
    receiver.heard()
    assert receiver.connection.out_messages < WIDE
    assert sender.say(b"PING\r\n") == b"PONG\r\n"


def test_a_receiver_or_sender_that_leaves_meanwhile_harms_nobody() -> None:
    broker = make_broker()
    leaver, receiver, sender = listener(broker), listener(broker), client(broker)
    send(sender, b"PUB wide 2\r\nhi\r\nPUB wide 2\r\nno\r\n")
    rounds(broker, 2)
    leaver.transport.peer_closes()
    sender.transport.peer_closes()
    assert receiver.heard().count(b"\r\nhi\r\n") == WIDE
    assert broker.turns.long_works == 0


def test_a_long_message_to_many_lets_others_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)  # each piece is a slice, however quick the machine is
    broker = make_broker()
    receiver, sender, other = listener(broker, MANY, b"long"), client(broker), client(broker)
    send(sender, b"PUB long %d\r\n%b\r\nPUB long 1\r\nb\r\n" % (len(LONG), LONG))
    rounds(broker, 1)
    assert 0 < receiver.connection.out_messages < MANY
    send(other, b"PING\r\n")
    assert bytes(other.transport.sent) == b"PONG\r\n"
    heard = receiver.heard()
    assert heard.count(LONG) == MANY
    assert heard.rindex(LONG) < heard.index(b" 1\r\nb\r\n")
    assert heard.count(b" 1\r\nb\r\n") == MANY


def test_a_short_message_of_the_server_does_not_overtake_a_long_one() -> None:
    broker = make_broker()
    receiver = listener(broker, MANY, b"long")
    account = broker.global_account
    broker.publish(account, b"long", LONG)
    broker.publish(account, b"long", b"b")
    heard = receiver.heard()
    assert (heard.count(LONG), heard.count(b" 1\r\nb\r\n")) == (MANY, MANY)
    assert heard.rindex(LONG) < heard.index(b" 1\r\nb\r\n")


def test_nobody_gets_a_wide_request_that_all_refuse() -> None:
    broker = make_broker()
    one = client(broker, echo=False, no_responders=True)
    one.say(b"SUB inbox i\r\n")
    one.say(b"".join(b"SUB wide %d\r\n" % number for number in range(WIDE)))
    assert one.say(b"PUB wide inbox 0\r\n\r\n").startswith(b"HMSG inbox i 36 36\r\nNATS/1.0 503")


def test_one_member_of_a_large_group_gets_each_message() -> None:
    broker = make_broker()
    receiver, sender = client(broker), client(broker)
    receiver.say(b"".join(b"SUB wide q %d\r\n" % number for number in range(WIDE)))
    sender.say(b"PUB wide 2\r\nhi\r\n" * 10)
    heard = receiver.heard()
    assert heard.count(b"\r\nhi\r\n") == 10
    assert len(set(heard.splitlines()[::2])) > 1


def test_a_wide_message_crosses_accounts() -> None:
    export = Export(kind=ExportKind.STREAM, subject="wide")
    broker = make_accounts(
        AccountOptions(name="A", exports=(export,)),
        AccountOptions(
            name="B", imports=(Import(kind=ExportKind.STREAM, account="A", subject="wide", to="seen"),)
        ),
    )
    receiver, sender = listener(broker, subject=b"seen", user="B"), client(broker, "A")
    send(sender, b"PUB wide 2\r\nhi\r\n")
    heard = receiver.heard()
    assert heard.count(b"MSG seen ") == heard.count(b"\r\nhi\r\n") == WIDE


def test_a_consumer_waits_for_its_wide_messages() -> None:
    broker = make_broker()
    receiver = listener(broker)
    outlet = SubjectOutlet(broker.global_account.space, b"wide")
    assert outlet.is_named()
    assert outlet.has_interest()
    assert not outlet.behind()
    for number in range(3):
        assert outlet.send(b"orders.%d" % number, make_frame(b"", None, b"%d" % number)) == 1
    assert outlet.behind()
    heard = receiver.heard()
    assert [heard.count(b"MSG orders.%d " % number) for number in range(3)] == [WIDE] * 3
    assert heard.rindex(b"MSG orders.0 ") < heard.index(b"MSG orders.1 ")
    assert not outlet.behind()
    receiver.transport.stop_taking()
    outlet.send(b"orders.4", make_frame(b"", None, b"4"))
    loop_of(broker).run_ready()
    assert outlet.behind()
    receiver.transport.take()
    assert not outlet.behind()


# -- many connections -----------------------------------------------------------------------------


@pytest.fixture
def busy() -> Broker:
    """A broker that takes a tenth of a millisecond between two looks at the clock."""
    ticks = itertools.count()
    return Broker(
        BrokerOptions(), server_id="N", loop=FakeLoop().as_loop(), clock=lambda: next(ticks) * 0.0001
    )


def crowd(broker: Broker, count: int = 500) -> list[FakeClient]:
    found = [client(broker) for _ in range(count)]
    for each in found:
        each.say(b"SUB all 1\r\n")
    return found


def test_writes_to_many_connections_let_others_in_between(busy: Broker) -> None:
    receivers, sender, other = crowd(busy), client(busy), client(busy)
    send(sender, b"PUB all 1\r\na\r\n")
    written = sum(bool(each.transport.sent) for each in receivers)
    assert 64 < written < len(receivers)
    assert not sender.transport.reading
    send(other, b"PING\r\n")
    assert bytes(other.transport.sent) == b"PONG\r\n"
    loop_of(busy).run_ready()
    assert all(bytes(each.transport.sent) == b"MSG all 1 1\r\na\r\n" for each in receivers)
    assert sender.transport.reading


def test_what_follows_output_that_was_put_off_is_written_behind_it_at_once(busy: Broker) -> None:
    receivers, sender, other = crowd(busy), client(busy), client(busy)
    last = receivers[-1]
    last.say(b"SUB own 2\r\n")
    send(sender, b"PUB all 1\r\na\r\n")
    assert not last.transport.sent
    send(other, b"PUB own 1\r\nb\r\n")
    assert bytes(last.transport.sent) == b"MSG all 1 1\r\na\r\nMSG own 2 1\r\nb\r\n"
    send(receivers[-2], b"PING\r\n")
    assert bytes(receivers[-2].transport.sent) == b"MSG all 1 1\r\na\r\nPONG\r\n"
    assert last.heard().count(b"MSG") == 2


def test_a_second_message_to_all_keeps_the_order(busy: Broker) -> None:
    receivers, one, two = crowd(busy), client(busy), client(busy)
    send(one, b"PUB all 1\r\na\r\n")
    send(two, b"PUB all 1\r\nb\r\n")
    loop_of(busy).run_ready()
    expected = b"MSG all 1 1\r\na\r\nMSG all 1 1\r\nb\r\n"
    assert all(bytes(each.transport.sent) == expected for each in receivers)


def test_a_client_that_is_closed_gets_its_output_first(busy: Broker) -> None:
    receivers, sender = crowd(busy), client(busy)
    last = receivers[-1]
    send(sender, b"PUB all 1\r\na\r\n")
    send(last, b"nonsense\r\n")
    assert bytes(last.transport.sent).startswith(b"MSG all 1 1\r\na\r\n-ERR ")


def test_a_client_that_hangs_up_gets_its_output(busy: Broker) -> None:
    receivers, sender = crowd(busy), client(busy)
    send(sender, b"PUB all 1\r\na\r\n")
    assert receivers[-1].connection.eof_received()
    loop_of(busy).run_ready()
    assert bytes(receivers[-1].transport.sent) == b"MSG all 1 1\r\na\r\n"
