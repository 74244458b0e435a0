"""Acknowledgements go straight to who takes them, for as long as nobody else listens."""

import pytest

from millstream.broker.broker import Broker
from millstream.broker.internal import CaptureSubscriber
from millstream.broker.options import MapDestination, SubjectMapping
from millstream.broker.routes import Subscription
from millstream.protocol.inlet import Inlet
from millstream.protocol.parser import Frame
from tests.kits.broker import client, make_broker


class Taker(Inlet):
    def __init__(self) -> None:
        self.taken: list[tuple[bytes, bytes, bytes]] = []
        self.in_place = 0

    def take_at(self, buf: bytes, start: int, size: int, frame: Frame) -> None:
        self.in_place += len(buf) > size
        self.taken.append((buf[start : start + size], frame.payload(), frame.reply()))

    def subjects(self) -> list[bytes]:
        return [subject for subject, _, _ in self.taken]


def listen(broker: Broker, subject: bytes, taker: Taker) -> Subscription:
    subscription = Subscription(CaptureSubscriber(taker), subject, None, b"")
    subscription.inlet = taker
    broker.global_account.space.subscribe(subscription)
    return subscription


def ack(number: int, reply: bytes = b"") -> bytes:
    return b"PUB $JS.ACK.S.c.1.%d.%d.7.0 %b4\r\n+ACK\r\n" % (number, number, reply and reply + b" ")


def subjects(*numbers: int) -> list[bytes]:
    return [b"$JS.ACK.S.c.1.%d.%d.7.0" % (number, number) for number in numbers]


def test_acks_of_one_consumer_are_read_where_they_lie() -> None:
    broker, taker = make_broker(), Taker()
    listen(broker, b"$JS.ACK.S.c.>", taker)
    client(broker).say(ack(1) + ack(2) + ack(3))
    assert taker.taken == [(subject, b"+ACK", b"") for subject in subjects(1, 2, 3)]
    assert taker.in_place == 2  # the first one shows the way


def test_acks_of_two_consumers_do_not_mix() -> None:
    broker, one, other = make_broker(), Taker(), Taker()
    listen(broker, b"$JS.ACK.S.c.>", one)
    listen(broker, b"$JS.ACK.S.cc.>", other)
    foreign = ack(8).replace(b".c.", b".cc.")
    client(broker).say(ack(1) + foreign + ack(2) + foreign + foreign)
    assert one.subjects() == subjects(1, 2)
    assert len(other.taken) == 3


def test_an_ack_that_wants_an_answer_brings_its_reply_subject() -> None:
    broker, taker = make_broker(), Taker()
    listen(broker, b"$JS.ACK.S.c.>", taker)
    client(broker).say(ack(1) + ack(2, b"inbox") + ack(3))
    assert [reply for _, _, reply in taker.taken] == [b"", b"inbox", b""]


def test_who_begins_to_listen_gets_the_next_ack_too() -> None:
    broker, taker = make_broker(), Taker()
    listen(broker, b"$JS.ACK.S.c.>", taker)
    worker, watcher = client(broker), client(broker)
    worker.say(ack(1) + ack(2))
    watcher.say(b"SUB $JS.ACK.> 9\r\n")
    worker.say(ack(3))
    assert watcher.heard() == b"MSG $JS.ACK.S.c.1.3.3.7.0 9 4\r\n+ACK\r\n"
    watcher.say(b"UNSUB 9\r\n")
    worker.say(ack(4) + ack(5))
    assert watcher.heard() == b""
    assert taker.subjects() == subjects(1, 2, 3, 4, 5)


def test_a_consumer_that_is_gone_gets_no_more_acks() -> None:
    broker, taker = make_broker(), Taker()
    subscription = listen(broker, b"$JS.ACK.S.c.>", taker)
    worker = client(broker)
    worker.say(ack(1) + ack(2))
    broker.unsubscribe(broker.global_account, subscription)
    worker.say(ack(3))
    assert taker.subjects() == subjects(1, 2)


