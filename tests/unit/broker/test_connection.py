"""The path of a message: from one client's bytes to another's."""

import pytest

from millstream.broker.options import MapDestination, SubjectMapping
from tests.kits.broker import client, loop_of, make_broker
from tests.kits.fake_transport import FakeClient


def test_a_message_reaches_every_subscription_once() -> None:
    broker = make_broker()
    publisher, first, second = client(broker), client(broker), client(broker)
    first.say(b"SUB foo 1\r\nSUB foo.* 2\r\nSUB > 3\r\n")
    second.say(b"SUB foo 9\r\n")
    assert publisher.say(b"PUB foo 5\r\nhello\r\n") == b""
    assert sorted(first.heard().split(b"hello\r\n")) == [b"", b"MSG foo 1 5\r\n", b"MSG foo 3 5\r\n"]
    assert second.heard() == b"MSG foo 9 5\r\nhello\r\n"


def test_reply_and_headers_are_passed_on() -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\n")
    sender.say(b"HPUB foo inbox 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
    assert receiver.heard() == b"HMSG foo 1 inbox 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"


def test_headers_are_stripped_for_a_client_that_knows_none() -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker, headers=False)
    receiver.say(b"SUB foo 1\r\n")
    sender.say(b"HPUB foo inbox 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
    assert receiver.heard() == b"MSG foo 1 inbox 2\r\nhi\r\n"


def test_hpub_of_a_client_that_negotiated_no_headers_closes_without_a_word() -> None:
    broker = make_broker()
    sender = client(broker, headers=False)
    assert sender.say(b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n") == b""
    assert sender.closed


def test_without_echo_a_client_does_not_hear_itself_but_others_do() -> None:
    broker = make_broker()
    silent, other = client(broker, echo=False), client(broker)
    silent.say(b"SUB foo 1\r\nSUB foo q 2\r\n")
    other.say(b"SUB foo 1\r\n")
    assert silent.say(b"PUB foo 2\r\nhi\r\n") == b""
    assert other.heard() == b"MSG foo 1 2\r\nhi\r\n"
    other.say(b"PUB foo 2\r\nyo\r\n")
    assert silent.heard().count(b"MSG foo") == 2


def test_without_echo_a_queue_goes_to_another_member() -> None:
    broker = make_broker()
    sender, member = client(broker, echo=False), client(broker)
    sender.say(b"SUB foo q 1\r\n")
    member.say(b"SUB foo q 1\r\n")
    for _ in range(20):
        assert sender.say(b"PUB foo 0\r\n\r\n") == b""
    assert member.heard() == b"MSG foo 1 0\r\n\r\n" * 20


def test_messages_of_one_sender_keep_their_order_across_subscriptions_and_chunks() -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB a 1\r\nSUB b 2\r\n")
    wire = b"".join(b"PUB %b 2\r\n%02d\r\n" % (b"ab"[n % 2 : n % 2 + 1], n) for n in range(40))
    for start in range(0, len(wire), 7):
        sender.say(wire[start : start + 7])
    lines = receiver.heard().split(b"\r\n")
    assert [int(line) for line in lines[1::2]] == list(range(40))


def test_what_a_chunk_gives_rise_to_leaves_in_one_write() -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\n")
    before = receiver.transport.writes
    sender.say(b"PUB foo 2\r\nhi\r\n" * 100)
    assert receiver.transport.writes == before + 1
    assert receiver.heard() == b"MSG foo 1 2\r\nhi\r\n" * 100


def test_a_large_backlog_is_written_before_the_chunk_ends() -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\n")
    before = receiver.transport.writes
    body = b"x" * 100_000
    sender.say((b"PUB foo 100000\r\n" + body + b"\r\n") * 6)
    assert receiver.transport.writes - before >= 2
    assert receiver.heard() == (b"MSG foo 1 100000\r\n" + body + b"\r\n") * 6


def test_ok_comes_before_the_message_it_acknowledges() -> None:
    broker = make_broker()
    verbose = FakeClient(broker)
    answer = verbose.say(b"CONNECT {}\r\nSUB foo 1\r\nPUB foo 2\r\nhi\r\nPING\r\nUNSUB 1\r\n")
    assert answer == b"+OK\r\n+OK\r\n+OK\r\nMSG foo 1 2\r\nhi\r\nPONG\r\n+OK\r\n"


def test_a_client_that_skips_connect_is_verbose_and_pedantic() -> None:
    broker = make_broker()
    hasty = FakeClient(broker)
    assert hasty.say(b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n") == b"+OK\r\n+OK\r\nMSG foo 1 2\r\nhi\r\n"
    answer = hasty.say(b"SUB foo.* 2\r\nPUB foo.* 2\r\nhi\r\n")
    assert answer == b"+OK\r\n-ERR 'Invalid Publish Subject'\r\n+OK\r\nMSG foo.* 2 2\r\nhi\r\n"


def test_a_publish_without_subscribers_is_silent() -> None:
    broker = make_broker()
    sender = client(broker)
    assert sender.say(b"PUB foo 2\r\nhi\r\nPUB foo..bar 2\r\nhi\r\nPUB foo bar 0\r\n\r\n") == b""
    assert sender.connection.in_messages == 3


@pytest.mark.parametrize("subject", [b"a..b", b".a", b"a.", b"."])
def test_a_subject_with_an_empty_token_reaches_not_even_everybody(subject: bytes) -> None:
    broker = make_broker()
    sender = client(broker)
    sender.say(b"SUB > 1\r\n")
    assert sender.say(b"PUB %b 0\r\n\r\nPING\r\n" % subject) == b"PONG\r\n"


# -- the route a connection keeps ---------------------------------------------------------------------


def test_a_subscription_between_two_publishes_is_seen() -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    sender.say(b"PUB foo 1\r\n1\r\n")
    receiver.say(b"SUB f* 2\r\nSUB * 1\r\n")
    sender.say(b"PUB foo 1\r\n2\r\n")
    receiver.say(b"UNSUB 1\r\n")
    sender.say(b"PUB foo 1\r\n3\r\n")
    assert receiver.heard() == b""  # read with the UNSUB above
    assert receiver.connection.out_messages == 1


def test_own_subscriptions_take_effect_within_one_chunk() -> None:
    broker = make_broker()
    alone = client(broker)
    answer = alone.say(
        b"PUB foo 1\r\n1\r\nSUB foo 1\r\nPUB foo 1\r\n2\r\nUNSUB 1\r\nPUB foo 1\r\n3\r\nSUB > 2\r\n"
        b"PUB foo 1\r\n4\r\nPUB bar 1\r\n5\r\nPUB foo 1\r\n6\r\n"
    )
    assert answer == (b"MSG foo 1 1\r\n2\r\nMSG foo 2 1\r\n4\r\nMSG bar 2 1\r\n5\r\nMSG foo 2 1\r\n6\r\n")


def test_a_mapped_subject_is_delivered_under_its_new_name() -> None:
    mapping = SubjectMapping(source="old.*", destinations=(MapDestination(subject="new.$1"),))
    broker = make_broker(mappings=(mapping,))
    alone = client(broker)
    alone.say(b"SUB new.> 1\r\nSUB old.> 2\r\n")
    assert alone.say(b"PUB old.x 0\r\n\r\nPUB old.x 0\r\n\r\n") == b"MSG new.x 1 0\r\n\r\n" * 2


# -- ends -------------------------------------------------------------------------------------------


def test_nothing_after_a_fatal_mistake_is_obeyed() -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\n")
    answer = sender.say(b"PUB foo 1\r\n1\r\nNONSENSE\r\nPUB foo 1\r\n2\r\n")
    assert answer == b"-ERR 'Unknown Protocol Operation'\r\n"
    assert sender.closed
    assert receiver.heard() == b"MSG foo 1 1\r\n1\r\n"


def test_a_receiver_that_left_gets_nothing_and_harms_nobody() -> None:
    broker = make_broker()
    sender, leaver, stayer = client(broker), client(broker), client(broker)
    for each in (leaver, stayer):
        each.say(b"SUB foo 1\r\nSUB foo q 2\r\n")
    sender.say(b"PUB foo 0\r\n\r\n")
    leaver.transport.peer_closes()
    loop_of(broker).run_ready()
    sender.say(b"PUB foo 0\r\n\r\n" * 5)
    assert stayer.heard().count(b"MSG foo 1 ") == 6
    assert broker.global_account.space.tree.count == 2


def test_messages_and_bytes_are_counted_on_both_sides() -> None:
    broker = make_broker()
    sender, receiver = client(broker), client(broker)
    receiver.say(b"SUB foo 1\r\nSUB foo 2\r\n")
    sender.say(b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\nPUB foo 3\r\nabc\r\nPUB none 9\r\n123456789\r\n")
    assert (sender.connection.in_messages, sender.connection.in_bytes) == (3, 26)
    assert (receiver.connection.out_messages, receiver.connection.out_bytes) == (4, 34)


def test_idle_connections_own_no_buffer_and_buffers_are_used_again() -> None:
    broker = make_broker()
    clients = [client(broker) for _ in range(200)]
    for each in clients:
        each.say(b"SUB foo 1\r\n")
    for _ in range(3):
        clients[0].say(b"PUB foo 2\r\nhi\r\n")
        assert all(each.heard() == b"MSG foo 1 2\r\nhi\r\n" for each in clients[1:])
