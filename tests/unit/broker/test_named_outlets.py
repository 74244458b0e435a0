"""Subscribers that count as listening to the destination of an outlet."""

import pytest

from millstream.broker.options import AccountOptions
from millstream.broker.outlet import SubjectOutlet
from millstream.broker.router import SubjectSpace
from millstream.broker.routes import Subscriber, Subscription
from millstream.protocol.parser import make_frame
from tests.kits.broker import client, make_accounts


def listening(space: SubjectSpace, pattern: bytes, queue: bytes | None = None) -> Subscription:
    subscription = Subscription(Subscriber(), pattern, queue, b"1")
    space.subscribe(subscription)
    return subscription


@pytest.mark.parametrize(
    ("pattern", "queue", "group", "counts"),
    [
        (b"d.here", None, None, True),
        (b"d.*", None, None, False),
        (b">", None, None, False),
        (b"d.here", b"q", None, False),
        (b"d.here", b"q", b"q", True),
        (b"d.here", b"other", b"q", False),
        (b"d.here", None, b"q", False),
        (b"d.*", b"q", b"q", False),
    ],
)
def test_only_who_names_the_destination_counts(
    pattern: bytes, queue: bytes | None, group: bytes | None, counts: bool
) -> None:
    space = SubjectSpace("A", 7)
    outlet = SubjectOutlet(space, b"d.here", group)
    assert not outlet.is_named()
    subscription = listening(space, pattern, queue)
    assert outlet.is_named() is counts
    space.unsubscribe(subscription)
    assert not outlet.is_named()


def test_one_among_others_is_enough() -> None:
    space = SubjectSpace("A", 7)
    outlet = SubjectOutlet(space, b"d", b"q")
    for pattern, queue in ((b">", None), (b"*", b"q"), (b"d", b"r"), (b"d", b"q")):
        listening(space, pattern, queue)
    assert outlet.is_named()


def test_a_message_under_the_name_of_the_destination_is_seen_as_published_there() -> None:
    broker = make_accounts(AccountOptions(name="A"))
    outlet = SubjectOutlet(broker.accounts["A"].space, b"inbox")
    receiver = client(broker, "A")
    receiver.say(b"SUB inbox 1\r\nSUB * 2\r\n")
    assert outlet.send(b"inbox", make_frame(b"", None, b"hi")) == 2
    assert outlet.send(b"other", make_frame(b"", None, b"hi")) == 2
    broker.tick.flush()
    heard = receiver.heard()
    assert all(
        heard.count(b"MSG %b %d 2\r\nhi" % (name, sid)) == 1
        for name in (b"inbox", b"other")
        for sid in (1, 2)
    )


def test_an_outlet_that_sent_nothing_knows_who_is_behind() -> None:
    space = SubjectSpace("A", 7)
    outlet = SubjectOutlet(space, b"inbox")
    assert not outlet.behind()
    space.subscribe(Subscription(Slow(), b"inbox", None, b"1"))
    assert outlet.behind()


class Slow(Subscriber):
    def behind(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("slow", "waits"),
    [
        ([(b">", None)], False),
        ([(b"d.>", None), (b"*.here", None)], False),
        ([(b"d.here", None)], True),
        ([(b"d.here", b"q")], True),
    ],
)
def test_a_sender_does_not_wait_for_one_that_listens_to_more(
    slow: list[tuple[bytes, bytes | None]], waits: bool
) -> None:
    space = SubjectSpace("A", 7)
    outlet = SubjectOutlet(space, b"d.here")
    listening(space, b"d.here")
    for pattern, queue in slow:
        space.subscribe(Subscription(Slow(), pattern, queue, b"1"))
    assert outlet.behind() is waits


def test_a_requester_that_listens_to_all_its_inboxes_is_waited_for() -> None:
    space = SubjectSpace("A", 7)
    outlet = SubjectOutlet(space, b"_INBOX.me.1")
    for pattern in (b">", b"_INBOX.>"):
        listening(space, pattern)
    assert not outlet.behind()
    space.subscribe(Subscription(Slow(), b"_INBOX.me.*", None, b"1"))
    assert outlet.behind()


def test_a_sender_to_a_group_waits_until_one_of_the_group_is_ready() -> None:
    space = SubjectSpace("A", 7)
    outlet = SubjectOutlet(space, b"d.here", b"q")
    for queue in (None, b"other", b"q"):
        space.subscribe(Subscription(Slow(), b"d.here", queue, b"1"))
    assert outlet.behind()
    listening(space, b"d.here", b"q")
    assert not outlet.behind()
