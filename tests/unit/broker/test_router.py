"""Routes: who gets a message, from the cache or not, and when a cached answer is no longer true."""

import itertools

import pytest

from millstream.broker.router import SubjectSpace
from millstream.broker.routes import Subscriber, Subscription, Target
from millstream.protocol.parser import Frame, make_frame


class Receiver(Subscriber):
    """Remembers what it got; refuses when told to."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, bytes]] = []
        self.refuses = False

    def deliver(self, target: Target, frame: Frame, source: Subscriber | None) -> bool:
        if self.refuses:
            return False
        self.got.append((target.subject, frame.payload()))
        return True


def subscribe(
    space: SubjectSpace, subject: bytes, queue: bytes | None = None, receiver: Receiver | None = None
) -> tuple[Receiver, Subscription]:
    receiver = receiver or Receiver()
    subscription = Subscription(receiver, subject, queue, b"1")
    space.subscribe(subscription)
    return receiver, subscription


def publish(space: SubjectSpace, subject: bytes, payload: bytes = b"") -> int:
    return space.deliver(space.route(subject), make_frame(b"", None, payload), None)


def test_every_plain_subscriber_and_one_of_each_group_gets_the_message() -> None:
    space = SubjectSpace("A", 7)
    plain = [subscribe(space, pattern)[0] for pattern in (b"a.b", b"a.*", b">")]
    group = [subscribe(space, pattern, b"q")[0] for pattern in (b"a.b", b"a.>", b"*.b")]
    other = subscribe(space, b"a.b", b"r")[0]
    elsewhere = subscribe(space, b"a.c")[0]
    assert publish(space, b"a.b", b"x") == 5
    assert [receiver.got for receiver in (*plain, other)] == [[(b"a.b", b"x")]] * 4
    assert sum(len(receiver.got) for receiver in group) == 1
    assert elsewhere.got == []


def test_a_target_has_the_start_of_its_line_ready() -> None:
    space = SubjectSpace("A", 7)
    space.subscribe(Subscription(Receiver(), b"a.*", None, b"42"))
    (target,) = space.route(b"a.b").plain
    assert (target.subject, target.prefix()) == (b"a.b", b"MSG a.b 42 ")


def test_the_same_subject_gives_the_same_route_until_a_subscription_touches_it() -> None:
    space = SubjectSpace("A", 7)
    route = space.route(b"a.b")
    assert space.route(b"a.b") is route
    subscribe(space, b"x")
    subscribe(space, b"a.b.>")
    subscribe(space, b"*")
    assert space.route(b"a.b") is route
    assert route.valid
    _, subscription = subscribe(space, b"a.>")
    assert not route.valid
    second = space.route(b"a.b")
    assert second.receivers() == 1
    space.unsubscribe(subscription)
    assert not second.valid
    assert space.route(b"a.b").receivers() == 0


@pytest.mark.parametrize("pattern", [b"a.b", b"a.*", b"*.b", b"a.>", b">", b"*.*"])
def test_subscribing_and_unsubscribing_drop_exactly_the_routes_that_match(pattern: bytes) -> None:
    space = SubjectSpace("A", 7)
    touched = space.route(b"a.b")
    safe = space.route(b"c")  # matched by > only
    _, subscription = subscribe(space, pattern)
    assert not touched.valid
    assert safe.valid is (pattern != b">")
    touched, safe = space.route(b"a.b"), space.route(b"c")
    space.unsubscribe(subscription)
    assert not touched.valid
    assert safe.valid is (pattern != b">")


def test_a_wildcard_subscription_reaches_every_one_of_many_cached_routes() -> None:
    space = SubjectSpace("A", 7)
    routes = [space.route(b"a.%d" % number) for number in range(5000)]
    receiver, _ = subscribe(space, b"a.*")
    assert not any(route.valid for route in routes)
    assert publish(space, b"a.4999") == 1
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("subject", "pattern", "dropped"),
    [
        (b"a.b.c", b"a.b.*", True),
        (b"a.b.c", b"a.b.>", True),
        (b"a.b.c", b"a.*.c", True),
        (b"a.b.c", b"*.b.c", True),
        (b"a.b.c", b"a.>", True),
        (b"a.b.c", b">", True),
        (b"a.b.c", b"a.b.*.d", False),
        (b"a.b.c", b"a.c.*", False),
        (b"a.b", b"a.b.>", False),
        (b"a.b", b"a.*", True),
        (b"a.b", b"*.*", True),
        (b"a.b", b"a.>", True),
        (b"a.b", b"*.>", True),
        (b"a.b.c", b"*.>", True),
        (b"a.b", b"a.*.*", False),
        (b"a.b", b"*", False),
        (b"a", b"*", True),
        (b"a", b">", True),
        (b"a", b"a.*", False),
    ],
)
def test_a_pattern_drops_a_route_by_its_first_two_tokens_or_by_all_of_them(
    subject: bytes, pattern: bytes, dropped: bool
) -> None:
    space = SubjectSpace("A", 7)
    route, other = space.route(subject), space.route(b"x.y.z")
    subscribe(space, pattern)
    assert route.valid is not dropped
    assert other.valid is (pattern not in (b">", b"*.>"))
    assert space.route(subject).receivers() == int(dropped)


def test_of_many_routes_with_the_same_start_all_are_dropped_and_no_others() -> None:
    space = SubjectSpace("A", 7)
    routes = [space.route(b"a.b.%d" % number) for number in range(2000)]
    other = space.route(b"a.c.1")
    subscribe(space, b"a.b.*.x")
    assert not any(route.valid for route in routes)
    assert other.valid
    assert len(space.routes) == 1


def test_a_subscriber_that_has_gone_is_left_out_of_new_routes() -> None:
    space = SubjectSpace("A", 7)

    class Leaving(Receiver):
        def gone(self) -> bool:
            return True

    subscribe(space, b"a", receiver=Leaving())
    subscribe(space, b"a", b"q", receiver=Leaving())
    stays, _ = subscribe(space, b"a", b"q")
    assert space.route(b"a").receivers() == 1
    assert publish(space, b"a") == 1
    assert len(stays.got) == 1


def test_a_space_that_is_cleared_has_nothing_left() -> None:
    space = SubjectSpace("A", 7)
    subscribe(space, b"a.*")
    route = space.route(b"a.b")
    space.clear()
    assert not route.valid
    assert space.tree.root.is_empty()
    assert publish(space, b"a.b") == 0


def test_the_cache_is_bounded_and_dropped_routes_are_marked() -> None:
    space = SubjectSpace("A", 7)
    first = space.route(b"s.0")
    for number in range(1, 66_000):
        space.route(b"s.%d" % number)
    assert len(space.routes) <= 65_536
    assert not first.valid


def test_dropping_all_routes_marks_them() -> None:
    space = SubjectSpace("A", 7)
    routes = [space.route(subject) for subject in (b"a", b"b")]
    space.drop_all_routes()
    assert [route.valid for route in routes] == [False, False]
    assert space.routes == {}


def test_lookups_and_hits_are_counted() -> None:
    space = SubjectSpace("A", 7)
    for subject in (b"a", b"a", b"b", b"a"):
        space.route(subject)
    assert (space.lookups, space.cache_hits) == (4, 2)


def test_a_literal_wildcard_subject_is_a_subject_of_its_own() -> None:
    space = SubjectSpace("A", 7)
    route = space.route(b"a.*")
    receiver, _ = subscribe(space, b"a.b")
    assert publish(space, b"a.*") == 0
    subscribe(space, b"a.*", None, receiver)
    assert not route.valid
    assert publish(space, b"a.*") == 1


def test_a_group_member_that_refuses_passes_the_message_on() -> None:
    space = SubjectSpace("A", 7)
    members = [subscribe(space, b"a", b"q")[0] for _ in range(3)]
    members[0].refuses = members[2].refuses = True
    assert [publish(space, b"a") for _ in range(50)] == [1] * 50
    assert [len(member.got) for member in members] == [0, 50, 0]
    members[1].refuses = True
    assert publish(space, b"a") == 0


def test_refusals_of_plain_subscribers_are_not_counted() -> None:
    space = SubjectSpace("A", 7)
    first, _ = subscribe(space, b"a")
    subscribe(space, b"a")
    first.refuses = True
    assert publish(space, b"a") == 1


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 8, 16])
@pytest.mark.parametrize("seed", [1, 12345, 2**31 - 2])
def test_a_group_shares_the_load_evenly(count: int, seed: int) -> None:
    space = SubjectSpace("A", seed)
    members = [subscribe(space, b"a", b"q")[0] for _ in range(count)]
    total = 400 * count
    for _ in range(total):
        assert publish(space, b"a") == 1
    shares = [len(member.got) for member in members]
    expected = total / count
    chi_square = sum((share - expected) ** 2 / expected for share in shares)
    assert chi_square < 20 + 2 * count  # far beyond chance for up to 15 degrees of freedom
    assert min(shares) > expected * 0.7


def test_consecutive_picks_do_not_simply_alternate() -> None:
    space = SubjectSpace("A", 12345)
    members = [subscribe(space, b"a", b"q")[0] for _ in range(2)]
    picks = []
    for _ in range(200):
        publish(space, b"a")
        picks.append(len(members[0].got) > picks.count(True))
    changes = sum(a != b for a, b in itertools.pairwise(picks))
    assert 60 < changes < 140


def test_a_rewritten_subscription_sees_its_own_subject_or_is_left_out() -> None:
    space = SubjectSpace("A", 7)
    receiver, subscription = subscribe(space, b"in.*")
    subscription.rewrite = lambda subject: b"out." + subject if subject != b"in.secret" else None
    assert publish(space, b"in.x") == 1
    assert publish(space, b"in.secret") == 0
    assert receiver.got == [(b"out.in.x", b"")]


def test_a_group_whose_members_are_all_left_out_is_no_receiver() -> None:
    space = SubjectSpace("A", 7)
    _, subscription = subscribe(space, b"a", b"q")
    subscription.rewrite = lambda subject: None
    assert space.route(b"a").receivers() == 0


def test_a_subscriber_that_leaves_while_a_message_is_delivered_does_not_disturb_the_others() -> None:
    space = SubjectSpace("A", 7)

    class Leaver(Receiver):
        def deliver(self, target: Target, frame: Frame, source: Subscriber | None) -> bool:
            space.unsubscribe(target.subscription)
            return super().deliver(target, frame, source)

    leavers = [subscribe(space, b"a", None, Leaver())[0] for _ in range(3)]
    stayer, _ = subscribe(space, b"a")
    assert publish(space, b"a") == 4
    assert publish(space, b"a") == 1
    assert [len(leaver.got) for leaver in leavers] == [1, 1, 1]
    assert len(stayer.got) == 2


def test_a_plain_subscriber_must_say_how_it_takes_messages() -> None:
    space = SubjectSpace("A", 7)
    space.subscribe(Subscription(Subscriber(), b"a", None, b""))
    with pytest.raises(NotImplementedError):
        Subscriber().deliver(space.route(b"a").plain[0], make_frame(b"", None, b""), None)