def test_a_pedantic_client_is_told_about_its_subject() -> None:
    broker, taker = make_broker(), Taker()
    listen(broker, b"$JS.ACK.S.c.>", taker)
    worker = client(broker, pedantic=True)
    worker.say(ack(1))
    assert b"Invalid Publish Subject" in worker.say(b"PUB $JS.ACK.S.c.*.4 0\r\n\r\n")


def test_a_verbose_client_hears_that_each_ack_was_taken() -> None:
    broker, taker = make_broker(), Taker()
    listen(broker, b"$JS.ACK.S.c.>", taker)
    worker = client(broker)
    worker.say(b'CONNECT {"verbose":true,"pedantic":false}\r\n')
    assert worker.say(ack(1) + ack(2)) == b"+OK\r\n+OK\r\n"
    assert taker.subjects() == subjects(1, 2)


@pytest.mark.parametrize("subject", [b"$JS.ACK.S.c", b"$JS.ACK.S", b"$JS.ACK."])
def test_less_than_an_ack_is_taken_as_any_message(subject: bytes) -> None:
    broker, taker = make_broker(), Taker()
    listen(broker, b"$JS.ACK.S.c.>", taker)
    worker, watcher = client(broker), client(broker)
    worker.say(ack(1))
    watcher.say(b"SUB $JS.ACK.S.c 1\r\n")
    worker.say(b"PUB %b 0\r\n\r\n" % subject)
    assert taker.subjects() == subjects(1)
    assert (b"MSG" in watcher.heard()) == (subject == b"$JS.ACK.S.c")


def test_a_mapping_is_followed_by_acks_as_well() -> None:
    mapping = SubjectMapping(source="$JS.ACK.S.c.>", destinations=(MapDestination(subject="elsewhere.>"),))
    broker, taker = make_broker(mappings=(mapping,)), Taker()
    listen(broker, b"$JS.ACK.S.c.>", taker)
    worker, watcher = client(broker), client(broker)
    watcher.say(b"SUB elsewhere.> 1\r\n")
    worker.say(ack(1) + ack(2))
    assert taker.taken == []
    assert watcher.heard().count(b"MSG elsewhere.1.") == 2


def long_ack(number: int) -> bytes:
    return ack(number).replace(b"$JS.ACK.", b"$JS.ACK.hub.HASH.")


def test_acks_with_domain_and_account_are_read_where_they_lie_too() -> None:
    broker, taker, other = make_broker(), Taker(), Taker()
    listen(broker, b"$JS.ACK.hub.HASH.S.c.*.*.*.*.>", taker)
    listen(broker, b"$JS.ACK.hub.HASH.S.cc.*.*.*.*.>", other)
    client(broker).say(long_ack(1) + long_ack(2) + long_ack(3))
    assert len(taker.taken) == 3
    assert taker.in_place == 2
    assert not other.taken


@pytest.mark.parametrize(
    "pattern",
    [
        b"$JS.ACK.hub.HASH.S.c.1.2.2.7.0",
        b"$JS.ACK.hub.HASH.S.c.*.2.>",
        b"$JS.ACK.hub.HASH.S.c.*.*.*.*.*",
        b"$JS.ACK.hub.HASH.S.c.*.*.*.*.*.>",
        b"$JS.ACK.hub.*.S.c.*.*.2.>",
    ],
)
def test_a_pattern_that_depends_on_the_numbers_is_asked_each_time(pattern: bytes) -> None:
    broker, taker, other = make_broker(), Taker(), Taker()
    listen(broker, b"$JS.ACK.hub.HASH.S.c.*.*.*.*.>", taker)
    listen(broker, pattern, other)
    client(broker).say(long_ack(1) + long_ack(2) + long_ack(3))
    assert len(taker.taken) == 3
    assert len(other.taken) == {b"*": 3, b">": 0 if pattern.count(b".") == 11 else 1}.get(pattern[-1:], 1)
    assert taker.in_place == 0
